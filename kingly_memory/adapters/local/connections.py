"""Raw read-only connections to one store, one per thread, renewed when another file has taken its place.

Loads neither diskcache nor asyncio: opening diskcache costs dozens of write statements and waits for a held lock; a
hook or `search --local` must not.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

from kingly_memory.adapters.local import inspection, sql
from kingly_memory.adapters.local.damage import Inode, Malformed, Recovery, primary_code, read_failure
from kingly_memory.adapters.local.folder import Folder, inode_of
from kingly_memory.errors import StoreError

T = TypeVar("T")
Enough = Callable[[tuple[Any, ...]], bool]

_STEPS_BETWEEN_LOOKS = 100
"""SQLite instructions between two looks at the deadline: about 10 rows, of which a very long one takes milliseconds."""
_LATE_LOOKS, _LATE_S = 20, 0.002


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Opened:
    """A connection, closed when its thread has ended. Another process than `pid`, a fork, does not use it.

    To close it inside a statement would crash the interpreter: its thread is `busy` for each statement, and whoever
    closes it meanwhile leaves that to the thread. Only `with busy:` is safe from what a signal raises.
    """

    connection: sqlite3.Connection
    inode: Inode | None
    immutable: bool
    pid: int = field(default_factory=os.getpid)
    closed: bool = False
    number: int = field(default_factory=partial(next, count()))
    busy: threading.Lock = field(default_factory=threading.Lock)

    def use(self, what: Callable[[_Opened], T]) -> tuple[T] | None:
        """What `what` returns; None when another thread has closed it."""
        try:
            with self.busy:
                return None if self.closed else (what(self),)
        finally:
            if self.closed:
                self.close()

    def limit(self, is_over: Callable[[], bool] | None) -> None:
        self.connection.set_progress_handler(is_over, 0 if is_over is None else _STEPS_BETWEEN_LOOKS)

    def close(self) -> None:
        self.closed = True
        if self.busy.acquire(blocking=False):
            try:
                self.connection.close()
            finally:
                self.busy.release()


class _Local(threading.local):
    """Each thread's own: its connection, and when what it asks just now has to end."""

    opened: _Opened | None = None
    is_over: Callable[[], bool] | None = None


