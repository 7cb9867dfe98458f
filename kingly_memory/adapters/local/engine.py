"""Opening the store for writing, and running changes in transactions. Lives on the writer thread."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

from diskcache import Cache
from diskcache.core import DBNAME

from kingly_memory.adapters.local import rows, safety, sql, sqlite, trusted, upgrades
from kingly_memory.adapters.local.folder import Folder, Log, WriteLock
from kingly_memory.adapters.local.safety import Inode, Malformed, Recovery, layout_of
from kingly_memory.adapters.local.transaction import DiskTransaction, Vocabulary
from kingly_memory.errors import InvalidInput, InvalidSetting, StoreError, StoreTooNew, StoreUnwritable
from kingly_memory.home.place import added_remotes
from kingly_memory.ports import HOME, INCARNATION, Transaction

log = logging.getLogger("kingly_memory.store")

Change = Callable[[Transaction], Any]
Outcome = tuple[Any, Exception | None]
"""What became of one change: its value, or the error that undid it."""

_VERSIONS = "SELECT user_version, schema_version FROM pragma_user_version, pragma_schema_version"


class _ChangeRaisedError(Exception):
    """One of the changes has: the others have to go on without it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Cache(Cache):  # type: ignore[misc]  # diskcache ships no types
    """diskcache over the SQLite that the store needs."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        try:
            super().__init__(*arguments, **settings)
        except BaseException:
            self.close()  # diskcache leaves that to the collector
            raise

    @property
    def _con(self) -> sqlite3.Connection:
        if not hasattr(self._local, "con"):
            self._local.con = sqlite.connect(Path(self._directory, DBNAME), timeout=self._timeout)
        return cast("sqlite3.Connection", self._local.con)

    @property
    def _sql(self) -> Callable[..., sqlite3.Cursor]:
        return self._execute

    def _execute(self, *arguments: Any) -> sqlite3.Cursor:
        """For diskcache, which waits where the store is locked and makes tables where they are missing: it knows no
        errors but Python's."""
        try:
            return self._con.execute(*arguments)
        except sqlite.OperationalError as error:
            plain = sqlite3.OperationalError(str(error))
            plain.sqlite_errorcode = safety.error_code(error)
            raise plain from None


