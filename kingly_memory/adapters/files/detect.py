"""Which format a path has, and its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import ai_threads, jsonl, kingly_layout, legacy, notes
from kingly_memory.adapters.files.ai_threads import AiEntry
from kingly_memory.adapters.files.reading import Entry, document, json_value, lines, opened
from kingly_memory.errors import InvalidInput

JSONL_SUFFIXES = (".jsonl", ".ndjson")
FIRST_LINE_BYTES = 1_048_576
"""How much of the first line is looked at to tell JSONL from one JSON value."""


class Format(StrEnum):
    """What can be imported."""

    JSONL = jsonl.FORMAT
    NOTES = notes.FORMAT
    LEGACY = legacy.FORMAT
    KINGLY = kingly_layout.FORMAT
    AI = ai_threads.FORMAT


@dataclass(frozen=True, slots=True)
class Source:
    """A path with its format found; `entries` reads it, once.

    `beside` are the threads of a project folder, beside its notes; `inside` is the folder in it where they are.
    """

    format: Format
    entries: Iterator[Entry | AiEntry]
    beside: Source | None = None
    inside: Path | None = None


def source(
    path: Path, *, content_limit_bytes: int, format_name: str | None = None, now: datetime | None = None
) -> Source:
    """Open a path for import. `format_name` settles what the path is; without one, its content does. Times of a thread
    that lie beyond `now` are not believed.

    Raises InvalidInput when there is nothing, or nothing that can be imported, at the path.
    """
    given = None if format_name is None else _format(format_name)
    if path.is_dir():
        cache = path / kingly_layout.QUICK_CACHE
        if given is Format.KINGLY or (given is None and cache.is_file()):
            return _from_document(document(cache), cache, Format.KINGLY, content_limit_bytes)
        inside = ai_threads.in_project(path)
        if given is None and inside is not None:
            return _project(path, inside, content_limit_bytes, now)
        if given is Format.AI or (given is None and ai_threads.is_folder_of_threads(path)):
            return _threads(path, content_limit_bytes, now, inside)
        if given not in (None, Format.NOTES):
            raise InvalidInput("file", f"{path} is a folder; the format {given} is a file")
        return Source(Format.NOTES, notes.read(path, content_limit_bytes=content_limit_bytes))
    if given is Format.NOTES or (given is None and path.name.lower().endswith(notes.SUFFIXES)):
        opened(path).close()
        return Source(Format.NOTES, notes.read(path, content_limit_bytes=content_limit_bytes))
    if given is Format.JSONL or (given is None and path.name.lower().endswith(JSONL_SUFFIXES)):
        return _from_lines(path, content_limit_bytes)
    if given is Format.AI or (given is None and ai_threads.has_place(path)):
        return _threads(path, content_limit_bytes, now)
    if given is None and _begins_with_a_memory(path):
        return _from_lines(path, content_limit_bytes)
    content = document(path)
    if given is None and ai_threads.looks_like(content):
        return _threads(path, content_limit_bytes, now)
    return _from_document(content, path, given or _shape(content, path), content_limit_bytes)


def _format(name: str) -> Format:
    if name in Format.__members__.values():
        return Format(name)
    raise InvalidInput("format", f"{name[:40]!r} is unknown; choose one of {', '.join(Format)}")


def _from_lines(path: Path, content_limit_bytes: int) -> Source:
    opened(path).close()
    return Source(Format.JSONL, jsonl.read(path, content_limit_bytes=content_limit_bytes))


def _threads(path: Path, content_limit_bytes: int, now: datetime | None, inside: Path | None = None) -> Source:
    if not path.is_dir():
        opened(path).close()
    entries = ai_threads.read(inside or path, content_limit_bytes=content_limit_bytes, now=now)
    return Source(Format.AI, entries, inside=inside)


def _project(path: Path, inside: Path, content_limit_bytes: int, now: datetime | None) -> Source:
    """The notes of a project folder and the threads inside it; these alone where it has no notes."""
    threads = _threads(path, content_limit_bytes, now, inside)
    written = notes.read(path, content_limit_bytes=content_limit_bytes)
    first = next(written, None)
    return threads if first is None else Source(Format.NOTES, chain([first], written), beside=threads)


def _from_document(content: Any, path: Path, found: Format, content_limit_bytes: int) -> Source:
    readers = {Format.LEGACY: legacy.entries, Format.KINGLY: kingly_layout.entries}
    return Source(found, readers[found](content, path, content_limit_bytes=content_limit_bytes))


def _begins_with_a_memory(path: Path) -> bool:
    with opened(path) as file:
        first = next(lines(file, FIRST_LINE_BYTES), None)
    try:
        data = json_value(first or b"")
    except InvalidInput:
        return False
    is_memory = isinstance(data, Mapping) and isinstance(data.get("content"), str)
    return is_memory and not ai_threads.looks_like(data)


def _shape(content: Any, path: Path) -> Format:
    if kingly_layout.looks_like(content) or path.name == kingly_layout.QUICK_CACHE:
        return Format.KINGLY
    if legacy.looks_like(content) or (isinstance(content, dict) and path.name == legacy.NAME):
        return Format.LEGACY
    if isinstance(content, dict):
        raise InvalidInput(
            "file", f"{path} may hold anything; `--format legacy` imports each of its fields as the memory of that key"
        )
    raise InvalidInput("file", f"{path} holds nothing that can be imported; name its format with --format")
