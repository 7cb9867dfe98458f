"""Opening diskcache safely and running changes in group-committed transactions. Lives on the writer thread."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from diskcache import Cache, Timeout

from kingly_memory.adapters.local import inspection, sql
from kingly_memory.adapters.local.damage import Inode, Malformed, Recovery, write_failure
from kingly_memory.adapters.local.disk import TextDisk
from kingly_memory.adapters.local.folder import Folder, inode_of, locked
from kingly_memory.adapters.local.transaction import DiskTransaction
from kingly_memory.adapters.local.vocabulary import Vocabulary
from kingly_memory.errors import StoreError, StoreTooNew, StoreUnwritable
from kingly_memory.ports import Transaction

log = logging.getLogger("kingly_memory.store")

Change = Callable[[Transaction], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change: its value, or the error that undid it."""

    value: Any = None
    error: BaseException | None = None


class Engine:
    """One diskcache for one writer thread. Opened at the first commit, reopened after a failed one, and when another
    file has taken its place. A damaged store is given to `recover` once; what that puts there is written to."""

    def __init__(
        self,
        folder: Folder,
        *,
        synchronous: int,
        lock_wait_s: float,
        recover: Recovery | None = None,
    ) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._lock_wait_s = lock_wait_s
        self._recover = recover
        self._cache: Cache | None = None
        self._connection: sqlite3.Connection | None = None
        self._files: tuple[Inode | None, Inode | None] = (None, None)
        self._schema_version = -1
        self._vocabulary = Vocabulary()

    def commit(self, changes: Sequence[Change]) -> list[Outcome]:
        """Run the changes in one transaction, each undone alone if it raises. Raises StoreError if none is stored.

        They are run a second time when the first brought to light that the store is damaged."""
        self._folder.make()
        with locked(self._folder.write_lock, self._lock_wait_s):
            try:
                self._folder.check_not_lost()
                return self.commit_locked(changes)
            except Malformed as damage:
                if self._recover is None:
                    raise
                self._recover(damage)
                return self.commit_locked(changes)

    def commit_locked(self, changes: Sequence[Change]) -> list[Outcome]:
        """`commit` for a caller who holds the write lock and has made the folder."""
        try:
            cache, connection = self._opened()
            with cache.transact():
                self._check_unchanged(connection)
                transaction = DiskTransaction(cache, connection, self._vocabulary)
                outcomes = _run_all(changes, transaction, connection)
                self._vocabulary.write(connection)
        except (StoreError, sqlite3.Error, Timeout, OSError) as error:
            inode = self._folder.inode()
            self.release()
            # diskcache calls everything that keeps a transaction from beginning a timeout.
            cause = error.__context__ if isinstance(error, Timeout) and error.__context__ is not None else error
            raise write_failure(cause, str(self._folder.store), inode, self._lock_wait_s) from None
        self._vocabulary.written()
        return outcomes

    def close(self) -> None:
        """Close the files; SQLite folds the WAL back in when this was the last connection."""
        if self._cache is None:
            return
        # Without the lock the WAL stays, and whoever opens the store next folds it in.
        with suppress(StoreError), locked(self._folder.write_lock, self._lock_wait_s):
            self.release()

    def release(self) -> None:
        """Roll back whatever a failed commit left open and let the connection go; the next commit opens a new one."""
        cache, connection = self._cache, self._connection
        self._cache = self._connection = None
        self._vocabulary = Vocabulary()
        if connection is not None and connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.rollback()
        if cache is not None:
            cache.close()
            with suppress(OSError):  # a full disk: then the next opening asks about the WAL in vain
                self._folder.note_closed()

    def _opened(self) -> tuple[Cache, sqlite3.Connection]:
        if self._cache is not None and self._files_now() != self._files:
            self.release()
        if self._cache is None or self._connection is None:
            self._inspect()
            self._cache = self._open_cache()
            self._connection = connection = self._cache._con  # noqa: SLF001  # the one name we need
            self._set_pragmas(connection)
            is_new = inspection.layout_of(connection) == 0 or not self._folder.founded.exists()
            if not is_new or self._found(self._cache, connection):
                self._folder.note_opened()
            self._schema_version = _schema_version(connection)
            self._files = self._files_now()
        return self._cache, self._connection

    def _files_now(self) -> tuple[Inode | None, Inode | None]:
        """Which files lie in the store: others than we opened when somebody recovered, restored or deleted it."""
        return self._folder.inode(), inode_of(str(self._folder.wal))

    def _found(self, cache: Cache, connection: sqlite3.Connection) -> bool:
        """Make a new store. True when the database would be one without its WAL too, so that the home can be noted as
        founded; when a reader keeps it from that, the next opening tries again."""
        if inspection.layout_of(connection) == 0:
            _create_schema(cache, connection)
        self._folder.made_private()
        _, logged, folded_in = connection.execute("PRAGMA wal_checkpoint").fetchone()
        return bool(logged == folded_in)

    def _open_cache(self) -> Cache:
        return Cache(
            str(self._folder.store),
            timeout=self._lock_wait_s,
            disk=TextDisk,
            sqlite_synchronous=self._synchronous,
            **sql.SETTINGS,
        )

    def _set_pragmas(self, connection: sqlite3.Connection) -> None:
        """The connection took its pragmas from the shared Settings table, which another process may have changed."""
        for pragma in sql.WRITE_PRAGMAS:
            connection.execute(pragma)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        if journal != "wal":
            raise StoreUnwritable(str(self._folder.store), f"journal mode {journal} instead of wal")

    def _inspect(self) -> None:
        if self._folder.is_empty():
            return
        if self._folder.has_lost_wal():
            log.warning("cache.db-wal is gone from %s: what was stored last may be missing", self._folder.store)
        with closing(inspection.connect_read_only(self._folder.database)) as connection:
            if inspection.layout_of(connection) == 0:
                self._folder.check_not_founded()
            inspection.check_objects(connection, self._folder.store)
            self._check_layout(connection)
        # While it opens, diskcache would wait a minute for whoever holds SQLite's own lock.
        with closing(sqlite3.connect(self._folder.database, timeout=self._lock_wait_s, isolation_level=None)) as turn:
            turn.execute("BEGIN IMMEDIATE")
            turn.execute("ROLLBACK")

    def _check_unchanged(self, connection: sqlite3.Connection) -> None:
        """Inside the transaction: nobody migrated the store or planted anything in it since we looked."""
        self._check_layout(connection)
        if _schema_version(connection) != self._schema_version:
            inspection.check_objects(connection, self._folder.store)
            self._schema_version = _schema_version(connection)

    def _check_layout(self, connection: sqlite3.Connection) -> None:
        layout = inspection.layout_of(connection)
        if layout > sql.LAYOUT:
            raise StoreTooNew(str(self._folder.store), layout, sql.LAYOUT)


