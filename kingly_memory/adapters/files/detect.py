"""Which format a path has, and its items."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from kingly_memory.adapters.files import ai, foreign, jsonl, legacy, notes, old_home
from kingly_memory.adapters.files.reading import Entry, document, json_value, lines, opened
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.imported import ImportedNote

JSONL_SUFFIXES = (".jsonl", ".ndjson")
FIRST_LINE_BYTES = 1_048_576
"""How much of a line is looked at to tell JSONL from one JSON value."""
LINES_LOOKED_AT = 20
_DATABASE = b"SQLite format 3\x00"


class FileFormat(StrEnum):
    """What can be imported."""

    JSONL = jsonl.FORMAT
    NOTES = notes.FORMAT
    LEGACY = legacy.FORMAT
    AI = ai.FORMAT
    MEM0 = foreign.MEM0
    TEXT = foreign.TEXT
    HOME = old_home.FORMAT
    """Read by `adapters.local`, so `source` refuses it."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A path with its format found; `entries` reads it, once."""

    format: FileFormat
    entries: Iterator[Entry | ImportedNote | notes.PassedOver]
    unknown: dict[str, None] = field(default_factory=dict)
    """Fields of lines that a memory does not have, which are in its metadata, as far as the lines were read."""


def source(
    path: Path,
    *,
    content_limit_bytes: int,
    format_name: str | None = None,
    trust: bool = False,
) -> FoundFile:
    """Open a path for import. `format_name` settles what the path is; without one, its content does.
    `trust`: see `jsonl.read`.

    Raises InvalidInput when there is nothing, or nothing that can be imported, at the path.
    """
    if format_name is not None and format_name not in FileFormat.__members__.values():
        raise InvalidInput("format", f"{format_name[:40]!r} is unknown; choose one of {', '.join(FileFormat)}")
    given = None if format_name is None else FileFormat(format_name)
    if given is FileFormat.HOME:
        raise InvalidInput("file", f"{path} is no home of Kingly Memory")

    if path.is_dir():
        return _of_folder(path, given, content_limit_bytes)
    if given is FileFormat.AI:
        raise InvalidInput("file", f"{path} is no folder; name the one that holds threads/ and focus.json")
    _check_is_no_backup(path)
    found, content = given or _by_name(path), None
    if found in (None, FileFormat.MEM0, FileFormat.LEGACY):
        if found is None and _is_jsonl(path):
            found = FileFormat.JSONL
        else:
            content = (
                None if found is None and foreign.beginning(path) not in (*foreign.OF_JSON, b"") else document(path)
            )
            found = found or _by_value(content, path)
    entries: Iterator[Entry | ImportedNote | notes.PassedOver]
    unknown: dict[str, None] = {}
    match found:
        case FileFormat.NOTES:
            entries = notes.read(_real(path), content_limit_bytes=content_limit_bytes)
        case FileFormat.JSONL:
            entries = jsonl.read(path, content_limit_bytes=content_limit_bytes, trust=trust, unknown=unknown)
        case FileFormat.TEXT:
            entries = foreign.text(path, content_limit_bytes=content_limit_bytes)
        case FileFormat.MEM0:
            items = foreign.mem0_items(content) or (content if isinstance(content, list) else [content])
            entries = jsonl.entries(items, path, content_limit_bytes=content_limit_bytes)
        case _:
            entries = legacy.entries(content, path, content_limit_bytes=content_limit_bytes)
    return FoundFile(found, entries, unknown)


def _check_is_no_backup(path: Path) -> None:
    with opened(path) as file:
        if file.read(len(_DATABASE)) == _DATABASE:
            restore = f"kingly-memory backup restore {quote(str(path))}"
            raise InvalidInput("file", f"{path} is a database; `{restore}` puts a backup back")


def _by_name(path: Path) -> FileFormat | None:
    name = path.name.lower()
    if name.endswith(notes.SUFFIXES):
        return FileFormat.NOTES
    if name.endswith(JSONL_SUFFIXES):
        return FileFormat.JSONL
    if name.endswith(".txt") and foreign.beginning(path) not in foreign.OF_JSON:
        return FileFormat.TEXT
    return None


def _by_value(content: Any, path: Path) -> FileFormat:
    """What a file that is one JSON value is. Raises InvalidInput."""
    if foreign.mem0_items(content) is not None:
        return FileFormat.MEM0
    if legacy.looks_like(content) or (isinstance(content, dict) and path.name == legacy.NAME):
        return FileFormat.LEGACY
    if isinstance(content, dict):
        raise InvalidInput(
            "file", f"{path} may hold anything; `--format legacy` imports each of its fields as the memory of that key"
        )
    what = "is neither a Markdown note (.md), nor text (.txt), nor JSON or JSONL of a known form"
    raise InvalidInput("file", f"{path} {what}; --format text imports any text as one memory")


def _of_folder(path: Path, given: FileFormat | None, content_limit_bytes: int) -> FoundFile:
    if given is FileFormat.AI or (given is None and ai.is_folder_of_threads(path)):
        return FoundFile(FileFormat.AI, ai.read(path, content_limit_bytes=content_limit_bytes))
    if given not in (None, FileFormat.NOTES):
        raise InvalidInput("file", f"{path} is a folder; the format {given} is a file")
    return FoundFile(FileFormat.NOTES, notes.read(_real(path), content_limit_bytes=content_limit_bytes))


def _real(path: Path) -> Path:
    """The same folder or file under whatever name it was given: its notes are known by their paths."""
    return Path(os.path.realpath(path))


def _is_jsonl(path: Path) -> bool:
    """True when one of the first lines makes an entry; others may be wrong, but for those of a single JSON value."""
    with opened(path) as file:
        first = [line for line in islice(lines(file, FIRST_LINE_BYTES), LINES_LOOKED_AT) if line]
    if not first or first[0].lstrip().startswith(b"["):
        return False
    values = list(map(_value, first))
    is_any = any(map(jsonl.is_entry, values))
    return is_any and (values[0] is not None or not _is_one_value(path))


def _is_one_value(path: Path) -> bool:
    try:
        document(path)
    except InvalidInput:
        return False
    return True


def _value(line: bytes) -> Any:
    try:
        return json_value(line)
    except InvalidInput:
        return None
