"""Is a store ours, whole, and of a layout that we know? And what does an error of SQLite mean?

diskcache sets any attribute that its Settings table names, and SQLite runs any trigger it finds. So both are compared
with what we would have written, over a raw read-only connection, before either gets a chance.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kingly_memory.adapters.local import rows, sql, sqlite, upgrades
from kingly_memory.digests import sha256
from kingly_memory.errors import (
    HAVE_MORE_FILES,
    TOO_MANY_FILES,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreTooOld,
    StoreUnreadable,
    StoreUntrusted,
    StoreUnwritable,
)

READ_WAIT_S = 1.0
"""How long a read waits for a lock. Only another program's exclusive lock is in its way."""

Inode = tuple[int, int]
"""Device and number: which file lies under a path."""

_SHADOW_TABLE = re.compile(
    r"CREATE TABLE 'km_(text|pieces|passages|documents_text)_(data|idx|content|docsize|config)'"
    r"\([\w ,()]+\)( WITHOUT ROWID)?"
)
_LOST = "key", None
"""Another memory has the key now."""
_DISKCACHE_OBJECTS = {
    "Settings": "7dc3acaeb6bbc0a0",
    "Cache": "b1e287d8264b4cfb",
    "Cache_key_raw": "4f0a5302019317d0",
    "Cache_expire_time": "4a273a1da0f568b2",
    "Settings_count_insert": "0d6ef5b954e42033",
    "Settings_count_delete": "2eb9bf040815f4bc",
    "Settings_size_insert": "404b74ec6db5c3f1",
    "Settings_size_update": "18eb18f5d803b490",
    "Settings_size_delete": "613ef63fc328c3a9",
}
"""SHA-256 (first 16 digits) of the statements that diskcache 5.6 creates its objects with."""


def connect_read_only(
    database: Path,
    *,
    immutable: bool = False,
    key_name: str | None = None,
    pragmas: Sequence[str] = sql.READ_PRAGMAS,
) -> sqlite3.Connection:
    """A raw connection that cannot write. Raises what `sqlite.connect` does, also when the file cannot be read.

    `immutable`: SQLite takes no locks and looks at no WAL. Where it cannot make the WAL's index (a read-only folder, a
    full disk) and the WAL holds nothing, the file is read so as well.
    """
    how = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection = sqlite.connect(
        database, how, key_name, timeout=READ_WAIT_S, check_same_thread=False, cached_statements=256
    )
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except sqlite.Error as error:
        connection.close()
        if immutable or not _is_without_log(database, error):
            raise
        return connect_read_only(database, immutable=True, key_name=key_name, pragmas=pragmas)
    return connection


def _is_without_log(database: Path, error: sqlite3.Error) -> bool:
    """Whether that says that no log can be made there, and none holds anything."""
    with suppress(FileNotFoundError):
        if database.with_name(f"{database.name}-wal").stat().st_size:
            return False
    if primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return not os.access(database.parent, os.W_OK)
    return error_code(error) == sqlite3.SQLITE_IOERR_SHMSIZE