def _run_all(changes: Sequence[Change], transaction: DiskTransaction, connection: sqlite3.Connection) -> list[Outcome]:
    """Run the changes together; when one raises, all are undone and run again, each for itself."""
    connection.execute(sql.BEGIN_BATCH)
    together = _run(lambda store: [change(store) for change in changes], transaction, connection)
    if together.error is None:
        outcomes = [Outcome(value) for value in together.value]
    else:
        outcomes = [_run(change, transaction, connection) for change in changes]
    for statement in sql.END_BATCH:
        connection.execute(statement)
    return outcomes


def _run(change: Change, transaction: DiskTransaction, connection: sqlite3.Connection) -> Outcome:
    connection.execute("SAVEPOINT change")
    try:
        value = change(transaction)
    except (sqlite3.Error, Timeout):
        raise  # the disk, not the change: the whole commit fails and everybody is told
    except Exception as error:  # noqa: BLE001  # whatever it is, it undoes this change alone and reaches its caller
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
        transaction.rolled_back()
        return Outcome(error=error)
    connection.execute("RELEASE change")
    return Outcome(value)


def _create_schema(cache: Cache, connection: sqlite3.Connection) -> None:
    with cache.transact():
        for name, statement in sql.SCHEMA.items():
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is None:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {sql.LAYOUT}")


def _schema_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    return version
