"""Raw read-only connections to one store, renewed when another file has taken its place.

Loads neither diskcache nor asyncio: opening diskcache costs dozens of write statements and waits for a held lock. A
hook or `search --no-semantic` must not.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.local import rows, safety, sql, sqlite, upgrades
from kingly_memory.adapters.local.folder import Folder, Log
from kingly_memory.adapters.local.safety import Inode, Malformed, Recovery
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import StoreDamaged, StoreError, StoreUnreadable
from kingly_memory.filters import admits

IsOver = Callable[[], bool]
T = TypeVar("T")

_STEPS_BETWEEN_LOOKS = 100
"""SQLite instructions between two looks at the deadline: about 10 rows, of which a very long one takes milliseconds."""
_LATE_LOOKS, _LATE_S = 20, 0.002


@dataclass(slots=True, eq=False)
class _Opened:
    """`log` is None where none can be made: SQLite then sees nothing of what others write, so each look opens the file
    anew. `generation` says which `close` it belongs to."""

    connection: sqlite3.Connection
    inode: Inode | None
    log: Log | None
    generation: int
    is_over: IsOver | None = None


class _Local(threading.local):
    is_over: IsOver | None = None
    """When what this thread asks just now has to end."""
    in_one_go = False
    held: _Opened | None = None
    """The connection that this thread goes on with while it is `in_one_go`."""


class Connections:
    """Runs statements for any thread, each on a connection that nobody else uses meanwhile. A store that does not exist
    yet has no rows.

    A damaged store is given to `recover` once; what that puts in its place is asked instead. `upgrade` brings an older
    store to this version's layout, which all statements need, or raises StoreError.
    """

    def __init__(self, folder: Folder, recover: Recovery, upgrade: Callable[[], object]) -> None:
        self._folder = folder
        self._recover = recover
        self._upgrade = upgrade
        self._local = _Local()
        # Without a lock: where a signal raises an error just behind the taking of one, 3.14 leaves it taken for ever.
        self._idle: list[_Opened] = []
        self._lent: set[_Opened] = set()
        self._generation = 0

    def rows(
        self,
        statement: str,
        values: Iterable[Any],
        *,
        most: float = math.inf,
        into: list[tuple[Any, ...]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """All rows of the answer, or those with which the texts in the third column have more than `most` characters.
        `into` a list that keeps those which were found when the deadline came. Raises StoreDamaged, StoreUntrusted."""
        bound, found = tuple(values), [] if into is None else into
        for is_again in (False, True):
            try:
                self._ask(statement, bound, most, found)
            except Malformed as damage:
                found.clear()
                if not is_again:  # SQLite calls a page damaged, too, that the disk did not give once
                    continue
                try:
                    self._recover(damage)
                except (StoreDamaged, StoreUnreadable):
                    raise
                except StoreError as error:
                    raise damage from error
            else:
                return found
        self._ask(statement, bound, most, found)
        return found

    def layout(self) -> int:
        """The layout number of the store on disk, 0 when there is none."""
        found = self.rows("PRAGMA user_version", ())
        return int(found[0][0]) if found else 0

    @contextmanager
    def until(self, deadline_s: float) -> Iterator[list[bool]]:
        """Interrupt what this thread asks at the deadline (monotonic). The body is left early then, and the list no
        longer empty."""
        cut: list[bool] = []
        before, self._local.is_over = self._local.is_over, _is_over(deadline_s)
        try:
            yield cut
        except sqlite.OperationalError as error:
            if safety.primary_code(error) != sqlite3.SQLITE_INTERRUPT:
                raise
            cut.append(True)
        finally:
            self._local.is_over = before

    def in_one_go(self, look: Callable[[], T]) -> T:
        """What a look gives, all of whose statements this thread asks on one connection. Whether the same file still
        lies in the store is checked once: that takes longer than most statements do."""
        if self._local.in_one_go:
            return look()
        self._local.in_one_go = True
        try:
            return look()
        finally:
            self._local.in_one_go = False
            held, self._local.held = self._local.held, None
            if held is not None:
                self._give_back(held)

    def close(self) -> None:
        """Close all connections, each at the end of its statement or look. Who asks again gets another."""
        self._generation += 1
        self._close_idle()

    def forked(self) -> list[_Opened]:
        """In a child: begin anew. The parent's connections, which are returned, must be neither used nor closed."""
        inherited = [*self._idle, *self._lent]
        self._idle, self._lent, self._local = [], set(), _Local()
        self._generation += 1
        return inherited

    def _ask(self, statement: str, values: tuple[Any, ...], most: float, found: list[tuple[Any, ...]]) -> None:
        opened, self._local.held = self._local.held, None
        if opened is not None and opened.generation != self._generation:
            self._give_back(opened)
            opened = None
        opened = opened or self._taken()
        if opened is None:
            return
        is_kept = self._local.in_one_go
        try:
            if opened.is_over is not self._local.is_over:
                opened.is_over = self._local.is_over
                opened.connection.set_progress_handler(opened.is_over, _STEPS_BETWEEN_LOOKS)
            # A statement that is not at its end would keep the store from being checkpointed.
            with closing(opened.connection.execute(statement, values)) as cursor:
                if most == math.inf:
                    found.extend(cursor)
                else:
                    for row in cursor:
                        found.append(row)
                        most -= len(row[2] or "")
                        if most < 0:
                            break
        except sqlite.Error as error:
            if safety.primary_code(error) == sqlite3.SQLITE_INTERRUPT:
                raise
            is_kept = False
            raise self._worded(error, opened.inode) from error
        finally:
            if is_kept and opened.generation == self._generation:
                self._local.held = opened
            else:
                self._give_back(opened)

    def _give_back(self, opened: _Opened) -> None:
        self._lent.discard(opened)
        self._idle.append(opened)
        if opened.generation != self._generation:
            self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # each is taken by one thread alone
            while True:
                self._idle.pop().connection.close()

    def _taken(self) -> _Opened | None:
        """A connection to the file that lies in the store now."""
        inode, log = self._folder.inode(), self._folder.log()
        while self._idle:
            try:
                opened = self._idle.pop()
            except IndexError:  # another thread took it
                break
            self._lent.add(opened)
            # Of a WAL that was deleted we still see all; one that was made since has what is new.
            is_current = opened.generation == self._generation and opened.inode == inode
            if is_current and opened.log is not None and (log == opened.log or log[0] is None):
                return opened
            self._lent.discard(opened)
            opened.connection.close()
        if self._folder.is_empty():
            self._folder.check_not_lost()
            if self._folder.is_empty():
                return None
            return self._taken()  # a store has taken its place while we looked
        try:
            return self._open(inode)
        except StoreError:
            if inode == self._folder.inode():
                raise
            return self._taken()  # it was put aside before we could open it

    def _open(self, inode: Inode | None) -> _Opened | None:
        self._folder.check()
        # First: the database is never behind either.
        was_founded, acknowledged = self._folder.was_founded(), self._folder.sentinel.read()
        try:
            connection = safety.connect_read_only(self._folder.database)
        except sqlite.Error as error:
            raise self._worded(error, inode) from error
        # One bad byte costs one letter, or one row that no longer parses, and not the whole answer.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            rows.teach(connection)
            connection.create_function("has_metadata", 2, _has_metadata)
            safety.check_objects(connection, self._folder.store)
            layout = safety.layout_of(connection)
            if layout == sql.LAYOUT:
                self._folder.check_complete(connection.execute(sql.LAST_COMMIT).fetchone()[0], acknowledged)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite.Error):
                raise self._worded(error, inode) from error
            raise
        if not layout:
            connection.close()
            self._folder.check_not_founded(was_founded)
            return None
        if upgrades.is_due(layout):
            connection.close()
            self._upgrade()
            return self._taken()
        has_log = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        opened = _Opened(connection, inode, self._folder.log() if has_log else None, self._generation)
        self._lent.add(opened)
        return opened

    def _worded(self, error: sqlite3.Error, inode: Inode | None) -> StoreError:
        return safety.failure(error, str(self._folder.store), inode, safety.READ_WAIT_S, writing=False)


def _has_metadata(value: bytes, wanted: str) -> bool:
    """Whether a memory's metadata, as JSON, pass a filter, which is JSON too. Those that cannot be read pass: who reads
    the memory says so."""
    try:
        return admits(json.loads(wanted), json.loads(value))
    except (TypeError, ValueError, RecursionError):
        return True


def _is_over(deadline_s: float) -> IsOver:
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
