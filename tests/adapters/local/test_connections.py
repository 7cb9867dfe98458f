"""Closing a store while its threads are inside statements: the interpreter stays whole, and every answer too."""

from __future__ import annotations

import math
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import pytest

from kingly_memory.adapters.local import connections as connections_module
from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.safety import Malformed
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import StoreError
from tests.store_samples import memory, put

KEYS = "SELECT key FROM Cache ORDER BY rowid"
_COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {most}) SELECT count(*) FROM n"
SHORT, LONG = _COUNT.format(most=100_000), _COUNT.format(most=100_000_000)


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Connections]:
    store = DiskStore(tmp_path / "home", durability="process")
    put(store, *(memory(f"memory number {number}") for number in range(50)))
    store.close()

    def recover(damage: Malformed) -> None:
        raise damage

    connections = Connections(Folder(tmp_path / "home"), recover, lambda: None)
    yield connections
    connections.close()


def descriptors(folder: Path) -> list[str]:
    """The files below the folder that this process has open."""
    links = []
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            links.append(str(number.readlink()))
    return [link for link in links if link.startswith(str(folder))]


def test_statement_that_is_under_way_ends_whole_and_its_connection_is_closed_then(
    connections: Connections, tmp_path: Path
) -> None:
    inside, go_on = Event(), Event()
    every = connections.rows(KEYS, ())

    class Slow(list[tuple[Any, ...]]):
        def extend(self, found: Iterable[tuple[Any, ...]]) -> None:
            for one in found:
                inside.set()
                assert go_on.wait(60)
                self.append(one)

    with ThreadPoolExecutor(1) as other:
        read = other.submit(connections.rows, KEYS, (), into=Slow())
        assert inside.wait(60)
        connections.close()
        assert descriptors(tmp_path)
        go_on.set()
        assert read.result() == every
        assert not descriptors(tmp_path)
        assert other.submit(connections.rows, KEYS, ()).result() == every


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Folder]:
    """One entry for each time that it is asked which file lies in the store."""
    noted: list[Folder] = []
    inode = Folder.inode

    def asked(folder: Folder) -> tuple[int, int] | None:
        noted.append(folder)
        return inode(folder)

    monkeypatch.setattr(Folder, "inode", asked)
    return noted


def test_a_look_asks_once_which_file_lies_in_the_store_and_the_next_look_again(
    connections: Connections, checks: list[Folder]
) -> None:
    def look() -> list[tuple[Any, ...]]:
        connections.in_one_go(lambda: connections.rows(KEYS, ()))  # a look within a look is part of it
        return connections.rows(KEYS, ())

    assert len(connections.in_one_go(look)) == 50
    assert len(checks) == 1
    connections.in_one_go(look)
    assert len(checks) == 2


def test_a_look_during_which_the_store_is_closed_asks_again_and_leaves_nothing_open(
    connections: Connections, checks: list[Folder], tmp_path: Path
) -> None:
    def look() -> list[tuple[Any, ...]]:
        connections.rows(KEYS, ())
        connections.close()
        return connections.rows(KEYS, ())

    assert len(connections.in_one_go(look)) == 50
    assert len(checks) == 2
    connections.close()
    assert not descriptors(tmp_path)


def test_a_look_goes_on_after_a_statement_that_the_deadline_ended_and_asks_again_after_one_that_failed(
    connections: Connections, checks: list[Folder], tmp_path: Path
) -> None:
    def look() -> list[tuple[Any, ...]]:
        with connections.until(time.monotonic() - 1.0) as cut:
            connections.rows(LONG, ())
        assert cut
        with pytest.raises(StoreError):
            connections.rows("SELECT nothing FROM nowhere", ())
        assert len(checks) == 1
        return connections.rows(KEYS, ())

    assert len(connections.in_one_go(look)) == 50
    assert len(checks) == 2
    connections.close()
    assert not descriptors(tmp_path)


def test_deadline_holds_on_a_connection_that_was_opened_since_and_inside_another(connections: Connections) -> None:
    with connections.until(time.monotonic() - 1.0) as cut:
        connections.close()
        connections.rows(LONG, ())
    assert cut
    with connections.until(time.monotonic() - 1.0) as outer:
        with connections.until(math.inf) as inner:
            assert connections.rows(SHORT, ()) == [(100_000,)]
        connections.rows(LONG, ())
    assert outer
    assert not inner
    assert connections.rows(SHORT, ()) == [(100_000,)]


def test_statement_that_a_signal_ends_keeps_nobody_from_the_next(connections: Connections) -> None:
    every = connections.rows(KEYS, ())

    def interrupt(_: int, frame: FrameType | None) -> None:
        # What interrupts a callback of the garbage collection is swallowed: only our own statements are interrupted.
        if frame is not None and frame.f_code.co_filename == connections_module.__file__:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, 0.000_05)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(100):
            with suppress(KeyboardInterrupt), connections.until(math.inf):
                signal.setitimer(signal.ITIMER_REAL, 0.000_5)
                while True:
                    connections.rows("SELECT 1", ())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert connections.rows(KEYS, ()) == every


def begun(home: Path) -> None:
    """As a writer leaves it for a moment: there is a database, and no layout in it yet."""
    (home / "store").mkdir(parents=True, mode=0o700)
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    (home / "store" / "cache.db").chmod(0o600)


@pytest.mark.parametrize("begin", [Path.mkdir, begun])
def test_a_store_that_is_founded_while_somebody_looks_into_it_is_not_taken_for_a_lost_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Path], None]
) -> None:
    begin(home := tmp_path / "home")
    store = DiskStore(home, durability="process")

    def found(_: Folder) -> None:
        """Between the look that found nothing and what is made of it."""
        monkeypatch.undo()
        put(store, memory())

    connections = Connections(Folder(home), store._recover, store._upgrade)
    monkeypatch.setattr(Folder, "_check_not_gone", found)
    assert len(connections.rows(KEYS, ())) in (0, 1)  # before or after the first memory: both are true
    assert connections.layout() == sql.LAYOUT
    connections.close()


@pytest.mark.parametrize("moment", range(4))
def test_a_store_that_is_replaced_while_somebody_looks_for_it_is_read_and_not_taken_for_an_empty_or_a_closed_one(
    connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """It is away until somebody has asked so many times whether there is a store; at 0 it goes away when it is about
    to be opened."""
    store, away = tmp_path / "home" / "store", tmp_path / "home" / "store.salvaged"
    is_empty, check, asked = Folder.is_empty, Folder.check, list[bool]()

    def back(_: object = None) -> None:
        if away.exists():
            away.rename(store)

    def looked(folder: Folder) -> bool:
        asked.append(is_empty(folder))
        if len(asked) == moment:
            back()
        return asked[-1]

    def goes_away(folder: Folder) -> None:
        check(folder)
        monkeypatch.undo()
        store.rename(away)
        monkeypatch.setattr(connections, "_recover", back)

    monkeypatch.setattr(connections, "_recover", back)
    if moment:
        store.rename(away)
        monkeypatch.setattr(Folder, "is_empty", looked)
    else:
        monkeypatch.setattr(Folder, "check", goes_away)
    assert len(connections.rows(KEYS, ())) == 50
