"""Opening diskcache safely and running changes in group-committed transactions. Lives on the writer thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diskcache import Cache, Timeout

from kingly_memory.adapters.local import inspection, sql
from kingly_memory.adapters.local.disk import TextDisk
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.transaction import DiskTransaction
from kingly_memory.errors import StoreBusy, StoreError, StoreTooNew, StoreUntrusted, StoreUnwritable
from kingly_memory.ports import Transaction

Change = Callable[[Transaction], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change: its value, or the error that undid it."""

    value: Any = None
    error: BaseException | None = None


class Engine:
    """One diskcache for one writer thread. Opened at the first commit, reopened after a failed one."""

    def __init__(self, folder: Folder, *, synchronous: int, lock_wait_s: float) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._lock_wait_s = lock_wait_s
        self._cache: Cache | None = None
        self._connection: sqlite3.Connection | None = None
        self._schema_version = -1

    def commit(self, changes: Sequence[Change]) -> list[Outcome]:
        """Run the changes in one transaction, each undone alone if it raises. Raises StoreError if none is stored."""
        self._folder.make()
        with locked(self._folder.write_lock, self._lock_wait_s):
            try:
                cache, connection = self._opened()
                with cache.transact():
                    self._check_unchanged(connection)
                    return _run_all(changes, DiskTransaction(cache, connection), connection)
            except (StoreError, sqlite3.Error, Timeout, OSError) as error:
                self._release()
                raise self._worded(error) from error

    def close(self) -> None:
        """Close the files; SQLite folds the WAL back in when this was the last connection."""
        if self._cache is not None:
            with locked(self._folder.write_lock, self._lock_wait_s):
                self._release()

    def abandon(self) -> None:
        """Forget a connection that belongs to the parent process of a fork, without touching it."""
        self._cache = self._connection = None

    def _opened(self) -> tuple[Cache, sqlite3.Connection]:
        if self._cache is None or self._connection is None:
            self._inspect()
            self._cache = self._open_cache()
            self._connection = connection = self._cache._con  # noqa: SLF001  # the one name we need
            self._set_pragmas(connection)
            if inspection.layout_of(connection) == 0:
                _create_schema(self._cache, connection)
                self._folder.made_private()
            self._schema_version = _schema_version(connection)
        return self._cache, self._connection

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
        database = self._folder.database
        if not database.exists() or database.stat().st_size == 0:
            return
        connection = inspection.connect_read_only(database)
        try:
            inspection.check_objects(connection, self._folder.store)
            self._check_layout(connection)
        finally:
            connection.close()

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

    def _release(self) -> None:
        """Roll back whatever a failed commit left open and let the connection go; the next commit opens a new one."""
        cache, connection = self._cache, self._connection
        self._cache = self._connection = None
        if connection is not None and connection.in_transaction:
            connection.rollback()
        if cache is not None:
            cache.close()

    def _worded(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        if isinstance(error, Timeout) or "locked" in str(error):
            return StoreBusy(self._lock_wait_s)
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            return StoreUntrusted(str(self._folder.store), "cache.db is not a database")
        return StoreUnwritable(str(self._folder.store), str(error) or type(error).__name__)


def _run_all(changes: Sequence[Change], transaction: Transaction, connection: sqlite3.Connection) -> list[Outcome]:
    connection.execute(sql.BEGIN_BATCH)
    outcomes = [_run(change, transaction, connection) for change in changes]
    for statement in sql.END_BATCH:
        connection.execute(statement)
    return outcomes


def _run(change: Change, transaction: Transaction, connection: sqlite3.Connection) -> Outcome:
    connection.execute("SAVEPOINT change")
    try:
        value = change(transaction)
    except (sqlite3.Error, Timeout):
        raise  # the disk, not the change: the whole commit fails and everybody is told
    except Exception as error:  # noqa: BLE001  # whatever it is, it undoes this change alone and reaches its caller
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
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
