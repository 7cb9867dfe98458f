"""A folder of threads as seed 002 has them: `threads/*.json` and `focus.json`. Each file is taken whole or refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import ai_fields as fields
from kingly_memory.adapters.files.ai_fields import Times
from kingly_memory.adapters.files.legacy import are_pairs
from kingly_memory.adapters.files.reading import Problem, json_value, opened
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import Draft, Imported, draft, label, tag_list
from kingly_memory.models import JsonObject, Standing
from kingly_memory.thread_files import ImportedFocus, ImportedThread, message_id

FORMAT = "ai"
FOLDER, THREADS, FOCUS = ".ai", "threads", "focus.json"
ACTIVE_FOCUS = "active_focus"
SUFFIX = ".json"

FILE_LIMIT_BYTES = 16 * 1_048_576
MOST_MESSAGES = 10_000
SAID_LIMIT_BYTES = 262_144
"""What a thread's file may say beside its messages."""

PIN_TAG, PIN_SOURCE = "pinned", "agent_pin"
ACTIVE, ARCHIVED, MERGED = "active", "archived", "merged"
OWN_FIELDS = ("content", "source", "memory_id", "standing", "record")
"""Those of a message that have a place of their own in a memory; of the rest nothing is lost."""
RECORDED = ("type", "significance", "confidence", "tags", "title", "agent", "metadata")
STANDINGS = {one.value: one for one in (Standing.LIVE, Standing.ARCHIVED)}
ALONE = "is_alone"
"""Says in a thread's file that it is a memory which was said in no context."""
UNPINNED = "is_unpinned"
"""Says that a thread is pinned no more, whatever its messages say of their source."""
MESSAGE, TITLE = "thread_message", "thread_title"
"""In the metadata of a memory: what else its message said; and that it is no message, but the title of a thread
without any."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FIELDS = tuple(
    "id title status messages topics tags weight drift_history activation_count ratings relevance_score created_at "
    "last_active merged_into".split()
)
"""The seed's own."""
_FILE_OR_JSON = ("file", "json")
"""What names no field of the file."""

AiEntry = ImportedThread | ImportedFocus | Problem


def is_folder_of_threads(path: Path) -> bool:
    """True for the folder that holds `threads/` or `focus.json`, and for the folder of the thread files."""
    if (path / THREADS).is_dir() or (path / FOCUS).is_file():
        return True
    with os.scandir(path) as found:
        return any(one.name.startswith("thread_") and one.name.endswith(SUFFIX) for one in found)


def in_project(path: Path) -> Path | None:
    """The `.ai` of a project folder, unless that is a folder of threads itself; a symbolic link is not followed."""
    folder = path / FOLDER
    try:
        if is_folder_of_threads(path) or folder.is_symlink() or not folder.is_dir():
            return None
        return folder if is_folder_of_threads(folder) else None
    except OSError:  # closed to us: left out, as other hidden folders are
        return None


def looks_like(content: Any) -> bool:
    """True for the value of a thread's file or of a focus.json, whatever is wrong with it: who is wrong here takes its
    fields for keys, and writes over the memories that have them."""
    if not isinstance(content, Mapping):
        return False
    is_memory = isinstance(content.get("content"), str) and "id" not in content
    if is_memory or are_pairs(content):
        return False
    told = [name for name in _FIELDS if name in content]
    is_thread = isinstance(content.get("messages"), list) or ("messages" in told and len(told) > 1)
    return is_thread or ACTIVE_FOCUS in content


def has_place(path: Path) -> bool:
    """True for a file that lies where threads and the focus do, whatever it holds."""
    folder = Path(os.path.realpath(path.parent))
    if folder.name == FOLDER:
        return path.name == FOCUS
    return folder.name == THREADS and folder.parent.name == FOLDER and path.name.endswith(SUFFIX)


