"""The router without a remote: everything works with nothing set."""

from __future__ import annotations

import asyncio
import inspect
import os
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter, Settings, SyncMemoryRouter
from kingly_memory.dataclass import replace
from kingly_memory.models import DeliveryState, LinkState, Source
from kingly_memory.testing import ManualClock


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", project="app", clock=ManualClock()) as router:
        yield router


def with_clock(home: Path, clock: ManualClock, project: str = "app") -> MemoryRouter:
    return MemoryRouter.open(home, project=project, clock=clock)


@pytest.mark.requirement("KNG-044")
@pytest.mark.requirement("UNI-006")
async def test_store_search_get_forget_restore_need_no_remote(memory: MemoryRouter) -> None:
    receipt = await memory.store("Deploys go out on Tuesdays", key="deploys", tags=["ops"])
    assert (receipt.revision, receipt.layers, receipt.delivery) == (1, ("local",), DeliveryState.LOCAL_ONLY)
    found = await memory.search("when do deploys go out")
    assert found.source is Source.LOCAL
    assert [hit.memory.id for hit in found] == [receipt.id]
    stored = await memory.get("deploys")
    assert stored is not None
    assert stored == await memory.get(receipt.id)
    assert await memory.forget("deploys") == stored
    assert await memory.get("deploys") is None
    assert len(await memory.search("deploys")) == 0
    brought_back = await memory.restore("deploys")
    assert brought_back is not None
    assert brought_back == await memory.get("deploys")
    assert brought_back == replace(stored, updated_at=brought_back.updated_at)
    assert len(await memory.search("deploys")) == 1


@pytest.mark.parametrize("name", ["a\x00b", "k" * 10_000, ""])
async def test_hostile_names_are_refused_by_every_verb(memory: MemoryRouter, name: str) -> None:
    for verb in (memory.get, memory.forget, memory.restore):
        with pytest.raises(InvalidInput, match="key_or_id"):
            await verb(name)


@pytest.mark.requirement("KNG-085")
async def test_refused_memory_leaves_nothing_behind(memory: MemoryRouter) -> None:
    with pytest.raises(InvalidInput, match="significance"):
        await memory.store("half a thing", key="half", significance=2)
    assert await memory.get("half") is None
    assert (await memory.status())["memories"]["total"] == 0


@pytest.mark.requirement("KNG-014")
@pytest.mark.requirement("KNG-015")
@pytest.mark.requirement("COG-059")
async def test_hits_come_with_relevance_and_type_best_first(memory: MemoryRouter) -> None:
    await memory.store("the cache is stale after a deploy", type="episodic")
    await memory.store("the cache", type="procedural")
    await memory.store("a deploy of the stale cache, deploy, cache, stale", type="semantic")
    hits = list(await memory.search("stale cache deploy"))
    relevances = [hit.relevance for hit in hits]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= relevance <= 1 for relevance in relevances)
    assert {hit.memory.type.value for hit in hits} == {"episodic", "procedural", "semantic"}


@pytest.mark.requirement("COG-058")
async def test_filters_narrow_a_search(memory: MemoryRouter) -> None:
    await memory.store("note one", type="episodic", tags=["a", "b"], context_id="c1")
    await memory.store("note two", type="semantic", tags=["a"], context_id="c2")

    async def found(**filters: object) -> set[str]:
        return {hit.memory.content for hit in await memory.search("note", **filters)}  # type: ignore[arg-type]

    assert await found() == {"note one", "note two"}
    assert await found(types=["episodic"]) == {"note one"}
    assert await found(types=["conversation_context", "semantic"]) == {"note one", "note two"}
    assert await found(tags=["a"]) == {"note one", "note two"}
    assert await found(tags=["a", "b"]) == {"note one"}
    assert await found(context_id="c2") == {"note two"}
    assert await found(agent="somebody") == set()


