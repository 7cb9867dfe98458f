"""A folder of Markdown notes: every note becomes a semantic memory that an edited note later revises."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory.adapters.files.front_matter import split
from kingly_memory.adapters.files.reading import Entry, Problem, attempt, import_key, opened, point_in_time
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import KEY_LIMIT, Imported, draft, mended

FORMAT = "notes"
SUFFIXES = (".md", ".markdown")

FRONT_MATTER_LIMIT_BYTES = 65_536
"""What a note's file may have on top of the content limit."""

_HEADING = re.compile(r"#{1,6}[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*$")
_FENCES = ("```", "~~~")


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
        waiting.extend(Path(one.path) for one in reversed(found) if _is_folder(one))
        for one in found:
            if one.is_symlink() and (_is_note(one) or one.is_dir()):
                yield Problem(Path(one.path), "", "is a symbolic link and was not followed")
            elif _is_note(one):
                yield from _note(Path(one.path), root, content_limit_bytes)


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


def _is_folder(one: os.DirEntry[str]) -> bool:
    return one.is_dir(follow_symlinks=False) and not one.name.startswith(".")


def _is_note(one: os.DirEntry[str]) -> bool:
    return one.name.lower().endswith(SUFFIXES) and not one.name.startswith(".") and not one.is_dir()


def _note(path: Path, root: Path, content_limit_bytes: int) -> Iterator[Entry]:
    try:
        text, changed_at = _text(path, content_limit_bytes + FRONT_MATTER_LIMIT_BYTES)
    except InvalidInput as error:
        yield Problem(path, "", error.problem)
        return
    if split(text).body.strip():
        yield attempt(path, "", lambda: _imported(path, root, text, changed_at, content_limit_bytes))


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


def _imported(path: Path, root: Path, text: str, changed_at: datetime, content_limit_bytes: int) -> Imported:
    front, body = split(text)
    return Imported(
        draft(
            body,
            content_limit_bytes=content_limit_bytes,
            key=import_key(FORMAT, str(path.absolute())),
            tags=front.tags,
            title=_single_line(front.title or title_of(body) or path.stem),
            origin="import",
            metadata={"path": path.relative_to(root).as_posix()},
            created_at=point_in_time("date", front.date) or changed_at,
        )
    )


def _single_line(title: str) -> str | None:
    printable = "".join(one if one.isprintable() else " " for one in mended(title))
    return " ".join(printable.split())[:KEY_LIMIT].strip() or None
