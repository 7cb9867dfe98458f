"""A folder of Markdown notes: every note becomes a semantic memory that an edited note later revises."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kingly_memory.adapters.files.reading import Entry, Problem, attempt, import_key, opened, point_in_time
from kingly_memory.errors import InvalidInput
from kingly_memory.validation import KEY_LIMIT, Imported, draft, mended

FORMAT = "notes"
SUFFIXES = (".md", ".markdown")
FRONT_MATTER_LIMIT_BYTES = 65_536
"""What a note's file may have on top of the content limit."""

_HEADING = re.compile(r"#{1,6}[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*$")
_FENCES = ("```", "~~~")
_FRONT = re.compile(r"---[ \t]*\r?\n(?P<block>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(?P<name>[A-Za-z_]+)[ \t]*:[ \t]*(?P<value>.*)$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(?P<value>.+)$")


class Note(NamedTuple):
    """A note with what the lines between `---` marks at its top say, as far as a memory can use it. `date` is the text
    as written; the body is what follows, unchanged."""

    body: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    date: str | None = None


def read(root: Path, *, content_limit_bytes: int) -> Iterator[Entry]:
    """The notes of a folder and the folders in it, by path; or the one note that `root` is.

    Hidden folders (`.git`, `.obsidian`) and empty notes are left out. Symbolic links are not followed: each makes a
    Problem. A note's key is made from its file's full path.
    """
    if not root.is_dir():
        yield from _note(root, root.parent, content_limit_bytes)
        return
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(os.scandir(folder), key=lambda one: one.name)
        except OSError as error:
            yield Problem(folder, "", f"cannot be read ({error.strerror})")
            continue
        visible = [one for one in found if not one.name.startswith(".")]
        waiting += [Path(one.path) for one in reversed(visible) if one.is_dir(follow_symlinks=False)]
        for one in found:
            is_note = one in visible and one.name.lower().endswith(SUFFIXES) and not one.is_dir()
            if one.is_symlink() and (is_note or one.is_dir()):
                yield Problem(Path(one.path), "", "is a symbolic link and was not followed")
            elif is_note:
                yield from _note(Path(one.path), root, content_limit_bytes)


def split(text: str) -> Note:
    """Take the front matter off a note. A text without any is all body."""
    block = _FRONT.match(text)
    fields: dict[str, list[str]] = {}  # one value for `name: value`, several for a name followed by `- value` lines
    current: list[str] = []
    for line in block["block"].splitlines() if block else ():
        if item := _ITEM.match(line):
            current.append(item["value"])
        elif field := _FIELD.match(line):
            current = fields.setdefault(field["name"].lower(), [])
            current += [field["value"]] if field["value"].strip() else []
    if block is None or not fields:  # else a text between two rules
        return Note(text)

    def first(*names: str) -> str | None:
        values = next((fields[name] for name in names if fields.get(name)), [""])
        return _unquoted(values[0]) or None

    # `tags: a, b`, `tags: [a, b]` and one tag per line mean the same.
    written = [one for value in fields.get("tags") or fields.get("tag") or [] for one in value.strip(" []").split(",")]
    tags = (_unquoted(one).lstrip("#").strip() for one in written)
    return Note(text[block.end() :], first("title"), tuple(filter(None, tags)), first("date", "created"))


def title_of(text: str) -> str | None:
    """The first heading of a Markdown text, code blocks aside."""
    fence = None
    for line in text.splitlines():
        mark = line.lstrip()[:3]
        if mark in _FENCES:
            fence = None if mark == fence else fence or mark
        elif fence is None and (heading := _HEADING.match(line)):
            return heading["title"]
    return None


def _note(path: Path, root: Path, content_limit_bytes: int) -> Iterator[Entry]:
    try:
        text, changed_at = _text(path, content_limit_bytes + FRONT_MATTER_LIMIT_BYTES)
    except InvalidInput as error:
        yield Problem(path, "", error.problem)
        return
    note = split(text)

    def imported() -> Imported:
        title = mended(note.title or title_of(note.body) or path.stem)
        printable = "".join(one if one.isprintable() else " " for one in title)
        return Imported(
            draft(
                note.body,
                content_limit_bytes=content_limit_bytes,
                key=import_key(FORMAT, str(path.absolute())),
                tags=note.tags,
                title=" ".join(printable.split())[:KEY_LIMIT].strip() or None,
                origin="import",
                metadata={"path": path.relative_to(root).as_posix()},
                created_at=point_in_time("date", note.date) or changed_at,
            )
        )

    if note.body.strip():
        yield attempt(path, "", imported)


def _text(path: Path, limit_bytes: int) -> tuple[str, datetime]:
    with opened(path, follow=False) as file:
        status = os.fstat(file.fileno())
        if status.st_size > limit_bytes:
            raise InvalidInput("file", f"has {status.st_size:,} bytes, at most {limit_bytes:,} are read")
        content = file.read()
    try:
        return content.decode("utf-8-sig"), datetime.fromtimestamp(status.st_mtime, UTC)
    except UnicodeDecodeError:
        raise InvalidInput("file", "is not UTF-8 text") from None


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()
