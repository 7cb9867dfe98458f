"""The few lines between `---` marks at the top of a Markdown note. Only what a memory can use is read."""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(r"---[ \t]*\r?\n(?P<block>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(?P<name>[A-Za-z_]+)[ \t]*:[ \t]*(?P<value>.*)$")
_LISTED = re.compile(r"[ \t]*-[ \t]+(?P<value>.+)$")


class FrontMatter(NamedTuple):
    """What a note says of itself. `date` is the text as written."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    date: str | None = None


class Note(NamedTuple):
    """A note in its two parts. The body is what follows the front matter, unchanged."""

    front: FrontMatter
    body: str


def split(text: str) -> Note:
    """Take the front matter off a note. A text without any is all body."""
    block = _BLOCK.match(text)
    if block is None:
        return Note(FrontMatter(), text)
    fields = _fields(block["block"])
    if not fields:  # a text between two rules
        return Note(FrontMatter(), text)
    front = FrontMatter(
        title=_scalar(fields.get("title")),
        tags=tuple(filter(None, (_tag(one) for one in _tags(fields)))),
        date=_scalar(fields.get("date") or fields.get("created")),
    )
    return Note(front, text[block.end() :])


def _fields(block: str) -> dict[str, list[str]]:
    """Values by lower-case name: one for `name: value`, several for a name followed by `- value` lines."""
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block.splitlines():
        if listed := _LISTED.match(line):
            current.append(listed["value"])
        elif field := _FIELD.match(line):
            current = fields.setdefault(field["name"].lower(), [])
            if field["value"].strip():
                current.append(field["value"])
    return fields


def _tags(fields: dict[str, list[str]]) -> list[str]:
    """`tags: a, b`, `tags: [a, b]` and one tag per line mean the same."""
    written = fields.get("tags") or fields.get("tag") or []
    return [one for value in written for one in value.strip().strip("[]").split(",")]


def _tag(text: str) -> str:
    return _unquoted(text).lstrip("#").strip()


def _scalar(values: list[str] | None) -> str | None:
    return _unquoted(values[0]) or None if values else None


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()
