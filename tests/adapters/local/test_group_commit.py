"""Many callers, one fsync: changes that wait together are committed together, and acknowledged only afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest

from kingly_memory.adapters.local.engine import Engine, Outcome
from kingly_memory.adapters.local.store import DiskStore, Job, commit_together
from kingly_memory.errors import StoreUnwritable
from kingly_memory.ids import MemoryId
from kingly_memory.ports import Transaction
from tests.store_samples import check_integrity, elsewhere, memory, put, saving, stored_contents


@pytest.fixture
def store(home: Path) -> Iterator[DiskStore]:
    store = DiskStore(home, durability="process")
    put(store, memory("first"))
    yield store
    store.close()
    check_integrity(home)


def engine_of(store: DiskStore) -> Engine:
    assert store._engine is not None
    return store._engine


def on_writer_connection(store: DiskStore) -> sqlite3.Connection:
    connection = engine_of(store)._connection
    assert connection is not None
    return connection


@contextmanager
def held(store: DiskStore) -> Iterator[None]:
    """While the writer is busy with another change, what is submitted waits together."""
    started, go_on = Event(), Event()

    def change(_: Transaction) -> None:
        started.set()
        go_on.wait(30)

    busy = store.write(change)
    assert started.wait(30)
    try:
        yield
    finally:
        go_on.set()
    busy.result()


@contextmanager
def counted(store: DiskStore, statement: str) -> Iterator[list[str]]:
    """The writer's statements of that kind, as SQLite ran them."""
    seen: list[str] = []

    def trace(text: str) -> None:
        if text.startswith(statement):
            seen.append(text)

    store.write(lambda _: on_writer_connection(store).set_trace_callback(trace)).result()
    seen.clear()
    yield seen
    store.write(lambda _: on_writer_connection(store).set_trace_callback(None)).result()


def test_stores_that_wait_together_share_one_commit(store: DiskStore) -> None:
    with counted(store, "COMMIT") as commits:
        with held(store):
            futures = [store.write(saving(memory(str(number)))) for number in range(64)]
        for future in futures:
            future.result()
        assert len(commits) == 1 + 1  # the busy one's own, and one for all 64
    assert len(stored_contents(store)) == 65


def test_batch_writes_one_index_segment(store: DiskStore, home: Path) -> None:
    """Each savepoint would make FTS5 write a segment, and each segment has to be merged later."""
    with held(store):
        futures = [store.write(saving(memory(f"word{number}"))) for number in range(3)]  # of more it merges some
    for future in futures:
        future.result()
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection, connection:
        segments = connection.execute("SELECT count(DISTINCT segid) FROM km_text_idx").fetchone()[0]
    connection.close()
    assert segments == 1 + 1  # that of the memory which was there, and one for all three


@pytest.mark.requirement("UNI-010")
def test_nothing_is_acknowledged_before_its_commit(store: DiskStore) -> None:
    seen: list[tuple[bool, bool]] = []
    one = memory("being stored")

    def trace(statement: str) -> None:
        if statement == "COMMIT":
            seen.append((future.done(), store.reader.row(one.id) is None))

    store.write(lambda _: on_writer_connection(store).set_trace_callback(trace)).result()
    with held(store):
        future: Future[None] = store.write(saving(one))
        seen.clear()
    future.result()
    assert seen[-1] == (False, True)
    assert store.reader.row(one.id) is not None
    store.write(lambda _: on_writer_connection(store).set_trace_callback(None)).result()


def test_commit_that_fails_fails_every_change_and_the_next_one_goes_through(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "_transact", _full_disk)
    with pytest.raises(StoreUnwritable, match="no space") as first:
        put(store, memory("lost"))
    with pytest.raises(StoreUnwritable):
        put(store, memory("lost"))
    assert "nothing was stored" in str(first.value)
    monkeypatch.undo()
    put(store, memory("second"))
    assert stored_contents(store) == ["first", "second"]


def _full_disk(*_: object) -> None:
    raise sqlite3.OperationalError("no space")