async def test_time_filters_are_inclusive(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    async with with_clock(tmp_path / "home", clock) as memory:
        await memory.store("note first")
        await clock.advance(60)
        await memory.store("note second")
        noon = clock.now()
        assert [hit.memory.content for hit in await memory.search("note", since=noon)] == ["note second"]
        before = noon - timedelta(seconds=60)
        assert [hit.memory.content for hit in await memory.search("note", until=before)] == ["note first"]


@pytest.mark.requirement("KNG-048")
async def test_home_is_the_nearest_project_folder(isolated_environment: Path) -> None:
    (isolated_environment / ".git").mkdir()
    nested = isolated_environment / "deep" / "down"
    nested.mkdir(parents=True)
    async with MemoryRouter.open() as memory:
        await memory.store("found it")
        assert (await memory.status())["project"] == isolated_environment.name
    assert (isolated_environment / ".kingly" / "memory" / "store" / "cache.db").exists()


async def test_listing_pages_from_the_newest_to_the_oldest(memory: MemoryRouter) -> None:
    for number in range(5):
        await memory.store(f"note {number}")
    first = await memory.list(limit=2)
    second = await memory.list(limit=2, before=first.next_before)
    third = await memory.list(limit=2, before=second.next_before)
    assert [one.content for page in (first, second, third) for one in page] == [f"note {n}" for n in (4, 3, 2, 1, 0)]
    assert third.next_before is None


@pytest.mark.requirement("KNG-022")
@pytest.mark.requirement("UNI-008")
async def test_working_memory_ends_thirty_minutes_after_its_last_use(tmp_path: Path) -> None:
    clock = ManualClock()
    async with with_clock(tmp_path / "home", clock) as memory:
        await memory.store("scratch", key="s", type="task_cache")
        await clock.advance(29 * 60 + 59)
        assert await memory.get("s") is not None
        await clock.advance(29 * 60 + 59)
        assert len(await memory.search("scratch")) == 1
        await clock.advance(30 * 60)
        assert await memory.get("s") is None
        assert len(await memory.search("scratch")) == 0


@pytest.mark.parametrize(
    ("kind", "days"),
    [
        pytest.param("conversation_context", 7, marks=pytest.mark.requirement("KNG-058")),
        pytest.param("pattern_learning", 30, marks=pytest.mark.requirement("KNG-059")),
        pytest.param("skill_development", 90, marks=pytest.mark.requirement("KNG-060")),
    ],
)
async def test_kinds_rest_in_the_archive_so_many_days_after_their_last_use(
    tmp_path: Path, kind: Any, days: int
) -> None:
    clock = ManualClock()
    async with with_clock(tmp_path / "home", clock) as memory:
        await memory.store("a lasting thing", key="k", type=kind)
        clock.jump(days * 86_400 - 1)
        assert [hit.archived for hit in await memory.search("lasting")] == [False]
        clock.jump(days * 86_400 - 1)
        assert await memory.get("k") is not None
        clock.jump(days * 86_400)
        assert await memory.get("k") is None
        assert [hit.archived for hit in await memory.search("lasting")] == [True]
        report = await memory.sweep()
        assert (report.archived, report.erased) == (1, 0)
        assert [hit.archived for hit in await memory.search("lasting")] == [True]
        assert (await memory.status())["memories"]["archived"] == 1
        assert await memory.restore("k") is not None
        assert [hit.archived for hit in await memory.search("lasting")] == [False]


@pytest.mark.requirement("KNG-057")
@pytest.mark.requirement("KNG-084")
async def test_sweep_reports_beforehand_exactly_what_it_does(tmp_path: Path) -> None:
    clock = ManualClock()
    async with with_clock(tmp_path / "home", clock) as memory:
        for number in range(3):
            await memory.store(f"scratch {number}", type="working")
        await memory.store("what was said", type="conversation_context")
        await memory.store("fact")
        clock.jump(8 * 86_400)
        dry = await memory.sweep(dry_run=True)
        assert (await memory.status())["memories"] == {
            "total": 1,
            "by_type": {"working": 0, "episodic": 0, "semantic": 1, "procedural": 0},
            "archived": 0,
            "ended": 4,
            "next_end": None,
        }
        wet = await memory.sweep()
        assert (dry.archived, dry.erased, dry.waiting) == (wet.archived, wet.erased, wet.waiting) == (1, 3, 0)
        assert dry.dry_run
        assert (await memory.status())["memories"]["total"] == 1
        again = await memory.sweep()
        assert (again.archived, again.erased) == (0, 0)


async def test_status_has_the_shape_that_scripts_rely_on(memory: MemoryRouter) -> None:
    await memory.store("one")
    status = await memory.status()
    assert list(status) == ["home", "project", "durability", "memories", "link", "outbox", "versions"]
    assert status["durability"] == "power"
    assert status["memories"] == {
        "total": 1,
        "by_type": {"working": 0, "episodic": 0, "semantic": 1, "procedural": 0},
        "archived": 0,
        "ended": 0,
        "next_end": None,
    }
    assert status["link"]["state"] == LinkState.DISABLED
    assert {"state", "endpoint", "next_probe_s", "last_error"} <= set(status["link"])
    assert set(status["outbox"]) == {"pending", "leased", "dead", "oldest_s"}
    assert "link=disabled" in repr(memory)


@pytest.mark.requirement("N17")
@pytest.mark.parametrize(
    ("remote", "what"),
    [
        ("localhost:8000", "an address begins with http:// or https://, as in http://localhost:8000"),
        ("ftp://example.org", "an address begins with http"),
        ("not a url", "has no spaces"),
        ("http://", "names no host"),
        ("http://host:notaport", "port that cannot be read"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_when_it_is_given(tmp_path: Path, remote: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        MemoryRouter.open(tmp_path / "home", remote, project="app")
    assert not (tmp_path / "home").exists()


@pytest.mark.requirement("N17")
@pytest.mark.parametrize("home", ["/proc/nope", "/proc/nope/deeper", "/dev/null/home"])
def test_a_home_that_cannot_be_made_is_refused_when_it_is_given(home: str) -> None:
    with pytest.raises(InvalidInput, match=f"home: {home} cannot be made .*; name a folder that you may write to"):
        MemoryRouter.open(home, project="app")


@pytest.mark.requirement("N17")
def test_opening_changes_nothing_where_the_home_would_be(tmp_path: Path) -> None:
    os.utime(tmp_path, (0, 0))
    MemoryRouter.open(tmp_path / "deep" / "home", project="app")
    assert tmp_path.stat().st_mtime == 0


def test_sync_router_offers_every_verb_of_the_router() -> None:
    def verbs(owner: type) -> set[str]:
        return {name for name in dir(owner) if not name.startswith("_")}

    doors = {"find", "put"}  # for the rooms beneath
    others = {"elsewhere"}  # for integrations that await a blocking router
    assert verbs(MemoryRouter) - doors == verbs(SyncMemoryRouter) - others


@pytest.mark.requirement("KNG-016")
def test_search_takes_what_the_design_names() -> None:
    parameters = inspect.signature(MemoryRouter.search).parameters
    defaults = {name: parameters[name].default for name in ("limit", "types", "prefer_speed", "include_semantic")}
    assert "query" in parameters
    assert defaults == {"limit": 10, "types": None, "prefer_speed": False, "include_semantic": True}


class Stepping(sqlite3.Connection):
    """Counts the steps of SQLite's virtual machine, in all connections together."""

    taken = 0

    def __init__(self, *said: Any, **how: Any) -> None:
        super().__init__(*said, **how)
        super().set_progress_handler(self.step, 1)

    def set_progress_handler(self, *_: object) -> None:
        """Deadlines of searches have no say here."""

    def step(self) -> None:
        Stepping.taken += 1


@pytest.mark.requirement("KNG-052")
async def test_quick_operations_take_as_many_steps_among_a_thousand_memories_as_among_twenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long they take says `make bench`."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Stepping))
    quick, steps = Settings(durability="process", embedder="none"), list[list[int]]()
    async with MemoryRouter.open(tmp_path / "home", remote=False, project="app", settings=quick) as memory:
        for size in (20, 1_000):
            await asyncio.gather(*(memory.store(f"note {n} about deploys", key=f"k{n}") for n in range(size)))
            steps.append([])
            for n in range(60):
                operations = (memory.store(f"note {n} again", key=f"k{n}"), memory.get(f"k{n}"), memory.list(limit=10))
                before = Stepping.taken
                await operations[n % 3]
                steps[-1].append(Stepping.taken - before)
                for unused in operations:
                    unused.close()
    among_few, among_many = (sorted(taken) for taken in steps)
    assert among_many[56] <= 1.3 * among_few[56]


@pytest.mark.requirement("KNG-052")
async def test_reading_writes_nothing_to_the_disk(memory: MemoryRouter, tmp_path: Path) -> None:
    for number in range(20):
        await memory.store(f"note {number}", key=f"k{number}")
    watcher = sqlite3.connect(tmp_path / "home" / "store" / "cache.db")
    before = watcher.execute("PRAGMA data_version").fetchone()
    for number in range(20):
        assert await memory.get(f"k{number}") is not None
        assert len(await memory.search(f"note {number}")) > 0
    await memory.list()
    assert watcher.execute("PRAGMA data_version").fetchone() == before
    watcher.close()


@pytest.mark.requirement("KNG-088")
async def test_a_thousand_operations_leave_exactly_what_they_say(tmp_path: Path) -> None:
    fast = Settings(durability="process", local_search_s=10.0)
    async with MemoryRouter.open(tmp_path / "home", project="app", settings=fast) as memory:
        receipts = await asyncio.gather(*(memory.store(f"task {n} done", key=f"t{n}") for n in range(500)))
        assert len({receipt.id for receipt in receipts}) == 500
        for n in range(0, 500, 5):
            assert await memory.forget(f"t{n}") is not None
            assert await memory.get(f"t{n + 1}") is not None
    async with MemoryRouter.open(tmp_path / "home", project="app", settings=fast) as memory:
        found = await asyncio.gather(*(memory.get(f"t{n}") for n in range(500)))
        assert [one is None for one in found] == [n % 5 == 0 for n in range(500)]
        assert (await memory.status())["memories"]["total"] == 400
        assert len(await memory.search("task done", limit=1_000)) == 400


async def test_repair_never_shows_a_word_of_another_project(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        MemoryRouter.open(home, project="app") as ours,
        MemoryRouter.open(home, project="other") as theirs,
    ):
        await theirs.store("the walking tour and the zeppelin")
        await ours.store("she walks to work")
        assert dict((await ours.search("walkng")).repaired) == {"walkng": "walks"}
        assert dict((await ours.search("zepelin")).repaired) == {}
        assert dict((await theirs.search("zepelin walkng")).repaired) == {"zepelin": "zeppelin", "walkng": "walking"}


async def test_a_revision_replaces_what_it_mentions_even_when_that_is_the_default(memory: MemoryRouter) -> None:
    await memory.store("one", key="k", significance=0.9, type="working", tags=["a"], metadata={"a": 1})
    await memory.store("two", key="k", significance=0.5, type="semantic", tags=[], metadata={})
    now = await memory.get("k")
    assert now is not None
    assert (now.significance, now.type, now.tags, now.metadata) == (0.5, "semantic", (), {})


async def test_assessments_answer_no_search_unless_they_are_named(memory: MemoryRouter) -> None:
    await memory.store("migrate the users table at night", key="fact")
    for _ in range(12):
        await memory.assess_confidence("migrate the users table")
    assert [hit.memory.key for hit in await memory.search("migrate the users table")] == ["fact"]
    assert len(await memory.search("users table", tags=["confidence_assessment"], fold=False)) == 10


def test_what_is_found_is_a_short_line_at_a_prompt(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path, remote=False, project="app") as memory:
        memory.store("Deploys need two reviews. " * 40, key="deploy")
        found, page = memory.search("deploys"), memory.list()
    assert repr(found).startswith("<Results hits=1 source=local took_ms=")
    assert repr(found[0]) == f"<Hit {found[0].relevance:.2f} {page.memories[0]!r}>"
    assert repr(page.memories[0]).startswith("<Memory deploy 'Deploys need two reviews. ")
    assert repr(page) == "<Page memories=1 next_before=None>"
    assert all(len(repr(one)) < 120 for one in (found, found[0], page))