def read(path: Path, *, content_limit_bytes: int, now: datetime | None = None) -> Iterator[AiEntry]:
    """What is in focus and the threads, by file name; or what one file holds, a link to it followed. In a folder other
    files and hidden ones are left out, and symbolic links are not followed: each makes a Problem, as does each file
    that is refused. Times beyond `now` are not believed."""
    if not path.is_dir():
        yield _attempt(path, partial(_either, content_limit_bytes=content_limit_bytes, now=now))
        return
    folder = path / THREADS
    if os.path.lexists(path / FOCUS):
        yield _attempt(path / FOCUS, partial(_focus, now=now))
    elif not os.path.lexists(folder):
        folder = path
    if folder.is_symlink():
        yield Problem(folder, "", "is a symbolic link and was not followed")
    elif folder.is_dir():
        yield from _threads(folder, content_limit_bytes, now)


def _threads(folder: Path, content_limit_bytes: int, now: datetime | None) -> Iterator[AiEntry]:
    try:
        with os.scandir(folder) as found:
            names = sorted(one.name for one in found if _is_thread_file(one))
    except OSError as error:
        yield Problem(folder, "", f"cannot be read ({error.strerror})")
        return
    known: dict[str, str] = {}
    for name in names:
        path = folder / name
        one = _attempt(path, partial(_thread, content_limit_bytes=content_limit_bytes, now=now))
        if isinstance(one, ImportedThread) and known.setdefault(one.id, name) != name:
            one = Problem(path, "", f"id: is that of {known[one.id]} too")
        yield one


def _is_thread_file(one: os.DirEntry[str]) -> bool:
    return one.name.endswith(SUFFIX) and not one.name.startswith(".") and not one.is_dir(follow_symlinks=False)


def _focus(path: Path, *, now: datetime | None) -> ImportedFocus:
    return _in_focus(_document(path), path, now)


def _thread(path: Path, *, content_limit_bytes: int, now: datetime | None) -> ImportedThread:
    return thread(_document(path), path, content_limit_bytes, now)


def _either(path: Path, *, content_limit_bytes: int, now: datetime | None) -> ImportedThread | ImportedFocus:
    data = _document(path, follow=True)
    is_focus = isinstance(data, Mapping) and ACTIVE_FOCUS in data and "messages" not in data
    if is_focus or (path.name == FOCUS and has_place(path)):
        return _in_focus(data, path, now)
    return thread(data, path, content_limit_bytes, now)


def _in_focus(data: Any, path: Path, now: datetime | None) -> ImportedFocus:
    times = Times(now)
    return ImportedFocus(path, fields.focus(data, times), len(times.ahead))


def _attempt(path: Path, build: Callable[[Path], ImportedThread | ImportedFocus]) -> AiEntry:
    try:
        return build(path)
    except InvalidInput as error:
        return Problem(path, "", error.problem if error.field in _FILE_OR_JSON else str(error))


def _document(path: Path, *, follow: bool = False) -> Any:
    if not follow and path.is_symlink():
        raise InvalidInput("file", "is a symbolic link and was not followed")
    with opened(path, follow=follow) as file:
        content = file.read(FILE_LIMIT_BYTES + 1)
        if len(content) > FILE_LIMIT_BYTES:
            size = os.fstat(file.fileno()).st_size
            raise InvalidInput("file", f"has {size:,} bytes, at most {FILE_LIMIT_BYTES:,} are read")
    return json_value(content, strict=True)


def thread(data: Any, path: Path, content_limit_bytes: int, now: datetime | None = None) -> ImportedThread:
    """A thread from its file's JSON value; without an id it is called as its file, and what was said beyond `now` was
    said now. Raises InvalidInput."""
    found = fields.mapping("file", data)
    said = _said({name: one for name, one in found.items() if name != "messages"})
    thread_id = label("id", said.get("id")) or label("id", path.stem) or ""
    messages = fields.listed("messages", found.get("messages"), MOST_MESSAGES)
    is_alone = _is_alone(thread_id, said, messages)
    reading = _Reading(thread_id, said, content_limit_bytes, None if is_alone else thread_id, Times(now))
    reading.read(messages)
    if not reading.memories:
        reading.keep_title()
    return ImportedThread(
        path,
        thread_id,
        tuple(reading.memories),
        _facets(said, reading),
        frozenset(reading.pinned),
        said,
        tuple(reading.blank),
        reading.into,
        reading.last_active,
        is_alone,
        len(reading.times.ahead),
    )