def words_known(home: Path) -> list[str]:
    connection = sqlite3.connect(home / "store" / "cache.db")
    try:
        return [word for (word,) in connection.execute("SELECT word FROM km_vocabulary ORDER BY word")]
    finally:
        connection.close()


def test_a_change_that_raises_beside_others_leaves_no_word_behind(store: DiskStore, home: Path) -> None:
    def change(tx: Transaction) -> None:
        saving(memory("zeppelin"))(tx)
        raise KeyError

    with held(store):
        changes = saving(memory("second")), change, saving(memory("third"))
        before, raising, after = map(store.write, changes)
    with pytest.raises(KeyError):
        raising.result()
    before.result()
    after.result()
    assert words_known(home) == ["first", "second", "third"]


def test_a_lone_change_that_raises_is_run_once_and_leaves_no_word_behind(store: DiskStore, home: Path) -> None:
    runs = list[None]()

    def change(tx: Transaction) -> None:
        runs.append(None)
        saving(memory("zeppelin"))(tx)
        raise KeyError

    with pytest.raises(KeyError):
        store.write(change).result()
    assert len(runs) == 1
    put(store, memory("second"))
    assert words_known(home) == ["first", "second"]
    assert stored_contents(store) == ["first", "second"]


@pytest.mark.requirement("ARG-055")
def test_eight_threads_that_write_and_read_at_once_see_what_they_have_written(store: DiskStore) -> None:
    def write_and_read(name: int) -> list[str]:
        mine = [memory(f"{name} {number}") for number in range(10)]
        for one in mine:
            put(store, one)
        return [row.memory.content for row in map(store.reader.row, (one.id for one in mine)) if row is not None]

    with ThreadPoolExecutor(8) as threads:
        seen = list(threads.map(write_and_read, range(8)))
    assert seen == [[f"{name} {number}" for number in range(10)] for name in range(8)]


@pytest.mark.requirement("UNI-011", "ARG-055")
def test_two_processes_that_write_at_once_lose_nothing(store: DiskStore, home: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        script = "[put(store, memory(f'{sys.argv[2]} {n}', key=f'{sys.argv[2]} {n}')) for n in range(40)]; answer = 1"
        others = [threads.submit(elsewhere, script, home, name) for name in ("left", "right")]
        mine: list[MemoryId] = []
        for number in range(40):
            one = memory(f"mine {number}")
            put(store, one)
            mine.append(one.id)
        assert [other.result() for other in others] == [1, 1]
    expected = ["first", *(f"{name} {number}" for name in ("left", "right", "mine") for number in range(40))]
    assert sorted(stored_contents(store)) == sorted(expected)
    assert all(store.reader.row(one) is not None for one in mine)
    assert store.reader.id_of_key("alpha", "left 39") is not None


def test_who_waited_for_a_batch_is_told_when_the_next_one_waits_for_the_disk() -> None:
    """Or at once where nobody else waits. Until then the thread that commits has the interpreter for itself."""
    jobs: SimpleQueue[Job | None] = SimpleQueue()
    first, second, third = (Future[str]() for _ in range(3))
    seen: list[tuple[str, bool, bool]] = []

    def commit(batch: Sequence[str], tell: Callable[[], None]) -> list[Outcome]:
        seen.append((batch[0], first.done(), second.done()))
        if batch == ["third"]:
            raise KeyError("nothing to wait for")
        tell()
        seen.append((batch[0], first.done(), second.done()))
        if batch == ["second"]:
            second.add_done_callback(lambda _: jobs.put(("third", third, None)))
        return [(change, None) for change in batch]

    jobs.put(("first", first, None))
    jobs.put(("second", second, None))
    third.add_done_callback(lambda _: jobs.put(None))
    commit_together(commit, jobs, 1)
    assert seen == [
        ("first", False, False),
        ("first", False, False),
        ("second", False, False),
        ("second", True, False),
        ("third", True, True),
    ]
    with pytest.raises(KeyError):
        third.result()
