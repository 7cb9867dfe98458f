"""Markdown notes: each heading of the first two levels begins a note, and the text before the first one is a note too.

`#tags` and the front matter's become tags, `[[links]]` links between notes. Front matter may also say title and date;
all else that it says goes to the metadata.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from kingly_memory.adapters.files import fields
from kingly_memory.adapters.files.reading import Problem, attempt, canonical, point_in_time, text_of
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.imported import ImportedNote
from kingly_memory.text.writing import spelled
from kingly_memory.validation import TAGS_LIMIT, Draft, draft, shown

FORMAT = "notes"
SUFFIXES = (".md", ".markdown")
_FILE_LIMIT_BYTES = 64 * 1_048_576

_HEADING = re.compile(r"(?P<level>#{1,2})[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*$")
_FENCES = ("```", "~~~")
FRONT = re.compile(r"---[ \t]*\r?\n(?P<block>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(?P<name>[A-Za-z_][\w-]*)[ \t]*:[ \t]*(?P<value>.*)$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(?P<value>.+)$")
_ENDS = {"[": "]", "{": "}", '"': '"', "'": "'"}
_CODE = re.compile(r"`[^`\n]*`|\]\([^)\s]*\)|https?://\S+")
"""Where `#` begins no tag and `[[` no link."""
_TAG = re.compile(r"(?<![\w#&/])#(?P<tag>[^\W\d_][\w/-]*)")
_LINK = re.compile(r"\[\[(?P<target>[^\]|\n]+)(?:\|[^\]\n]*)?\]\]")
_TITLE, _TAGS, _DATE = ("title",), ("tags", "tag"), ("date", "created")


class Front(NamedTuple):
    """What the lines between `---` marks at the top of a file say, and the text that follows, unchanged. `unread` are
    those of the lines that are no YAML."""

    body: str
    fields: dict[str, list[str]]
    unread: tuple[str, ...] = ()

    def first(self, names: tuple[str, ...]) -> str | None:
        values = next((self.fields[name] for name in names if self.fields.get(name)), [""])
        return _unquoted(values[0]) or None

    @property
    def tags(self) -> list[str]:
        """`tags: a, b`, `tags: [a, b]` and one tag per line mean the same."""
        values = next((self.fields[name] for name in _TAGS if self.fields.get(name)), [])
        written = [tag for value in values for tag in value.strip(" []").split(",")]
        return [tag for text in written if (tag := _unquoted(text).lstrip("#").strip())]

    @property
    def others(self) -> dict[str, str | list[str]]:
        used = (*_TITLE, *_TAGS, *_DATE)
        remaining = {
            name: [*map(_unquoted, values)] for name, values in self.fields.items() if values and name not in used
        }
        return {name: values[0] if len(values) == 1 else values for name, values in remaining.items()}


class PassedOver(NamedTuple):
    """A file of a folder that makes no note, and why."""

    path: Path
    why: str


class Section(NamedTuple):
    """A part of a file: its text, which begins with its heading, the heading, "" for none, and what stands above."""

    heading: str
    text: str
    above: str | None = None


def read(root: Path) -> Iterator[ImportedNote | PassedOver | Problem]:
    """The notes of a folder and the folders in it, by path; or those of the one file that `root` is.

    Hidden files and folders (`.git`, `.obsidian`) are left out. Empty notes and files that are no notes are passed
    over. Symbolic links are not followed: each makes a Problem. A file that cannot be used makes one too, and the
    others are read.
    """
    folder = root if root.is_dir() else root.parent
    for entry in files(root):
        yield from _file(entry, folder) if isinstance(entry, Path) else [entry]


def files(root: Path) -> Iterator[Path | PassedOver | Problem]:
    if not root.is_dir():
        yield root
        return
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield Problem(folder, "", f"cannot be read ({error.strerror})")
            continue
        visible = [one for one in entries if not one.name.startswith(".")]
        waiting += [Path(entry.path) for entry in reversed(visible) if entry.is_dir(follow_symlinks=False)]
        for entry in entries:
            is_note = entry in visible and entry.name.lower().endswith(SUFFIXES) and not entry.is_dir()
            if entry.is_symlink() and (is_note or entry.is_dir()):
                yield Problem(Path(entry.path), "", "is a symbolic link and was not followed")
            elif is_note:
                yield Path(entry.path)
            elif entry in visible and entry.is_file():
                yield PassedOver(Path(entry.path), "not Markdown (.md)")


def stamps(root: Path) -> frozenset[tuple[str, int, int]]:
    """Every note's file with its time and size: another answer says that something has changed."""
    found = set[tuple[str, int, int]]()
    for file in files(root):
        if isinstance(file, Path):
            with suppress(OSError):
                status = file.lstat()
                found.add((str(file), status.st_mtime_ns, status.st_size))
    return frozenset(found)


