"""Hybrid search: two layers, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import fields
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kingly_memory.errors import RemoteError, RemoteRefused
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Results, Source
from kingly_memory.observe import LinkChanged
from kingly_memory.ports import (
    Changes,
    DocumentChanges,
    Remote,
    RemoteDocument,
    RemoteHit,
    RemoteInfo,
    RemoteLink,
    RemoteMarks,
)
from kingly_memory.router.search import remote_cache, search
from kingly_memory.router.search.local import LEAST_BUDGET_S, LocalAnswer, LocalSearch
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import FakeRemote, ManualClock
from kingly_memory.validation import CONTENT_LIMIT_BYTES, Imported, draft
from tests.router_bench import PromptStore, router_over

SETTINGS = Settings(durability="process", pace=Pace(closing_s=0.0), remote_search_s=0.15, local_search_s=0.1)


class Bench:
    """A router over a fake remote, on a clock of its own."""

    def __init__(self, home: Path, *, remote: Remote | None = None) -> None:
        self.clock = ManualClock()
        self.remote = FakeRemote(clock=self.clock)
        self.changes: list[LinkChanged] = []
        self.router = router_over(
            PromptStore(home),
            remote or self.remote,
            self.clock,
            settings=SETTINGS,
            observers=(lambda event: self.changes.append(event) if isinstance(event, LinkChanged) else None,),
        )

    async def store(self, content: str, **said: Any) -> str:
        receipt = await self.router.store(content, **said)
        await self.router.sync(timeout=5)
        return receipt.id

    async def texts(self, query: str, **filters: Any) -> list[str]:
        return [hit.memory.content for hit in await self.router.search(query, **filters)]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "home")
    async with made.router:
        await made.router.sync(timeout=5)
        yield made


def only_remote(content: str, **said: Any) -> RemoteHit:
    return RemoteHit(f"theirs-{content}", content, 0.9, None, said)


async def test_whatever_kind_of_remote_trouble_it_is_search_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.store("The kettle whistles")

    async def troubled(*_: object, **__: object) -> list[RemoteHit]:
        raise RemoteError("it has no words for this")

    monkeypatch.setattr(bench.remote, "search", troubled)
    found = await bench.router.search("kettle")
    assert [hit.memory.content for hit in found] == ["The kettle whistles"]
    assert "it has no words for this" in str(found.to_json())


@pytest.mark.requirement("KNG-011")
@pytest.mark.requirement("KNG-018")
@pytest.mark.requirement("KNG-055")
async def test_local_only_memories_are_found_beside_remote_ones(bench: Bench) -> None:
    await bench.store("deploy on tuesday", significance=0.9)
    await bench.store("deploy quietly", significance=0.1)
    bench.remote.elsewhere = [only_remote("deploy from elsewhere")]
    found = await bench.router.search("deploy")
    assert found.source is Source.HYBRID
    assert set(found.layers) == {"local", "remote"}
    assert {hit.memory.content for hit in found} == {"deploy on tuesday", "deploy quietly", "deploy from elsewhere"}
    relevances = [hit.relevance for hit in found]
    assert relevances == sorted(relevances, reverse=True)
    assert len(await bench.router.search("deploy", limit=2)) == 2


@pytest.mark.requirement("KNG-021")
async def test_memory_that_both_layers_know_appears_once(bench: Bench) -> None:
    await bench.store("deploy on tuesday", significance=0.9)
    (hit,) = await bench.router.search("deploy tuesday")
    assert hit.layers == ("local", "remote")


@pytest.mark.requirement("KNG-021")
async def test_memory_without_our_id_is_joined_by_the_remote_id(bench: Bench) -> None:
    memory_id = await bench.store("deploy on tuesday", significance=0.9)
    (remote_id,) = bench.remote.memories
    bench.remote.memories.clear()
    bench.remote.elsewhere = [RemoteHit(remote_id, "deploy on tuesday", 0.8)]
    (hit,) = await bench.router.search("deploy")
    assert hit.memory.id == memory_id


@pytest.mark.requirement("KNG-017")
@pytest.mark.requirement("KNG-054")
async def test_speed_is_local_and_never_asks_the_remote(bench: Bench) -> None:
    await bench.store("deploy on tuesday", significance=0.9)
    found = await bench.router.search("deploy", prefer_speed=True)
    assert (found.source, len(found)) == (Source.LOCAL, 1)
    assert bench.remote.named("search") == []


@pytest.mark.requirement("KNG-017")
async def test_speed_asks_the_remote_when_the_local_layer_has_nothing(bench: Bench) -> None:
    bench.remote.elsewhere = [only_remote("somewhere else")]
    found = await bench.router.search("unheard of", prefer_speed=True)
    assert (found.source, len(found)) == (Source.HYBRID, 1)


@pytest.mark.requirement("KNG-019")
async def test_search_without_semantics_is_no_fallback(bench: Bench) -> None:
    found = await bench.router.search("anything", include_semantic=False)
    assert found.source is Source.LOCAL
    assert bench.remote.named("search") == []


@pytest.mark.requirement("KNG-012")
@pytest.mark.requirement("KNG-019")
async def test_search_falls_back_and_says_why(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    bench.remote.down = True
    found = await bench.router.search("deploy")
    assert (found.source, len(found)) == (Source.LOCAL_FALLBACK, 1)
    assert "down" in found.failures["remote"]
    assert set(found.layers) == {"local"}


@pytest.mark.requirement("KNG-013")
@pytest.mark.requirement("KNG-076")
@pytest.mark.requirement("KNG-089")
async def test_hung_remote_costs_its_budget_and_no_more(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    bench.remote.hang()
    found = await answered(bench, "deploy")
    assert (found.source, len(found)) == (Source.LOCAL_FALLBACK, 1)
    assert found.took_ms <= 150
    assert bench.remote.named("search")[0].arguments["timeout_s"] == 0.15


@pytest.mark.requirement("KNG-080")
async def test_search_costs_nothing_extra_once_the_link_is_known_offline(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    bench.remote.hang()
    for _ in range(3):
        await answered(bench, "deploy")
    asked = len(bench.remote.named("search"))
    found = await bench.router.search("deploy")
    assert found.took_ms == 0
    assert (found.source, len(found)) == (Source.LOCAL_FALLBACK, 1)
    assert len(bench.remote.named("search")) == asked
    assert [change.state for change in bench.changes] == ["offline"]


async def test_processes_on_one_home_count_failures_together(tmp_path: Path) -> None:
    """Short commands that each meet a silent remote know together that it is offline: none of them alone does."""
    states: list[str] = []
    for _ in range(3):
        bench = Bench(tmp_path / "home")
        async with bench.router:
            if not states:
                await bench.router.sync(timeout=5)
            await bench.router.store("deploy on tuesday", significance=0.1)
            bench.remote.hang()
            await answered(bench, "deploy")
            states.append((await bench.router.status())["link"]["state"])
            if states[-1] == "offline":
                break
    assert states[0] == "connected"
    assert states[-1] == "offline"


@pytest.mark.requirement("KNG-020")
@pytest.mark.parametrize("path", ["local", "hybrid", "fallback"])
async def test_type_filter_holds_on_every_path(bench: Bench, path: str) -> None:
    await bench.store("deploy episode", type="episodic")
    await bench.store("deploy fact", type="semantic")
    bench.remote.elsewhere = [
        only_remote("deploy foreign", type="procedural"),
        only_remote("deploy foreign episode", type="episodic"),
    ]
    bench.remote.down = path == "fallback"
    found = await bench.texts("deploy", types=["episodic"], include_semantic=path != "local")
    extra = {"deploy foreign episode"} if path == "hybrid" else set()
    assert set(found) == {"deploy episode"} | extra


async def test_every_filter_holds_for_remote_hits(bench: Bench) -> None:
    mine = {"scope": {"project": "app", "agent": "a", "context_id": "c"}, "tags": ["t"]}
    bench.remote.elsewhere = [only_remote("deploy mine", **mine), only_remote("deploy other")]
    assert await bench.texts("deploy", context_id="c") == ["deploy mine"]
    assert await bench.texts("deploy", agent="a") == ["deploy mine"]
    assert await bench.texts("deploy", tags=["t"]) == ["deploy mine"]
    assert await bench.texts("deploy", until="1999-01-01") == []


async def test_forgotten_memory_stays_out_even_if_the_remote_still_has_it(bench: Bench) -> None:
    memory_id = await bench.store("deploy on tuesday")
    await bench.router.forget(memory_id)
    assert len(bench.remote.memories) == 1
    assert await bench.texts("deploy") == []


async def test_what_only_the_remote_had_stays_findable_offline(bench: Bench) -> None:
    bench.remote.elsewhere = [only_remote("deploy from elsewhere")]
    assert await bench.texts("deploy") == ["deploy from elsewhere"]
    assert await bench.texts("deploy") == ["deploy from elsewhere"]
    await bench.router._engine.flush()
    bench.remote.down = True
    (hit,) = await bench.router.search("deploy")
    assert hit.memory.origin == "remote"
    assert (await bench.router.status())["memories"]["total"] == 0
    bench.clock.jump(remote_cache.LIFETIME_S)
    assert await bench.texts("deploy") == []


@pytest.mark.parametrize("content", ["", "   ", "\x00", "x" * 1_100_000])
async def test_remote_hit_that_makes_no_memory_is_left_out_or_whole(bench: Bench, content: str) -> None:
    bench.remote.elsewhere = [RemoteHit("r", content, 0.9, None, {"type": ["odd"], "tags": 7})]
    assert await bench.texts("deploy") == []


@pytest.mark.parametrize(("length", "found"), [(CONTENT_LIMIT_BYTES, 1), (CONTENT_LIMIT_BYTES + 1, 0)])
async def test_remote_hit_may_be_as_long_as_a_memory(bench: Bench, length: int, found: int) -> None:
    bench.remote.elsewhere = [RemoteHit("r", "deploy ".ljust(length, "x"), 0.9)]
    assert len(await bench.texts("deploy")) == found


@pytest.mark.parametrize("waited_s", [0.0, 0.06, 7_000.0])
async def test_time_spent_waiting_for_a_thread_comes_off_the_local_budget(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, waited_s: float
) -> None:
    left_s = max(SETTINGS.local_search_s - waited_s, LEAST_BUDGET_S)
    moments = chain([100.0], repeat(100.0 + waited_s))
    budgets: list[float] = []

    def look(self: LocalSearch, query: Query, *, now_s: float, budget_s: float, **_: object) -> LocalAnswer:
        budgets.append(budget_s)
        return LocalAnswer((), 0.0)

    monkeypatch.setattr(LocalSearch, "search", look)
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    await bench.router.search("anything", include_semantic=False)
    assert budgets[0] == pytest.approx(left_s)


async def answered(bench: Bench, query: str) -> Results:
    """Search, and move the clock just past the remote's budget once the remote has been asked."""
    asked = len(bench.remote.named("search"))
    search = asyncio.ensure_future(bench.router.search(query))
    for _ in range(10_000):
        if len(bench.remote.named("search")) > asked:
            break
        await asyncio.sleep(0)
    await bench.clock.advance(SETTINGS.remote_search_s)
    return await search