class Engine:
    """One diskcache for one writer thread. Opened at the first commit, and again after a failed one and when another
    file has taken its place.

    A damaged store is given to `recover` once; what that puts there is written to. `committing` is held during a
    transaction, so that nobody forks in the middle of one.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        synchronous: int,
        lock_wait_s: float,
        recover: Recovery | None = None,
        committing: AbstractContextManager[object] | None = None,
    ) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._lock_wait_s = lock_wait_s
        self._recover = recover
        self._number: int | None = None
        """Of the last commit; None when it changed nothing, and others may have committed since the one before."""
        self._data_version: int | None = None
        """SQLite's number of what others have written; None until the first commit after opening."""
        self._cache: _Cache | None = None
        self._connection: sqlite3.Connection | None = None
        self._files: tuple[Inode | None, Log] = (None, (None, None))
        self._held: list[int] = []
        self._versions: tuple[int, int] | None = None
        self._vocabulary = Vocabulary()
        self.lock = WriteLock(folder.write_lock, lock_wait_s)
        self._committing = committing or nullcontext()

    def commit(self, changes: Sequence[Change]) -> list[Outcome]:
        """Run the changes in one transaction, each undone alone if it raises. Raises StoreError if none is stored.

        They are run again when the first time brought to light that the store is damaged, and once more when it was."""
        if self._cache is None or self._folder.inode() is None:
            self._folder.make()
        with self.lock.held():
            for is_again in (False, True):
                try:
                    self._folder.check_not_lost()
                    outcomes = self.commit_locked(changes)
                    break
                except Malformed as damage:
                    if self._recover is None:
                        raise
                    if is_again:  # SQLite calls a page damaged, too, that the disk did not give once
                        self._recover(damage)
            else:
                outcomes = self.commit_locked(changes)
            if self._number is not None:
                self._folder.sentinel.write(self._number)
        return outcomes

    def commit_locked(self, changes: Sequence[Change]) -> list[Outcome]:
        """`commit` for a caller who holds the write lock and has made the folder."""
        with self._committing:
            is_another = self._cache is not None and self._files_now() != self._files
            if is_another:
                self._save_lost_log()
            try:
                if is_another:
                    self.release()
                connection = self._opened()
                acknowledged = self._folder.sentinel.before_commit()
                try:
                    outcomes, as_of = self._transact(connection, changes, acknowledged)
                except _ChangeRaisedError as raised:
                    self._vocabulary.undone()
                    if len(changes) == 1:
                        return [(None, raised.error)]
                    outcomes, as_of = self._transact(connection, changes, acknowledged, apart=True)
            except (StoreError, *sqlite.Error, OSError) as error:
                inode = self._folder.inode()
                self.release()
                store = str(self._folder.store)
                raise safety.failure(error, store, inode, self._lock_wait_s, writing=True) from None
            self._data_version = as_of
            self._vocabulary.written()
        return outcomes

    def _transact(
        self, connection: sqlite3.Connection, changes: Sequence[Change], acknowledged: int | None, apart: bool = False
    ) -> tuple[list[Outcome], int]:
        """Run the changes together, which costs no savepoint, or each `apart` in one of its own. Returns what became of
        them, and SQLite's number of what others had written before. Raises _ChangeRaisedError where one of all does:
        then they have to be run apart."""
        outcomes: list[Outcome] = []
        self._number = None
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            as_of = connection.execute("PRAGMA data_version").fetchone()[0]
            if as_of != self._data_version:
                self._look_at_others(connection)
            before = connection.total_changes
            transaction = DiskTransaction(connection, self._vocabulary)
            for change in changes:
                try:
                    outcomes.append((transaction.run(change) if apart else change(transaction), None))
                except sqlite.Error:
                    raise
                except Exception as error:
                    if not apart:
                        raise _ChangeRaisedError(error) from error
                    outcomes.append((None, error))  # it reaches its caller
            transaction.finish()
            if connection.total_changes > before:
                ((self._number,),) = connection.execute(sql.NUMBER_COMMIT).fetchall()
                self._folder.check_complete(self._number - 1, acknowledged)
        return outcomes, as_of

    def close(self) -> None:
        """Close the files; SQLite folds the WAL back in when this was the last connection."""
        if self._cache is not None:
            # Without the lock the WAL stays, and whoever opens the store next folds it in.
            with suppress(StoreError), self.lock.held():
                try:
                    self._save_lost_log()
                finally:
                    self.release()
        self.lock.close()

    def forked(self) -> None:
        """In a child, which must not touch SQLite: let go of what it would keep locked for its parent."""
        self.lock.close()
        self._let_go()

    def release(self) -> None:
        """Roll back whatever a failed commit left open and let the connection go; the next commit opens a new one."""
        cache, connection = self._cache, self._connection
        self._cache = self._connection = self._data_version = None
        self._vocabulary = Vocabulary()
        if connection is not None and connection.in_transaction:
            with suppress(*sqlite.Error):
                connection.rollback()
        if cache is not None:
            cache.close()
        self._folder.sentinel.close()
        self._let_go()

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _save_lost_log(self) -> None:
        """Somebody deleted the WAL or its index, and others may have begun another. What is committed in ours is still
        there for those who have it open: the first of them puts a whole copy in the store's place, where all find it by
        its inode. Raises StoreError, and keeps ours open, when that fails.

        Folded into the old file it would be read through indexes of two logs: SQLite shares one in each process.
        """
        database, log_now = self._files_now()
        if self._connection is None or database != self._files[0] or log_now == self._files[1]:
            return
        try:
            if self._connection.execute(sql.LAST_COMMIT).fetchone()[0] < (self._folder.sentinel.read() or 0):
                return  # ours was folded in, and others have written to theirs
            fresh = self._folder.salvaged
            fresh.begin(sqlite.key_name_of(self._folder.store))
            with closing(sqlite.connect(fresh.database)) as copy:
                self._connection.backup(copy)
                was_trusted = trusted.is_trusted(self._folder, named_in=fresh)
                name_incarnation(copy, fresh, restored=True)
            aside = trusted.take(self._folder, fresh, "replaced", was_trusted=was_trusted)
            if aside is not None:
                shutil.rmtree(aside)  # the copy has all that it has, and more
        except (*sqlite.Error, OSError) as error:
            raise safety.failure(error, str(self._folder.store), database, self._lock_wait_s, writing=True) from error
        log.warning("the log of the memory store in %s was deleted; all that was in it is saved", self._folder.store)

    def _opened(self) -> sqlite3.Connection:
        if self._cache is None or self._connection is None:
            self._inspect()
            settings = {**sql.SETTINGS, "sqlite_synchronous": self._synchronous}
            self._cache = _Cache(str(self._folder.store), timeout=self._lock_wait_s, **settings)
            self._connection = connection = self._cache._con  # noqa: SLF001  # the one name we need
            # It took its pragmas from the shared Settings table, which another process may have changed.
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA secure_delete = ON")  # what is purged must not stay in free pages
            connection.execute("PRAGMA temp_store = MEMORY")  # nor in what a savepoint keeps to undo a change
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            if self._synchronous == sql.SYNCHRONOUS["power"]:  # on macOS an fsync alone leaves it in the disk's cache
                connection.execute("PRAGMA fullfsync = ON")
                connection.execute("PRAGMA checkpoint_fullfsync = ON")
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            if journal != "wal":
                raise StoreUnwritable(str(self._folder.store), f"journal mode {journal} instead of wal")
            if layout_of(connection) == 0:
                self._found(connection)
            elif os.path.lexists(added_remotes()):  # most users have added none
                from kingly_memory.adapters.local import remote_record

                with suppress(StoreError, InvalidInput, InvalidSetting, OSError):
                    remote_record.keep_up(self._folder.home)
            self._upgrade(connection)
            self._versions = connection.execute(_VERSIONS).fetchone()
            self._files = self._files_now()
            self._held = self._folder.hold()
        return self._connection

    def _files_now(self) -> tuple[Inode | None, Log]:
        """Which files lie in the store: others than we opened when somebody recovered, restored or deleted it."""
        return self._folder.inode(), self._folder.log()

    def _found(self, connection: sqlite3.Connection) -> None:
        """Make a new store, which would be one without its WAL too."""
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            for name, statement in sql.SCHEMA.items():
                if name not in there:
                    connection.execute(statement)
            connection.execute(sql.BEGIN_COMMITS)
            name_incarnation(connection, self._folder)
            for statement in sql.numbered(sql.LAYOUT):
                connection.execute(statement)
        for path in self._folder.store.iterdir():
            path.chmod(0o600)
        connection.execute("PRAGMA wal_checkpoint").fetchall()
        # What recovery builds is for it to judge, and tables that were there may hold what others have said.
        is_empty = there.isdisjoint(sql.SCHEMA) and not connection.execute("SELECT count(*) FROM Cache").fetchone()[0]
        if is_empty and self._folder.name == Folder(self._folder.home).name:
            self._begin_without_remotes()
            trusted.vouch(self._folder)

    def _begin_without_remotes(self) -> None:
        """A home that is made anew has none of those that were added to an earlier one in its place."""
        if os.path.lexists(added_remotes()):  # most users have added none
            from kingly_memory.adapters.local import remote_record

            with suppress(StoreError, InvalidInput, InvalidSetting, OSError):
                if dropped := remote_record.drop(self._folder.home):
                    names = ", ".join(sorted({remote.name for remote in dropped}))
                    log.warning(
                        "the home in %s is a new one, without the remotes of the one before: %s. If that one lies on a "
                        "disk that is not mounted, mount it and add them again",
                        self._folder.home,
                        names,
                    )

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Run the steps that an older store lacks, each in a transaction. A damaged one is left as it is."""
        layout = layout_of(connection)
        if upgrades.is_due(layout):
            safety.check_pages(connection)
        while upgrades.is_due(layout):
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                upgrades.run_next(connection, layout)
                safety.check_objects(connection, self._folder.store)  # a step that leaves something else is undone
            layout += 1
            log.info("the memory store in %s has layout %d now", self._folder.store, layout)

    def _inspect(self) -> None:
        """Before diskcache opens the file: it is ours, and nobody holds it."""
        if self._folder.is_empty():
            return
        was_founded, acknowledged = self._folder.was_founded(), self._folder.sentinel.read()
        with closing(safety.connect_read_only(self._folder.database)) as connection:
            is_founded = layout_of(connection) != 0
            if not is_founded:
                self._folder.check_not_founded(was_founded)
            safety.check_objects(connection, self._folder.store)
            self._check_layout(connection)
            if is_founded:
                # Before diskcache opens it, whose last connection would fold a damaged WAL in and delete it.
                self._folder.check_complete(connection.execute(sql.LAST_COMMIT).fetchone()[0], acknowledged)
        # While it opens, diskcache would wait a minute for whoever holds SQLite's own lock.
        with closing(sqlite.connect(self._folder.database, timeout=self._lock_wait_s)) as turn:
            turn.execute("BEGIN IMMEDIATE")
            turn.execute("ROLLBACK")

    def _look_at_others(self, connection: sqlite3.Connection) -> None:
        """Inside the transaction, when somebody else has written or we have just opened the store: nobody migrated it
        or planted anything in it, and any word that we know may have been purged."""
        self._vocabulary = Vocabulary()
        versions = connection.execute(_VERSIONS).fetchone()
        if versions != self._versions:
            self._check_layout(connection)
            safety.check_objects(connection, self._folder.store)
            self._versions = versions
        if self._data_version is None:
            # A home whose files were copied is another one from its first change on: two that say different things
            # under the same names would be taken for one.
            named = DiskTransaction(connection, self._vocabulary).facet(HOME, INCARNATION) or {}
            if named.get("files") != self._folder.files():
                name_incarnation(connection, self._folder, restored=True)

    def _check_layout(self, connection: sqlite3.Connection) -> None:
        layout = layout_of(connection)
        if layout > sql.LAYOUT:
            raise StoreTooNew(str(self._folder.store), layout, sql.LAYOUT)


def name_incarnation(connection: sqlite3.Connection, folder: Folder, **restored: bool) -> None:
    """Give the home in that folder a name that no other has, and its next commit a number behind all acknowledged
    ones."""
    connection.execute(sql.COMMITS_BEHIND, (folder.sentinel.read() or 0,))
    named = {"id": os.urandom(16).hex(), **restored, "files": folder.files()}
    connection.execute(sql.SET_FACET, (HOME, INCARNATION, rows.facet(named)))
