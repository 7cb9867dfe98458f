"""Encrypting a home, decrypting it, and giving it another key: its rows are copied into a new store, which takes the
place of the old one when every row has been compared.

An interruption loses nothing: the new store lies where recovery builds one, so whoever opens the home next either finds
the old store in its place, or puts the new one there.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kingly_memory.adapters.local import rows, safety, sql, sqlite
from kingly_memory.adapters.local.engine import Engine
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.errors import StoreUnwritable
from kingly_memory.home.own_files import writing_to
from kingly_memory.ports import HOME, INCARNATION

_BEFORE = "before"
"""How a store is called that was rewritten, until it is deleted."""
_LAST = ("Settings", "sqlite_sequence")
"""Tables that change when rows are written to others."""


def rewrite(home: Path, key_name: str | None, lock_wait_s: float) -> None:
    """Have the home's store encrypted with that key, or with none; one without memories is from its first on.

    The keys are found where every command finds them. Raises StoreLocked, StoreBusy, StoreDamaged, StoreUntrusted,
    StoreUnwritable, ExtraMissing; then the store is as it was.
    """
    folder = Folder(home)
    fresh = folder.salvaged
    with writing_to(home):
        try:
            folder.make()
            with locked(folder.write_lock, lock_wait_s):
                clean(home)
                if folder.is_empty():
                    folder.check_not_lost()
                    sqlite.mark(folder.store, key_name)
                    return
                folder.check()
                try:
                    _fill(folder, fresh, key_name)
                except BaseException:
                    shutil.rmtree(fresh.store, ignore_errors=True)
                    raise
                folder.take(fresh, _BEFORE)
                clean(home)
        except sqlite.Error as error:
            raise safety.failure(error, str(folder.store), folder.inode(), lock_wait_s, writing=True) from None


def clean(home: Path) -> None:
    """Delete what a rewriting that was interrupted has left of the store before it."""
    for before in home.glob(f"store.{_BEFORE}-*"):
        shutil.rmtree(before)


def readable_beside(home: Path) -> list[Path]:
    """Stores that were put aside and are not encrypted."""
    return sorted(path for path in home.glob("store.*") if path.is_dir() and sqlite.key_name_of(path) is None)


def _fill(folder: Folder, fresh: Folder, key_name: str | None) -> None:
    fresh.begin(key_name)
    for store_folder in (folder, fresh):  # opened by a writer, both have the layout of this version
        engine = Engine(store_folder, synchronous=sql.SYNCHRONOUS["power"], lock_wait_s=0)
        try:
            engine.commit_locked([])
        finally:
            engine.release()
    acknowledged = folder.sentinel.read()
    with (
        closing(safety.connect_read_only(folder.database)) as source,
        closing(sqlite.connect(fresh.database)) as copy,
    ):
        safety.check_objects(source, folder.store)
        folder.check_complete(source.execute(sql.LAST_COMMIT).fetchone()[0], acknowledged)
        source.execute("BEGIN")
        copy.execute("BEGIN IMMEDIATE")
        tables = list(_tables(source))
        for name, columns in tables:
            copy.execute(f'DELETE FROM "{name}"')
            copied = source.execute(f'SELECT {columns} FROM "{name}"')
            values = sql.marks(copied.description)
            copy.executemany(f'INSERT INTO "{name}"({columns}) VALUES ({values})', copied)
        for name, columns in tables:
            both = (connection.execute(f'SELECT {columns} FROM "{name}"') for connection in (source, copy))
            if not all(one == other for one, other in zip(*both, strict=True)):
                raise StoreUnwritable(str(fresh.store), f"the copy of {name} says something else")
        # The same home goes on, in other files: it needs no trust anew, and hubs know it by its name.
        ((facet,),) = copy.execute(sql.FACET, (HOME, INCARNATION)).fetchall()
        named = {**(rows.read_facet(HOME, facet) or {}), "files": fresh.files()}
        copy.execute(sql.SET_FACET, (HOME, INCARNATION, rows.facet(named)))
        copy.execute("COMMIT")
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Every table that holds rows, those of the text indexes too, with its columns. Positions are among them."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    for name, text in sorted(found, key=lambda one: one[0] in _LAST):
        columns = [f'"{one}"' for (one,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        position = [] if "WITHOUT ROWID" in text else ["rowid"]
        yield name, ", ".join([*position, *columns])
