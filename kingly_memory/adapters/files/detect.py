"""Which format a path has, and its items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from kingly_memory.adapters.files import ai, containers, fields, jsonl, notes, okf, old_home, programs
from kingly_memory.adapters.files.reading import Entry, Problem, attempt, document, json_value, lines, opened, text_of
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import named_id
from kingly_memory.imported import ImportedNote
from kingly_memory.validation import CONTENT_LIMIT_BYTES, Imported, draft

T = TypeVar("T")

JSONL_SUFFIXES = (".jsonl", ".ndjson")
FIRST_LINE_BYTES = 1_048_576
"""How much of a line is looked at to tell JSONL from one JSON value."""
LINES_LOOKED_AT = 20
OF_JSON = (b"{", b"[")
TEXT = "text"


class FileFormat(StrEnum):
    """What can be imported."""

    JSONL = jsonl.FORMAT
    NOTES = notes.FORMAT
    LEGACY = programs.LEGACY
    AI = ai.FORMAT
    OKF = okf.FORMAT
    MEM0 = programs.MEM0
    CHATGPT = programs.CHATGPT
    CLAUDE = programs.CLAUDE
    LETTA = programs.LETTA
    CLAUDE_MEM = programs.CLAUDE_MEM
    LANGGRAPH = containers.LANGGRAPH
    TEXT = TEXT
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
        return _of_folder(path, given)
    if given in (FileFormat.AI, FileFormat.OKF):
        what = "threads/ and focus.json" if given is FileFormat.AI else "the bundle's index.md"
        raise InvalidInput("file", f"{path} is no folder; name the one that holds {what}")
    if (held := _contained(path)) is not None:
        return held
    file_format, content = given or _by_name(path) or (FileFormat.JSONL if _is_jsonl(path) else None), None
    if file_format in (FileFormat.LEGACY, *programs.OF_JSON) or (
        file_format is None and beginning(path) in (*OF_JSON, b"")
    ):
        content = document(path)
    file_format, unknown = file_format or _by_value(content, path), dict[str, None]()
    entries = _entries(file_format, content, path, trust=trust, unknown=unknown)
    return FoundFile(file_format, entries, unknown)


def _entries(
    file_format: FileFormat, content: Any, path: Path, *, trust: bool, unknown: dict[str, None]
) -> Iterator[Entry | ImportedNote | notes.PassedOver]:
    match file_format:
        case FileFormat.NOTES:
            return notes.read(_real(path))
        case FileFormat.JSONL:
            return jsonl.read(path, trust=trust, unknown=unknown)
        case FileFormat.TEXT:
            return text(path)
        case FileFormat.LEGACY:
            return jsonl.entries(
                programs.legacy_items(content),
                path,
                format_name=programs.LEGACY,
                as_line=programs.legacy_line,
                called=programs.LEGACY_CALLED,
            )
        case FileFormat.LANGGRAPH:
            raise InvalidInput("file", f"{path} is no database; name the SQLite file of the store")
        case _:
            items = programs.OF_JSON[file_format](content) or (content if isinstance(content, list) else [content])
            return jsonl.entries(items, path)


def _contained(path: Path) -> FoundFile | None:
    """What an archive or a database holds; None for another file. Raises InvalidInput."""
    with opened(path) as file:
        head = file.read(len(containers.DATABASE))
    if head == containers.DATABASE:
        table = containers.rows(path)
        if table is None:
            restore = f"kingly-memory backup restore {quote(str(path))}"
            raise InvalidInput("file", f"{path} is a database; `{restore}` puts a backup back")
        entries = jsonl.entries(table[1], path)
        return FoundFile(FileFormat(table[0]), entries)
    if not head.startswith(containers.ARCHIVE):
        return None
    held = (one for one in containers.values(path) if not isinstance(one, Problem))
    name = next((name for _, content in held if (name := _program(content))), None)
    if name is None:
        raise InvalidInput("file", f"{path} is an archive without an export that is known; unpack it and name a file")
    return FoundFile(FileFormat(name), _of_archive(path, name))


def _of_archive(path: Path, name: str) -> Iterator[Entry]:
    for value in containers.values(path):
        if isinstance(value, Problem):
            yield value
        elif (items := programs.OF_JSON[name](value[1])) is not None:
            yield from jsonl.entries(items, value[0])


def _program(content: Any) -> str | None:
    return next((name for name, lines_of in programs.OF_JSON.items() if lines_of(content) is not None), None)


def _by_name(path: Path) -> FileFormat | None:
    name = path.name.lower()
    if name.endswith(notes.SUFFIXES):
        return FileFormat.NOTES
    if name.endswith(JSONL_SUFFIXES):
        return FileFormat.JSONL
    if name.endswith(".txt") and beginning(path) not in OF_JSON:
        return FileFormat.TEXT
    return None


def _by_value(content: Any, path: Path) -> FileFormat:
    """What a file that is one JSON value is. Raises InvalidInput."""
    if name := _program(content):
        return FileFormat(name)
    if programs.is_legacy(content) or (isinstance(content, dict) and path.name == programs.LEGACY_NAME):
        return FileFormat.LEGACY
    if isinstance(content, dict):
        raise InvalidInput(
            "file", f"{path} may hold anything; `--format legacy` imports each of its fields as the memory of that key"
        )
    what = "is neither a Markdown note (.md), nor text (.txt), nor JSON or JSONL of a known form"
    raise InvalidInput("file", f"{path} {what}; --format text imports any text as one memory")


def _of_folder(path: Path, given: FileFormat | None) -> FoundFile:
    if given is FileFormat.AI or (given is None and ai.is_folder_of_threads(path)):
        return FoundFile(FileFormat.AI, ai.read(path))
    if given is FileFormat.OKF or (given is None and okf.is_bundle(path)):
        return FoundFile(FileFormat.OKF, okf.read(_real(path)))
    if given not in (None, FileFormat.NOTES):
        raise InvalidInput("file", f"{path} is a folder; the format {given} is a file")
    return FoundFile(FileFormat.NOTES, notes.read(_real(path)))


def _real(path: Path) -> Path:
    """The same folder or file under whatever name it was given: its notes are known by their paths."""
    return Path(os.path.realpath(path))


def _is_jsonl(path: Path) -> bool:
    """True when one of the first lines makes an entry; others may be wrong, but for those of a single JSON value."""
    with opened(path) as file:
        first = [line for line in islice(lines(file, FIRST_LINE_BYTES), LINES_LOOKED_AT) if line]
    values = [_or_none(json_value, line) for line in first]
    is_any = any(map(jsonl.is_entry, values))
    return is_any and (values[0] is not None or _or_none(document, path) is None)


def _or_none(read: Callable[[T], Any], argument: T) -> Any:
    try:
        return read(argument)
    except InvalidInput:
        return None


def beginning(path: Path) -> bytes:
    """The first byte of a file that says anything; empty where none does."""
    with opened(path) as file:
        return file.read(4_096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


def text(path: Path) -> Iterator[Imported | Problem]:
    """The whole file as one memory, nothing of an empty one: the same text is the same one."""

    def imported() -> Imported:
        content, _ = text_of(path, CONTENT_LIMIT_BYTES)
        parts = notes.sections(content)
        title = fields.title(parts[0].heading) if parts else None
        made = draft(content, title=title, origin="import")
        return Imported(made, named_id(TEXT, content))

    if beginning(path):
        yield attempt(path, "", imported)
