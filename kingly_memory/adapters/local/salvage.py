"""Reading what can still be read of a damaged database, around its broken pages."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from kingly_memory.adapters.local import inspection, parsing, sql
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.models import JsonObject
from kingly_memory.ports import Row

_LAST_POSITION = 2**62
_PAGE_BYTES = 4_096
_COUNTS = range(28, 40)
"""Where the header counts pages (sqlite.org/fileformat.html, 1.3)."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A facet as it stood in the damaged store."""

    name: str
    owner: str
    value: JsonObject


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that says nothing we understand."""


Found = Row | Facet | Unreadable


def found_rows(damaged: Folder, fresh: Folder) -> Iterator[Found]:
    """Every memory and facet that still reads, in the order in which they were stored.

    Pointers from keys are left out, since saving a memory makes them anew. When not even the list of tables reads, the
    first page is borrowed from `fresh`, a new store: ours all begin alike. Raises StoreUntrusted when the table is not
    the one that we would have made.
    """
    if _has_table(damaged.database):
        yield from _rows_of(damaged.database)
        return
    with TemporaryDirectory(prefix="salvage-", dir=damaged.home) as scratch:
        yield from _rows_of(_with_first_page(damaged, fresh.database, Path(scratch)))


def _rows_of(database: Path) -> Iterator[Found]:
    with suppress(sqlite3.DatabaseError), closing(_connect(database)) as connection:
        inspection.check_table(connection, database.parent)
        parsed = (_parsed(*columns) for columns in _readable(connection))
        yield from (found for found in parsed if found is not None)


def _connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = bytes
    try:
        for pragma in sql.SALVAGE_PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _has_table(database: Path) -> bool:
    try:
        with closing(_connect(database)) as connection:
            return connection.execute(sql.TABLE_CHECK).fetchone() is not None
    except sqlite3.DatabaseError:
        return False


def _with_first_page(damaged: Folder, sound: Path, scratch: Path) -> Path:
    """A copy of the damaged database under a sound first page, which holds its header and the root of its schema.

    The header's counts of all pages and of free ones are left empty: SQLite then goes by the file's size. Copying
    drops this process's locks on the damaged database, which nobody writes to any more.
    """
    copy = scratch / damaged.database.name
    shutil.copy(damaged.database, copy)
    if damaged.wal.exists():
        shutil.copy(damaged.wal, scratch)
    with sound.open("rb") as file:
        page = file.read(_PAGE_BYTES)
    with copy.open("r+b") as file:
        file.write(page[: _COUNTS.start] + bytes(len(_COUNTS)) + page[_COUNTS.stop :])
    return copy


def _parsed(position: int, key: Any, value: Any, tag: Any, is_ours: int) -> Found | None:
    try:
        name, owner = key.decode().split(":", 1)
        text, scope = value.decode(), None if tag is None else tag.decode()
    except (AttributeError, ValueError):
        return Unreadable()
    if name == "key":
        return None
    if name == "m":
        row = parsing.row(position, text, scope) if is_ours else None
        return row if row is not None and row.memory.id == owner else Unreadable()
    facet = parsing.facet(name, text) if is_ours else None
    return Unreadable() if facet is None else Facet(name, owner, facet)


def _readable(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Rows in ascending order, from one stretch of sound pages to the next."""
    position: int | None = 0
    while position is not None:
        try:
            for columns in connection.execute(sql.SALVAGE, (position, -1)):
                position = columns[0]
                yield columns
            return
        except sqlite3.DatabaseError:
            position = _past_damage(connection, position)


def _past_damage(connection: sqlite3.Connection, position: int) -> int | None:
    """The nearest later position that can be read on from, found by doubling and halving; None when there is none."""
    step = 1
    while not _reads(connection, position + step):
        step *= 2
        if position + step > _LAST_POSITION:
            return None
    bad, good = position + step // 2, position + step
    while good - bad > 1:
        middle = (bad + good) // 2
        if _reads(connection, middle):
            good = middle
        else:
            bad = middle
    return good


def _reads(connection: sqlite3.Connection, position: int) -> bool:
    try:
        connection.execute(sql.SALVAGE, (position, 1)).fetchall()
    except sqlite3.DatabaseError:
        return False
    return True