class Connections:
    """Runs statements for any thread. A store that does not exist yet has no rows.

    A damaged store is given to `recover` once; what that puts in its place is asked instead.
    """

    def __init__(self, folder: Folder, recover: Recovery) -> None:
        self._folder = folder
        self._database = str(folder.database)
        self._wal = str(folder.wal)
        self._recover = recover
        self._local = _Local()
        self._all: WeakValueDictionary[int, _Opened] = WeakValueDictionary()

    def rows(self, statement: str, values: Iterable[Any], enough: Enough | None = None) -> list[Any]:
        """All rows of the answer, or those up to the first that is `enough`, which must not ask for others. Raises
        StoreDamaged, StoreUntrusted."""
        bound = tuple(values)
        return self._mended(lambda: self._fetch(statement, bound, enough))

    def version(self) -> tuple[int, int] | None:
        """Another one after every commit, as this thread's connection sees them; None when there is no store."""
        found = self.rows(sql.VERSION, ())
        opened = self._local.opened
        return None if opened is None or not found else (opened.number, int(found[0][0]))

    def file(self) -> Inode | None:
        """Which file this thread has asked last."""
        opened = self._local.opened
        return None if opened is None else opened.inode

    def layout(self) -> int:
        """The layout number of the store on disk, 0 when there is none."""
        return self._mended(lambda: self._used(lambda opened: inspection.layout_of(opened.connection), 0))

    @contextmanager
    def until(self, deadline_s: float) -> Iterator[list[bool]]:
        """Interrupt SQLite at the deadline (monotonic). The body is left early then, and the list no longer empty."""
        cut: list[bool] = []
        before, self._local.is_over = self._local.is_over, _is_over(deadline_s)
        try:
            self._mended(self._limited)
            yield cut
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_INTERRUPT:
                raise
            cut.append(True)
        finally:
            self._local.is_over = before
            if self._local.opened is not None:
                self._local.opened.use(lambda opened: opened.limit(before))

    def close(self) -> None:
        """Close the connections of all threads, each at the end of its statement. Who asks again gets another."""
        for known in self._all.valuerefs():  # a list, whatever other threads open meanwhile
            opened = known()
            if opened is not None and opened.pid == os.getpid():
                opened.close()

    def _mended(self, look: Callable[[], T]) -> T:
        try:
            return look()
        except Malformed as damage:
            self._drop()
            try:
                self._recover(damage)
            except StoreError as error:
                raise damage from error
            return look()

    def _limited(self) -> None:
        self._used(lambda opened: opened.limit(self._local.is_over), None)

    def _fetch(self, statement: str, values: tuple[Any, ...], enough: Enough | None) -> list[Any]:
        def ask(opened: _Opened) -> list[Any]:
            try:
                cursor = opened.connection.execute(statement, values)
                return cursor.fetchall() if enough is None else _up_to(cursor, enough)
            except sqlite3.Error as error:
                if primary_code(error) == sqlite3.SQLITE_INTERRUPT:
                    raise
                raise self._worded(error, opened.inode) from error

        return self._used(ask, [])

    def _used(self, what: Callable[[_Opened], T], nothing: T) -> T:
        """What comes of this thread's connection, which nobody else closes meanwhile; `nothing` without a store."""
        while (opened := self._current()) is not None:
            found = opened.use(what)
            if found is not None:
                return found[0]
        return nothing

    def _current(self) -> _Opened | None:
        """The connection of this thread to the file that lies in the store now."""
        opened = self._local.opened
        inode = inode_of(self._database)
        if opened is not None and self._is_current(opened, inode):
            return opened
        self._drop()
        if self._folder.is_empty():
            self._folder.check_not_lost()
            return None
        opened = self._local.opened = self._open(inode)
        if opened is not None:
            opened.limit(self._local.is_over)
            self._all[opened.number] = opened
            finalize(opened, opened.connection.close).atexit = False
        return opened

    def _is_current(self, opened: _Opened, inode: Inode | None) -> bool:
        if opened.closed or opened.pid != os.getpid() or opened.inode != inode:
            return False
        return not opened.immutable or inode_of(self._wal) is None

    def _drop(self) -> None:
        opened = self._local.opened
        self._local.opened = None
        if opened is not None and opened.pid == os.getpid():
            opened.close()

    def _open(self, inode: Inode | None) -> _Opened | None:
        self._folder.check()
        try:
            connection, immutable = self._connect()
        except sqlite3.Error as error:
            raise self._worded(error, inode) from error
        try:
            inspection.check_objects(connection, self._folder.store)
            layout = inspection.layout_of(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._worded(error, inode) from error
            raise
        if layout:
            return _Opened(connection, inode, immutable)
        connection.close()
        self._folder.check_not_founded()
        return None

    def _connect(self) -> tuple[sqlite3.Connection, bool]:
        """The connection, and whether it takes the file as unchanging: so in a folder that nobody can write to."""
        immutable = False
        try:
            connection = inspection.connect_read_only(self._folder.database)
        except sqlite3.OperationalError:
            if inode_of(self._wal) is not None or os.access(self._folder.store, os.W_OK):
                raise
            connection, immutable = inspection.connect_read_only(self._folder.database, immutable=True), True
        # One bad byte costs one letter, or one row that no longer parses, and not the whole answer.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        return connection, immutable

    def _worded(self, error: sqlite3.Error, inode: Inode | None) -> StoreError:
        return read_failure(error, str(self._folder.store), inode, inspection.READ_WAIT_S)


def _is_over(deadline_s: float) -> Callable[[], bool]:
    """On a crowded machine the time may be over at the start: what takes next to nothing is done nevertheless."""
    began_s, late_looks = time.monotonic(), 0

    def look() -> bool:
        nonlocal late_looks
        now_s = time.monotonic()
        if now_s <= deadline_s:
            return False
        late_looks += 1
        return late_looks > _LATE_LOOKS or now_s - began_s > _LATE_S

    return look


def _up_to(cursor: sqlite3.Cursor, enough: Enough) -> list[Any]:
    with closing(cursor):  # a statement that is not at its end would keep the store from being checkpointed
        found = []
        for row in cursor:
            found.append(row)
            if enough(row):
                break
        return found
