"""The hybrid search of the tiers' design: any text is a query, and every change shows at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.app.hybrid_search import get_hybrid_memory_search
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit
from kingly_memory.ports import RemoteHit
from kingly_memory.retrieval.fusion import by_ranks, rrf
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over
from tests.store_samples import memory as remembered

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as opened:
        yield opened


@pytest.mark.requirement("ARG-048")
async def test_a_search_is_made_of_a_memory_and_finds_ten_unless_told(memory: MemoryRouter) -> None:
    search = get_hybrid_memory_search(memory)
    parameters = inspect.signature(search.search).parameters
    assert list(parameters)[:2] == ["query", "limit"]
    assert parameters["limit"].default == 10
    for number in range(12):
        await memory.store(f"SLA breach {number} of the harbour")
    assert len(await search.search("SLA breach", limit=3)) == 3
    assert len(await search.search("SLA breach")) == 10
    assert len(await search.search("SLA breach", tags=["none"])) == 0


@pytest.mark.requirement("ARG-048")
async def test_it_takes_the_router_of_code_that_does_not_await_too(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as router:
        router.store("SLA breach")
        assert len(await get_hybrid_memory_search(router).search("SLA breach")) == 1


@pytest.mark.parametrize("memory", [None, "home", object()])
def test_what_is_no_memory_is_refused(memory: Any) -> None:
    with pytest.raises(InvalidInput, match="memory: expected a MemoryRouter, not "):
        get_hybrid_memory_search(memory)


@pytest.mark.requirement("ARG-049")
async def test_what_is_new_changed_or_forgotten_shows_at_once(memory: MemoryRouter) -> None:
    search = get_hybrid_memory_search(memory)

    async def found(query: str) -> list[str]:
        return [hit.memory.content for hit in await search.search(query)]

    await memory.store("SLA breach in March", key="k")
    assert await found("breach") == ["SLA breach in March"]
    await memory.store("SLA kept in April", key="k")
    assert (await found("breach"), await found("April")) == ([], ["SLA kept in April"])
    await memory.forget("k")
    assert await found("April") == []
    await memory.restore("k")
    assert await found("April") == ["SLA kept in April"]


SIGNS = """" ' * ^ ( ) : - + NEAR( NEAR/2 AND OR NOT title: { } SLA % _ \\ ; -- 🚢 東京 é""".split()
SYNTAX = st.lists(st.sampled_from([*SIGNS, "\x00", "\ud800", "\udfff", "\u202e", "\n", " "]), max_size=30).map("".join)


@pytest.mark.requirement("ARG-050")
def test_no_query_ever_raises(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as router:
        router.store('The SLA breach was "NEAR" the harbour* 🚢 OR not', title="SLA")
        search = get_hybrid_memory_search(router)

        @given(query=(SYNTAX | st.text(st.characters(), max_size=200)).filter(str.strip))
        def asked(query: str) -> None:
            found = asyncio.run(search.search(query))
            assert all(0 <= hit.relevance <= 1 for hit in found)

        asked()


@pytest.mark.requirement("ARG-050")
@pytest.mark.parametrize(
    "query", ['"SLA"', "SLA*", "SLA AND", "(SLA", "SLA NEAR/", "title:SLA", "SLA\x00", "SLA 🚢", "-SLA"]
)
async def test_signs_of_a_query_language_do_not_hide_what_is_meant(memory: MemoryRouter, query: str) -> None:
    await memory.store("SLA breach")
    assert len(await get_hybrid_memory_search(memory).search(query)) == 1


@pytest.mark.requirement("ARG-046")
@pytest.mark.parametrize(("meaning", "words"), [("remote", "local"), ("vectors", "words")])
def test_two_rankings_are_fused_by_their_ranks_and_the_memory_of_that_key_goes_first(meaning: str, words: str) -> None:
    figures = {
        "a": {words: 0.9, meaning: 0.1},
        "b": {words: 0.2},
        "c": {meaning: 0.8},
        "d": {meaning: 0.3},
        "e": {},
        "named": {"key": 1.0},
    }
    hits = [Hit(remembered(name), 0.5, tuple(scores), scores) for name, scores in figures.items()]
    golden = rrf(["c", "d", "a"], ["a", "b"])
    found = by_ranks(hits)
    assert [hit.memory.content for hit in found] == ["named", *(name for name, _ in golden), "e"]
    assert [hit.scores["rrf"] for hit in found[1:-1]] == [score for _, score in golden]
    assert golden[0][0] == "a"


def test_where_nothing_is_ranked_by_meaning_the_order_by_words_stays() -> None:
    hits = tuple(Hit(remembered(name), 0.5, ("local",), {"bm25": 1.0}) for name in "abc")
    assert by_ranks(hits) == hits


class Ranked:
    """A memory whose remote knows other memories than this machine does."""

    def __init__(self, home: Path) -> None:
        clock = ManualClock()
        self.remote = FakeRemote(clock=clock)
        settings = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=60.0)
        self.router = router_over(PromptStore(home), self.remote, clock, settings=settings)

    async def fill(self, count: int) -> list[str]:
        ids: list[str] = [
            (await self.router.store(f"deploy {'now ' * number}", key=f"k{number}", significance=0.1)).id
            for number in range(count)
        ]
        self.remote.elsewhere = [
            RemoteHit(f"r{number}", f"a release, told in other words: {number}", 0.9 - number / 100, None, {})
            for number in range(count)
        ]
        return ids


@pytest.fixture
async def ranked(tmp_path: Path) -> AsyncIterator[Ranked]:
    made = Ranked(tmp_path / "home")
    async with made.router:
        await made.router.sync(timeout=5)
        yield made


@pytest.mark.requirement("ARG-046", "ARG-048")
async def test_the_memory_whose_key_is_the_question_is_found_first(ranked: Ranked) -> None:
    await ranked.fill(12)
    search = get_hybrid_memory_search(ranked.router)
    found = await search.search("k7")
    assert found[0].memory.key == "k7"
    assert all("rrf" in hit.scores for hit in found.hits[1:])


@pytest.mark.requirement("ARG-048")
async def test_only_what_is_answered_counts_as_used_and_for_a_budget(ranked: Ranked) -> None:
    ids = await ranked.fill(12)
    search = get_hybrid_memory_search(ranked.router)
    found = await search.search("deploy", limit=14, budget_tokens=5_000)
    assert [hit.layers for hit in found] == [*[("remote",)] * 7, *[("local",)] * 7]
    assert (found.excluded, set(found.shown)) == ({}, {hit.memory.id for hit in found})
    used = [one for one in ids if ranked.router._engine.usage.last_use(one) is not None]
    assert set(used) == {hit.memory.id for hit in found.hits[7:]}


@pytest.mark.requirement("ARG-048")
async def test_it_takes_all_that_a_search_takes(ranked: Ranked) -> None:
    await ranked.fill(12)
    search = get_hybrid_memory_search(ranked.router)
    found = await search.search("deploy", limit=20, mode="learning")
    assert len(found) == 20
    assert str(found.mode) == "learning"
    assert len((await search.search("deploy", limit=3, fold=False, detail="titles")).shown) == 3
