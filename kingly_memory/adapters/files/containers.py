"""Files of other programs that hold more than one value: archives of exports, and SQLite databases.

No archive is unpacked, and of a database only plain tables are read, so that no view, trigger or path of it matters.
"""

from __future__ import annotations

import sqlite3
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.programs import CLAUDE_MEM, claude_mem_rows
from kingly_memory.adapters.files.reading import DOCUMENT_LIMIT_BYTES, Problem, json_value
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

LANGGRAPH = "langgraph"
ROOT = "langgraph"
"""The label under which `KinglyStore` looks for the items of a store."""
ARCHIVE, DATABASE = b"PK\x03\x04", b"SQLite format 3\x00"
_OF_LANGGRAPH = {"prefix", "key", "value", "created_at", "updated_at"}
_MINUTE_S = 60
_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON")


def values(path: Path) -> Iterator[tuple[Path, Any] | Problem]:
    """The JSON values of an archive, each with where it stands, in the order of the names. Raises InvalidInput."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.infolist(), key=lambda member: member.filename):
                if not member.filename.endswith(".json"):
                    continue
                try:
                    with archive.open(member) as file:
                        content = file.read(DOCUMENT_LIMIT_BYTES + 1)
                    if len(content) > DOCUMENT_LIMIT_BYTES:
                        raise InvalidInput("file", f"has more than {DOCUMENT_LIMIT_BYTES:,} bytes")
                    yield path / member.filename, json_value(content)
                except InvalidInput as error:
                    yield Problem(path / member.filename, "", error.problem)
                except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
                    yield Problem(path / member.filename, "", f"cannot be unpacked ({error})")
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInput("file", f"{path} is no archive that can be read ({error})") from None


def rows(path: Path) -> tuple[str, list[JsonObject]] | None:
    """The format of a database of another program and its lines; None for one that we do not know. Raises
    InvalidInput."""
    how = "mode=ro" if path.with_name(f"{path.name}-wal").is_file() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            if (columns := _columns(connection, "store")) >= _OF_LANGGRAPH:
                return LANGGRAPH, [_item(row) for row in _all(connection, "store", columns)]
            if "memory_session_id" in (columns := _columns(connection, "observations")):
                observed = _all(connection, "observations", columns)
                summaries = _all(connection, "session_summaries", _columns(connection, "session_summaries"))
                return CLAUDE_MEM, list(claude_mem_rows(observed, summaries))
    except sqlite3.Error as error:
        raise InvalidInput("file", f"{path} cannot be read as a database ({error})") from None
    return None


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Of a plain table of that name; none where it is something else."""
    kinds = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    if [(kind, str(text)[:12].upper()) for kind, text in kinds] != [("table", "CREATE TABLE")]:
        return set()
    return {str(column[1]) for column in connection.execute(f"PRAGMA table_info({table})")}


def _all(connection: sqlite3.Connection, table: str, columns: set[str]) -> Sequence[JsonObject]:
    names = sorted(columns)
    if not names:
        return ()
    listed = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
    cursor = connection.execute(f"SELECT {listed} FROM {table} ORDER BY rowid")  # noqa: S608  # quoted above
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _item(row: JsonObject) -> JsonObject:
    """An item of a LangGraph store as a document."""
    value = row["value"] if isinstance(row["value"], str) else bytes(row["value"] or b"").decode(errors="replace")
    with suppress(InvalidInput):
        value = json_value(value.encode())
    minutes = row.get("ttl_minutes")
    document = {
        "namespace": [ROOT, *str(row["prefix"]).split(".")],
        "value": value,
        "ttl_s": None if minutes is None else minutes * _MINUTE_S,
        **{name: row.get(name) for name in ("key", "created_at", "updated_at", "expires_at")},
    }
    return {"document": document}
