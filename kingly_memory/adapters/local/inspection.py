"""Looking at a store before it is opened for writing: is it ours, whole, and of a layout we know?

diskcache sets any attribute that its Settings table names, and SQLite runs any trigger it finds, so both are compared
with what we would have written, over a raw read-only connection, before either gets a chance.
"""

from __future__ import annotations

import re
import sqlite3
from hashlib import sha256
from pathlib import Path

from kingly_memory.adapters.local import sql
from kingly_memory.errors import StoreTooOld, StoreUntrusted

_SHADOW_TABLE = re.compile(
    r"CREATE TABLE 'km_(text|pieces)_(data|idx|content|docsize|config)'\([\w ,()]+\)( WITHOUT ROWID)?"
)
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


READ_WAIT_S = 1.0
"""How long a read waits for a lock. Only another program's exclusive lock is in its way."""


def connect_read_only(database: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """A raw connection that cannot write. Raises sqlite3.Error when the file cannot be read.

    `immutable` is for folders that cannot be written to and hold no WAL: SQLite then takes no locks.
    """
    uri = f"file:{_escaped(database)}?mode=ro" + ("&immutable=1" if immutable else "")
    connection = sqlite3.connect(
        uri, uri=True, timeout=READ_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        for pragma in sql.READ_PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _escaped(path: Path) -> str:
    """The path as part of a URI; urllib would take longer to load than this whole connection to open."""
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreUntrusted when the database holds a table, view, trigger, index or setting that is not ours, and
    StoreTooOld when an earlier version wrote it.

    A newer layout may hold more than we know. Only read by us, it is asked for no more than the table of the rows.
    """
    layout = layout_of(connection)
    if 0 < layout < sql.LAYOUT:
        raise StoreTooOld(str(path), layout, sql.LAYOUT)
    is_newer = layout > sql.LAYOUT
    for kind, name, text in connection.execute(sql.OWN_CHECK):
        if not _is_ours(kind, name, text) and (name == "Cache" or not is_newer):
            raise StoreUntrusted(str(path), f"it holds a {kind} named {name[:60]!r} that kingly-memory did not make")
    if is_newer or not connection.execute(sql.HAS_SETTINGS).fetchone():
        return
    for name, value in connection.execute(sql.SETTINGS_CHECK):
        if not _is_our_setting(name, value):
            raise StoreUntrusted(str(path), f"its setting {str(name)[:60]!r} was changed by another program")


def check_table(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreUntrusted when the table of the rows is another than ours, or something else than a table."""
    for columns in connection.execute(sql.TABLE_CHECK):
        if not _is_ours(*(_text(one) for one in columns)):
            raise StoreUntrusted(str(path), "its table of memories is not the one that kingly-memory made")


def layout_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _text(column: str | bytes) -> str:
    return column if isinstance(column, str) else column.decode(errors="replace")


def _is_our_setting(name: object, value: object) -> bool:
    if name == "sqlite_synchronous":
        return value in sql.SYNCHRONOUS.values()
    return name in sql.METADATA or (name in sql.SETTINGS and value == sql.SETTINGS[str(name)])


def _is_ours(kind: str, name: str, text: str | None) -> bool:
    if text is None:
        return kind == "index" and name == "sqlite_autoindex_Settings_1"
    if name in sql.SCHEMA:
        return text == sql.SCHEMA[name]
    if name in _DISKCACHE_OBJECTS:
        return sha256(text.encode()).hexdigest()[:16] == _DISKCACHE_OBJECTS[name]
    return kind == "table" and _SHADOW_TABLE.fullmatch(text) is not None