@pytest.mark.requirement("KNG-081")
async def test_a_thousand_memories_are_searched_within_both_budgets(bench: Bench) -> None:
    await bench.router.remember(Imported(draft(f"note {n} about deploys")) for n in range(1_000))
    found = await bench.router.search("deploys 512")
    assert found.source is Source.HYBRID
    assert not any(report.cut for report in found.layers.values())
    assert found.hits[0].memory.content == "note 512 about deploys"
    # How long that takes says `make bench`. Both sides have their time at once, and here a hung remote takes all of it.
    budgets: dict[str, Any] = {one.name: one.default for one in fields(Settings)}
    bench.remote.hang()
    assert (await answered(bench, "deploys 512")).took_ms <= 1_000 * budgets["remote_search_s"]
    assert max(budgets["local_search_s"], budgets["remote_search_s"]) < 0.2


class Notebook:
    """Somebody else's remote: nothing of ours but the methods of the port."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    async def connect(self) -> RemoteInfo:
        return RemoteInfo("notebook", honours_keys=False)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        self.pages.append(memory.content)
        return f"page-{len(self.pages)}"

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        return await self.store(memory, idempotency_key=idempotency_key, remote_id=None, repeated=repeated)

    async def mark(self, marks: RemoteMarks) -> None:
        raise NotImplementedError

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        raise RemoteRefused("a notebook has no links", clear=True, unknown_method=True)

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        return remote_id

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        return None

    async def put_documents(self, documents: Sequence[RemoteDocument]) -> None:
        raise NotImplementedError

    async def store_many(self, memories: Sequence[tuple[Memory, str]]) -> Sequence[str | RemoteRefused]:
        raise NotImplementedError

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        return None

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        return [RemoteHit(f"page-{n}", page, 0.5) for n, page in enumerate(self.pages, start=1)]

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        return []

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        return []

    async def aclose(self) -> None:
        """Nothing to close."""


@pytest.mark.requirement("KNG-072")
@pytest.mark.requirement("KNG-090")
async def test_any_object_with_the_methods_of_the_port_can_be_the_remote(tmp_path: Path) -> None:
    notebook = Notebook()
    bench = Bench(tmp_path / "home", remote=notebook)
    async with bench.router:
        await bench.store("deploy on tuesday")
        (hit,) = await bench.router.search("deploy")
        assert hit.layers == ("local", "remote")
        assert (await bench.router.status())["link"]["effects"] == "at_least_once"
    assert notebook.pages == ["deploy on tuesday"]


@pytest.mark.requirement("KNG-061")
@pytest.mark.parametrize("kind", ["task_status", "current_context", "quick_lookups"])
async def test_kinds_that_are_wanted_at_once_are_answered_by_this_machine(bench: Bench, kind: Any) -> None:
    await bench.store("deploy is at step 3", type=kind, significance=0.9)
    found = await bench.router.search("deploy step", types=[kind])
    assert (found.source, len(found)) == (Source.LOCAL, 1)
    assert bench.remote.named("search") == []


@pytest.mark.requirement("KNG-062")
@pytest.mark.parametrize("kind", ["historical_patterns", "deep_insights", "relationship_maps"])
async def test_kinds_that_are_wanted_well_ask_the_remote_even_in_a_hurry(bench: Bench, kind: Any) -> None:
    await bench.store("deploys fail on fridays", type=kind, significance=0.9)
    assert len(bench.remote.named("store")) == 1
    found = await bench.router.search("deploys fail", types=[kind], prefer_speed=True)
    assert (found.source, len(found)) == (Source.HYBRID, 1)
    assert len(bench.remote.named("search")) == 1
