"""Searches go first: vectors are made in bites, and between two of them a search that is under way is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ports import Transaction
from kingly_memory.router import right_of_way as right_of_ways
from kingly_memory.router import subjects
from kingly_memory.router.right_of_way import PATIENCE, Patience, RightOfWay
from kingly_memory.router.searching.embedding import BATCH, BITE, Embedding
from kingly_memory.router.searching.local_search import LocalAnswer, LocalSearch
from kingly_memory.router.searching.local_side import LocalSide
from kingly_memory.router.searching.vector_search import VectorSearch
from kingly_memory.testing import ManualClock
from tests.store_samples import NOON_S, ask, memory, put

T = TypeVar("T")
FOR_EVER_S = 600.0
"""Longer than the test."""


class Embedder:
    """Notes how many texts it is given at once; `meanwhile` is called with each bite."""

    name = "plain"
    dimensions = 2

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.bites: list[int] = []
        self._meanwhile = meanwhile

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.bites.append(len(texts))
        self._meanwhile()
        return [[1.0, float(len(text) % 7)] for text in texts]


class CountingStore(DiskStore):
    """Notes how often something was written."""

    writes = 0

    def write(self, change: Callable[[Transaction], T]) -> Future[T]:
        self.writes += 1
        return super().write(change)


class Noted(RightOfWay):
    """Says when somebody has to wait."""

    def __init__(self, most_s: float) -> None:
        super().__init__(most_s)
        self.waits = threading.Event()

    def give(self) -> None:
        if self.is_taken:
            self.waits.set()
        super().give()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    made = CountingStore(tmp_path, durability="process")
    put(made, *(memory(f"note {number}") for number in range(BATCH)))
    made.writes = 0
    yield made
    made.close()


def embedding_over(store: DiskStore, embedder: Embedder, right_of_way: RightOfWay) -> tuple[VectorSearch, Embedding]:
    vectors = VectorSearch("alpha", lambda: embedder, store.reader.vectors)
    vectors.right_of_way = right_of_way
    return vectors, Embedding(vectors, store=store, clock=ManualClock())


async def test_between_two_bites_the_embedding_waits_for_the_search_that_has_begun(store: CountingStore) -> None:
    right_of_way, searching = Noted(FOR_EVER_S), ExitStack()
    embedder = Embedder(lambda: searching.enter_context(right_of_way.search()) if len(embedder.bites) == 1 else None)
    vectors, embedding = embedding_over(store, embedder, right_of_way)
    making = asyncio.create_task(embedding.complete())
    assert await asyncio.to_thread(right_of_way.waits.wait, FOR_EVER_S)
    assert embedder.bites == [BITE]
    assert store.writes == 0
    searching.close()
    await making
    assert embedder.bites == [BITE] * (BATCH // BITE)
    assert len(vectors) == BATCH
    embedding.stop()


async def test_searches_without_a_gap_do_not_starve_the_embedding(store: CountingStore) -> None:
    right_of_way = RightOfWay(most_s=0.0)
    vectors, embedding = embedding_over(store, Embedder(), right_of_way)
    with right_of_way.search():
        await embedding.complete()
    assert len(vectors) == BATCH
    embedding.stop()


async def test_vectors_are_written_together_unless_somebody_searches(store: CountingStore) -> None:
    right_of_way = RightOfWay(most_s=0.0)
    _, embedding = embedding_over(store, Embedder(), right_of_way)
    await embedding.complete()
    assert store.writes == 1
    put(store, *(memory(f"further note {number}") for number in range(BATCH)))
    store.writes = 0
    with right_of_way.search():
        pass
    await embedding.complete()
    assert store.writes == BATCH // BITE
    embedding.stop()


async def test_closing_waits_for_no_search(store: CountingStore) -> None:
    right_of_way = Noted(FOR_EVER_S)
    _, embedding = embedding_over(store, Embedder(), right_of_way)
    with right_of_way.search():
        making = asyncio.create_task(embedding.complete())
        assert await asyncio.to_thread(right_of_way.waits.wait, FOR_EVER_S)
        await asyncio.to_thread(embedding.stop)
        await asyncio.gather(making, return_exceptions=True)


@pytest.mark.parametrize("filters", [{}, {"by_meaning": False}, {"project": "other"}])
def test_a_search_has_the_right_of_way_until_it_has_its_answer(store: CountingStore, filters: dict[str, Any]) -> None:
    right_of_way = RightOfWay()
    vectors, embedding = embedding_over(store, Embedder(), right_of_way)
    taken: list[bool] = []

    class Words(LocalSearch):
        def word(self, *asked: Any, **how: Any) -> Any:
            taken.append(right_of_way.is_taken)
            return super().word(*asked, **how)

        def search(self, *asked: Any, **how: Any) -> LocalAnswer:
            taken.append(right_of_way.is_taken)
            return super().search(*asked, **how)

    vectors.load()
    side = LocalSide(
        Words(store.reader),
        vectors,
        store.reader.vectors,
        words_weight=0.7,
        outdated=embedding.note,
        hurry=embedding.hurry,
    )
    query = ask("note", **filters)
    side.search(query, now_s=NOON_S, budget_s=60, wording=side.word(query, budget_s=60))
    assert taken
    assert all(taken)
    assert not right_of_way.is_taken
    embedding.stop()


async def test_planning_a_sweep_waits_for_the_search_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subjects, "WORK_S", -1.0)
    async with sweeping(tmp_path, FOR_EVER_S) as (memory, right_of_way):
        with right_of_way.search():
            planning = asyncio.create_task(memory.sweep(["merging"], dry_run=True))
            assert await asyncio.to_thread(right_of_way.waits.wait, FOR_EVER_S)
            assert not planning.done()
        assert (await planning).merged == 1


async def test_between_two_changes_a_sweep_waits_for_the_search_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subjects, "WORK_S", FOR_EVER_S)
    async with sweeping(tmp_path, FOR_EVER_S) as (memory, right_of_way):
        with right_of_way.search():
            swept = asyncio.create_task(memory.sweep(["merging"]))
            assert await asyncio.to_thread(right_of_way.waits.wait, FOR_EVER_S)
            assert (await memory.status())["memories"]["archived"] == 0
        assert (await swept).merged == 1


async def test_searches_without_a_gap_do_not_starve_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "WORK_S", -1.0)
    async with sweeping(tmp_path, 0.0) as (memory, right_of_way):
        with right_of_way.search():
            assert (await memory.sweep(["merging"])).merged == 1


def test_a_store_that_follows_on_a_search_goes_first_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    right_of_way, searching, storing = RightOfWay(), ExitStack(), ExitStack()
    searching.enter_context(right_of_way.search())
    steps = iter((searching.close, lambda: storing.enter_context(right_of_way.store()), storing.close))
    taken: list[bool] = []

    def wait_for(holds: Callable[[], bool], _: float) -> bool:
        next(steps)()
        taken.append(right_of_way.is_taken)
        return holds()

    monkeypatch.setattr(right_of_way._changed, "wait_for", wait_for)
    right_of_way.give()
    assert taken == [False, True, False]


def test_patience_ends_after_some_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(right_of_ways, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    right_of_way = RightOfWay()
    monkeypatch.setattr(right_of_way, "give", lambda: now_s.__setitem__(0, now_s[0] + 10.0))
    patience = Patience(right_of_way)
    assert not patience.give(1.0)
    with right_of_way.search():
        given = sum(patience.give(1.0) for _ in range(1_000))
    assert given * 10.0 == pytest.approx(1_000 * PATIENCE, rel=0.02)


async def test_a_store_has_the_right_of_way_until_it_is_written(tmp_path: Path) -> None:
    async with sweeping(tmp_path, FOR_EVER_S) as (memory, right_of_way):
        was_searched = right_of_way.watch()
        was_searched()
        assert await memory._write(lambda _: right_of_way.is_taken)
        assert not right_of_way.is_taken
        with pytest.raises(ZeroDivisionError):
            await memory._write(lambda _: 1 / 0)
        assert not right_of_way.is_taken
        assert not was_searched()


@asynccontextmanager
async def sweeping(home: Path, most_s: float) -> AsyncIterator[tuple[MemoryRouter, Noted]]:
    """A memory that holds the same twice."""
    settings = Settings(embedder="none", durability="process", semantic_lifetime_s=1e9)
    async with MemoryRouter.open(home / "swept", project="alpha", remote=False, settings=settings) as memory:
        await memory.store("Deploys wait for the nightly backup to end")
        await memory.store("Deploys wait for the nightly backup to end.")
        right_of_way = Noted(most_s)
        memory._right_of_way = memory._sweeper._right_of_way = right_of_way
        yield memory, right_of_way


def test_a_search_that_fails_gives_the_way_free() -> None:
    right_of_way = RightOfWay(FOR_EVER_S)
    was_taken = right_of_way.watch()
    with pytest.raises(ZeroDivisionError), right_of_way.search():
        raise ZeroDivisionError
    right_of_way.give()
    assert was_taken()
    assert not was_taken()