def _is_alone(thread_id: str, said: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    if said.get(ALONE) is not True or len(messages) != 1 or not isinstance(messages[0], Mapping):
        return False
    return messages[0].get("memory_id") == thread_id and fields.text("merged_into", said.get("merged_into")) == ""


@dataclass(slots=True)
class _Reading:
    """The messages of one file as they are read."""

    thread_id: str
    said: JsonObject
    content_limit_bytes: int
    context_id: str | None
    times: Times
    memories: list[Imported] = field(default_factory=list)
    pinned: set[str] = field(default_factory=set)
    blank: list[tuple[int, JsonObject]] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    at: datetime | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        return tag_list("tags", self.said.get("tags") or ())

    @property
    def is_pinned(self) -> bool:
        return PIN_TAG in (tag.casefold() for tag in self.tags)

    @property
    def status(self) -> str:
        return fields.text("status", self.said.get("status")).casefold() or ACTIVE

    @property
    def into(self) -> str | None:
        """Only a thread that says it was merged has gone on as another one."""
        into = label("merged_into", self.said.get("merged_into"))
        if into == self.thread_id:
            raise InvalidInput("merged_into", "is the thread itself")
        return into if self.status == MERGED else None

    @property
    def standing(self) -> Standing:
        """What is neither active nor goes on as another thread is out of sight."""
        return Standing.LIVE if self.status == ACTIVE or self.into is not None else Standing.ARCHIVED

    @property
    def last_active(self) -> datetime | None:
        said = self.times.at("last_active", self.said.get("last_active"))
        return fields.latest([said, *(one.draft.created_at for one in self.memories)])

    def read(self, messages: Sequence[Any]) -> None:
        began = self.times.at("created_at", self.said.get("created_at"))
        self.at = began or self.times.at("last_active", self.said.get("last_active"))
        for place, message in enumerate(messages):
            where = f"messages[{place}]"
            self._take(where, place, fields.plain(fields.mapping(where, message), where))

    def keep_title(self) -> None:
        """A thread is what was said in it; of one without messages its title is."""
        title = fields.title(self.said.get("title"))
        if title is None:
            raise InvalidInput("messages", "holds no text, and the thread has no title either")
        self._add("title", message_id(self.thread_id, ""), {"content": title}, {"metadata": {TITLE: True}}, self.at)

    def _take(self, where: str, place: int, message: JsonObject) -> None:
        if not fields.text(f"{where}.content", message.get("content")).strip():
            self.blank.append((place, message))
            return
        name = "timestamp" if message.get("timestamp") not in (None, "") else "created_at"
        at = self.times.at(f"{where}.{name}", message.get(name)) or self.at
        record = message.get("record")
        record = dict(record) if isinstance(record, Mapping) else {}
        fields.text(f"{where}.source", message.get("source"))
        memory_id = self._id(where, place, message)
        self._add(where, memory_id, message, {name: record[name] for name in RECORDED if name in record}, at)
        self.at = at

    def _id(self, where: str, place: int, message: Mapping[str, Any]) -> str:
        own, given = message.get("id"), message.get("memory_id")
        if given is not None and (not isinstance(given, str) or not _ID.fullmatch(given)):
            raise InvalidInput(f"{where}.memory_id", "is not the id of a memory")
        if own is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
            raise InvalidInput(f"{where}.id", "is neither a text nor a whole number")
        is_named = own not in (None, "")
        memory_id = given or message_id(self.thread_id, str(own) if is_named else place)
        for name, one in (("id", f"id {own}" if is_named else None), ("memory_id", memory_id)):
            if one is not None and (before := self.known.setdefault(one, where)) != where:
                raise InvalidInput(f"{where}.{name}", f"is that of {before} too")
        return memory_id

    def _add(self, where: str, memory_id: str, message: JsonObject, record: JsonObject, at: datetime | None) -> None:
        is_pin = self.is_pinned or (message.get("source") == PIN_SOURCE and self.said.get(UNPINNED) is not True)
        try:
            made = self._draft(message, record, at, is_pin=is_pin)
        except InvalidInput as error:
            raise InvalidInput(f"{where}.{error.field}", error.problem) from None
        self.memories.append(Imported(made, memory_id, STANDINGS.get(str(message.get("standing")), self.standing)))
        if is_pin:
            self.pinned.add(memory_id)

    def _draft(self, message: JsonObject, record: JsonObject, at: datetime | None, *, is_pin: bool) -> Draft:
        source, metadata = message.get("source"), record.pop("metadata", None)
        others = _others(message, at)
        noted = {**({"source": source} if source else {}), **({MESSAGE: others} if others else {})}
        return draft(
            message.get("content"),
            content_limit_bytes=self.content_limit_bytes,
            created_at=at,
            origin="import",
            context_id=self.context_id,
            metadata={**fields.mapping("metadata", metadata or {}), **noted},
            **{"type": default_type(source), "tags": list(self.tags), **record},
        )


def default_type(source: object) -> str:
    """A conversation is episodic; what was pinned is a fact."""
    return "semantic" if source == PIN_SOURCE else "episodic"


def _others(message: JsonObject, at: datetime | None) -> JsonObject:
    """The fields of a message that its memory would lose."""
    others = {name: one for name, one in message.items() if name not in OWN_FIELDS}
    if at is not None and others.get("timestamp") == fields.seed_time(at):
        del others["timestamp"]
    kept = {
        "source": not message.get("source"),
        "standing": str(message.get("standing")) not in STANDINGS,
        "record": not isinstance(message.get("record"), Mapping),
    }
    return others | {name: message[name] for name, is_kept in kept.items() if is_kept and name in message}


def _said(found: JsonObject) -> JsonObject:
    said: JsonObject = fields.plain(found)
    size = len(json.dumps(said, ensure_ascii=False).encode())
    if size > SAID_LIMIT_BYTES:
        raise InvalidInput("file", f"has {size:,} bytes beside its messages, at most {SAID_LIMIT_BYTES:,} are kept")
    return said


def _facets(said: JsonObject, reading: _Reading) -> dict[str, JsonObject]:
    weight = fields.number("weight", said.get("weight"), 1.0, fields.WEIGHT_LIMIT)
    is_pinned = reading.is_pinned or bool(reading.pinned)
    rated = fields.ratings(said.get("ratings"), reading.times)
    told = {
        "title": fields.title(said.get("title")),
        "topics": fields.texts("topics", said.get("topics"), fields.MOST_TOPICS),
        "drift_history": fields.texts("drift_history", said.get("drift_history"), fields.MOST_DRIFTS),
        "recalls": fields.count("activation_count", said.get("activation_count")),
        "into": reading.into,
        "archived_at": _archived_at(reading),
    }
    thread = {name: one for name, one in told.items() if one}
    facets: dict[str, JsonObject] = {}
    if thread:
        facets["thread"] = thread if reading.context_id is None else {"context_id": reading.context_id, **thread}
    if weight != 1 or is_pinned:
        facets["attention"] = {"weight": weight, "pinned": True} if is_pinned else {"weight": weight}
    if rated:
        facets["ratings"] = {"ratings": rated}
    return facets


def _archived_at(reading: _Reading) -> float | None:
    at = reading.last_active
    return at.timestamp() if at is not None and reading.standing is Standing.ARCHIVED else None