def layout_of(connection: sqlite3.Connection) -> int:
    """Raises sqlite3.DatabaseError when the header says two things."""
    layout, application = connection.execute(sql.VERSIONS).fetchone()
    if application != sql.application(layout):
        raise _broken("its header is damaged")
    return int(layout)


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreUntrusted when the database holds a table, view, trigger, index or setting that is not ours in its
    layout, and StoreTooOld when that is from before the first release.

    A newer layout may hold more than we know. Only read by us, it is asked for no more than the table of the rows.
    """
    layout = layout_of(connection)
    if 0 < layout < upgrades.FIRST:
        raise StoreTooOld(str(path), layout, sql.LAYOUT)
    is_newer, has_settings, schema = layout > sql.LAYOUT, False, upgrades.schema(layout or sql.LAYOUT)
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if not _is_ours(schema, kind, name, text) and (name == "Cache" or not is_newer):
            if "\0" in (text or ""):  # no statement holds one
                raise _broken("its list of tables is damaged")
            raise StoreUntrusted(str(path), f"it holds a {kind} named {name[:60]!r} that kingly-memory did not make")
        has_settings |= name == "Settings"
    if is_newer or not has_settings:
        return
    for name, value in connection.execute("SELECT key, value FROM Settings"):
        is_ours = name in sql.METADATA or (name in sql.SETTINGS and value == sql.SETTINGS[str(name)])
        if not is_ours and not (name == "sqlite_synchronous" and value in sql.SYNCHRONOUS.values()):
            raise StoreUntrusted(str(path), f"its setting {str(name)[:60]!r} was changed by another program")


def check_table(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a damaged database has the table of the rows. Raises StoreUntrusted when it is not the one we make."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name = 'Cache'").fetchall()
    for columns in found:
        if not _is_ours(
            {}, *(column if isinstance(column, str) else column.decode(errors="replace") for column in columns)
        ):
            raise StoreUntrusted(str(path), "its table of memories is not the one that kingly-memory made")
    return bool(found)


def _is_ours(schema: Mapping[str, str], kind: str, name: str, text: str | None) -> bool:
    if text is None:
        return kind == "index" and name == "sqlite_autoindex_Settings_1"
    if name == "sqlite_sequence":
        return text == "CREATE TABLE sqlite_sequence(name,seq)"
    if name in schema:
        return text == schema[name]
    if name in _DISKCACHE_OBJECTS:
        return sha256(text.encode()).hexdigest()[:16] == _DISKCACHE_OBJECTS[name]
    return kind == "table" and _SHADOW_TABLE.fullmatch(text) is not None


def check_pages(connection: sqlite3.Connection) -> None:
    """Read every page. Raises sqlite3.DatabaseError when tables and indexes do not fit together."""
    for (problem,) in connection.execute("PRAGMA integrity_check(1)"):
        if problem != "ok":
            raise _broken(problem)


def read_all(connection: sqlite3.Connection) -> list[str]:
    """Read every byte, in a transaction that may write. Returns what is damaged by itself. Raises sqlite3.DatabaseError
    when tables and indexes do not fit together: then what reads has to be put together anew."""
    check_pages(connection)
    damaged, now_s, counted = [], 0.0, Counter[tuple[str, str] | None]()
    for key, value, status, *columns in connection.execute(sql.EVERY_RECORD):
        row = rows.read_row(0, value, status)
        if row is None:
            damaged.append(str(key).removeprefix("m:"))
            continue
        expected = rows.columns(row.memory, row.status, now_s)
        pairs = zip(sql.COLUMNS, expected, columns, strict=True)
        wrong = [
            name for name, first, second in pairs if first != second and name != "written_s" and (name, second) != _LOST
        ]
        if wrong or f"m:{row.memory.id}" != key:
            raise _broken(f"a row of km_memory has another {', '.join(wrong)} than its record")
        counted[rows.counted_as(row.memory.scope.space, row.memory.type, row.status)] += 1
    del counted[None]
    if not damaged and counted != {(space, name): number for space, name, number in connection.execute(sql.ALL_COUNTS)}:
        raise _broken("the counts of memories are not those of its rows")
    for index in () if damaged else [name for (name,) in connection.execute(sql.TEXT_INDEXES)]:
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    rows.teach(connection)
    damaged += [one for one in damaged_rows(connection.execute, 0, sql.SHARES) if not one.startswith("memory ")]
    for remote, item, *columns in connection.execute(sql.DAMAGED_DELIVERIES).fetchall():
        dead = rows.read_delivery(remote, item, columns)  # so that the outbox lists it, to be tried again
        connection.execute(sql.SET_DELIVERY, rows.delivery_columns(remote, item, dead))
    return damaged


def damaged_rows(ask: Callable[[str, tuple[int, int]], Iterable[tuple[Any, ...]]], first: int, end: int) -> list[str]:
    """What is damaged by itself in those shares of all rows, by kind and name."""
    return [
        f"{kind} {name}" for kind, statement in sql.DAMAGED_ROWS.items() for (name,) in ask(statement, (first, end))
    ]


def _broken(problem: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


# --- errors -----------------------------------------------------------------------------------------------------------

_BROKEN_FILE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ}
_NOT_READ = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGE = {
    "malformed JSON": "a row is no JSON",
    "Could not decode to UTF-8": "a row is no UTF-8",
    "vtable constructor failed": "a text index cannot be opened",
    "unsupported file format": "its header is damaged",
    "disk image is malformed": "pages of it hold something else than was written",
    "file is not a database": "its first page is not a database's",
}
"""Our words for what SQLite says of damage; the rest of its message may quote what a row says."""
_REFUSED = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
MAKE_READABLE = "Make it yours to read and write: chmod -R u+rwX on that folder"
MOVE_TO_ANOTHER_DISK = "The disk may be failing: look at the system's log, and copy the home to another one"


class Malformed(StoreDamaged):
    """SQLite cannot make sense of the database, or its replacement was interrupted: what still reads can be saved.

    `inode` is the file in question, None when it is not in its place. Another one there means that it is mended.
    """

    def __init__(self, path: str, problem: str, inode: Inode | None) -> None:
        super().__init__(path, problem)
        self.problem = problem
        self.inode = inode


Recovery = Callable[[Malformed], None]
"""Puts a whole store in the place of the damaged one, or raises StoreError."""


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 when sqlite3 itself complains."""
    return error_code(error) & 0xFF


def error_code(error: sqlite3.Error) -> int:
    """The same with its extension."""
    return getattr(error, "sqlite_errorcode", 0)


def damage_in(error: sqlite3.Error) -> str | None:
    """What is damaged, in our words; None where SQLite says something else."""
    return next((problem for text, problem in _DAMAGE.items() if text in str(error)), None)


def failure(error: BaseException, path: str, inode: Inode | None, waited_s: float, *, writing: bool) -> StoreError:
    """The error of a read or a commit, in our words."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, sqlite.Error):
        problem = damage_in(error)
        if problem or _BROKEN_FILE & {primary_code(error), error_code(error)}:
            return Malformed(path, problem or str(error), inode)
        if primary_code(error) in _LOCKED:
            return StoreBusy(waited_s)
        if error_code(error) == sqlite3.SQLITE_READONLY_ROLLBACK:
            # Not for SQLite to roll back: a planted journal may name any file, which SQLite then deletes.
            return Malformed(path, "it was not finished when it was made", inode)
        if writing and error_code(error) == sqlite3.SQLITE_READONLY and os.access(f"{path}/cache.db", os.W_OK):
            return Malformed(path, "its header says that it is read-only", inode)
        if primary_code(error) in _REFUSED:
            why = (TOO_MANY_FILES, HAVE_MORE_FILES) if _lacks_files() else (str(error), MAKE_READABLE)
            return StoreUnreadable(path, *why)
        if not writing or error_code(error) in _NOT_READ:
            return StoreUnreadable(path, str(error), MOVE_TO_ANOTHER_DISK)
    return StoreUnwritable(path, str(error) or type(error).__name__)


def _lacks_files() -> bool:
    """Whether the process or the system has no more files to open. SQLite does not say that, so it is tried."""
    try:
        with ExitStack() as stack:
            for _ in ("the database", "its log", "the index of that"):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    except OSError as refused:
        return refused.errno in (errno.EMFILE, errno.ENFILE)
    return False