def front(text: str) -> Front:
    """Take the front matter off a file. A text without any is all body."""
    block = FRONT.match(text)
    lists: dict[str, list[str]] = {}  # one value for `name: value`, several for a name followed by `- value` lines
    current, unread = list[str](), list[str]()
    for line in block["block"].splitlines() if block else ():
        if current and _is_open(current[-1]) and line[:1].isspace():
            current[-1] += f" {line.strip()}"
        elif item := _ITEM.match(line):
            current.append(item["value"])
        elif field := _FIELD.match(line):
            current = lists.setdefault(field["name"].lower(), [])
            current += [field["value"]] if field["value"].strip() else []
        elif line.strip() and not line.startswith((" ", "\t", "#")):
            unread.append(line)
    if block is None or not lists:  # else a text between two rules
        return Front(text, {})
    for name, values in lists.items():
        unread += [f"{name}: {value}" for value in values if _is_open(value)]
        values[:] = [value for value in values if not _is_open(value)]
    return Front(text[block.end() :], lists, tuple(unread))


def _is_open(value: str) -> bool:
    """Whether a list, an object or a quotation is begun that does not end."""
    value = value.strip()
    return bool(value) and value[0] in _ENDS and _ENDS[value[0]] not in value[1:]


def sections(body: str) -> list[Section]:
    """The parts of a file, code blocks left whole. A part that is a heading alone is none, where there are others."""
    parts: list[tuple[str, int, list[str]]] = [("", 0, [])]
    for line, is_code in _lines(body):
        if not is_code and (begun := _HEADING.match(line.rstrip("\r\n"))):
            parts.append((begun["title"], len(begun["level"]), []))
        parts[-1][2].append(line)
    found: list[Section] = []
    above: str | None = None
    for heading, level, lines in parts:
        above = heading if level == 1 else above
        if "".join(lines[1:] if level else lines).strip():
            found.append(Section(heading, "".join(lines), above if level == 2 else None))  # noqa: PLR2004
    return found or [Section(heading, "".join(lines)) for heading, _, lines in parts if heading]


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a text, and whether each belongs to a block of code."""
    fence = None
    for line in StringIO(text, newline="\n"):
        mark = line.lstrip()[:3]
        is_mark = mark in _FENCES and fence in (None, mark)
        yield line, is_mark or fence is not None
        if is_mark:
            fence = mark if fence is None else None


def _file(path: Path, root: Path) -> Iterator[ImportedNote | PassedOver | Problem]:
    """The notes of a file. What is wrong with one makes a Problem in its place."""
    try:
        text, status = text_of(path, _FILE_LIMIT_BYTES, follow=False)
        if "\0" in text:
            raise InvalidInput("file", "holds zero bytes, so it is no text")
        head = front(text)
        created_at = point_in_time("date", head.first(_DATE)) or datetime.fromtimestamp(status.st_mtime, UTC)
    except InvalidInput as error:
        yield Problem(path, "", error.problem if error.field == "file" else str(error))
        return
    headings = set[str]()
    for line in head.unread:
        yield Problem(path, "front matter", f"{shown(line)!r} is no YAML and was passed; the text is imported")
    parts = sections(head.body)
    if not parts:
        yield PassedOver(path, "empty")
    for number, section in enumerate(parts):
        name = spelled(fields.title(section.heading) or "")
        numbered = chain([name], (f"{name} ({times})" for times in count(2)))
        heading = next(heading for heading in numbered if heading not in headings)
        headings.add(heading)
        title = fields.title(head.first(_TITLE))
        if section.above or (title and number and name):
            title = f"{fields.title(section.above) or title} › {name}"
        metadata = {**head.others, "path": path.relative_to(root).as_posix()}
        made = partial(
            draft,
            section.text,
            title=fields.title(title or name or path.stem),
            origin="import",
            metadata=metadata,
            created_at=created_at,
        )
        yield attempt(path, heading, partial(_note, section._replace(heading=heading), head, title or name, made))


def _note(section: Section, head: Front, title: str, made_with: Callable[..., Draft]) -> ImportedNote:
    plain = "".join(_CODE.sub(" ", line) for line, is_code in _lines(section.text) if not is_code)
    tags = dict.fromkeys([*head.tags, *(match["tag"].rstrip("/-") for match in _TAG.finditer(plain))])
    made = made_with(tags=[*tags][:TAGS_LIMIT])
    # The time and the name of the file are left out: to touch or to move it says nothing new.
    identity = canonical([made.content, title, made.tags, head.others, head.first(_DATE)])
    body = section.text.partition("\n")[2] if section.heading else section.text
    links = dict.fromkeys(match["target"].strip() for match in _LINK.finditer(plain))
    text = _digest(body.strip() or section.text)
    return ImportedNote(str(made.metadata["path"]), section.heading, made, text, _digest(identity), tuple(links))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()
