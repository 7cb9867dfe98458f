"""A folder of threads as seed 002 has them: `threads/*.json` and `focus.json`. Each file is imported whole or refused.

Fields that are missing get defaults; what is wrong raises an InvalidInput that names its place in the file.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.reading import Problem, are_pairs, json_value, opened, point_in_time
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Standing
from kingly_memory.thread_files import ImportedFocus, ImportedThread, message_id
from kingly_memory.validation import KEY_LIMIT, METADATA_DEPTH, Draft, Imported, draft, label, mended, shown, tag_list

FORMAT = "ai"
THREADS, FOCUS, SUFFIX = "threads", "focus.json", ".json"
_FOLDER, _ACTIVE_FOCUS = ".ai", "active_focus"

_FILE_LIMIT_BYTES = 16 * 1_048_576
_MOST_MESSAGES = 10_000
_SAID_LIMIT_BYTES = 262_144
"""What a thread's file may say beside its messages."""
_WEIGHT_LIMIT = 10.0
"""A file is not to drown out everything else: pins weigh 1.5 at most, and all other threads no more than 1."""
_COUNT_LIMIT = 2**53
_MOST_TOPICS, _MOST_DRIFTS, _MOST_RATINGS, _MOST_FOCUSES = 100, 1_000, 1_000, 50
_RATINGS_KEPT = 100
"""The latest ones count; a thread's file may hold more."""

PIN_TAG, PIN_SOURCE = "pinned", "agent_pin"
ACTIVE, ARCHIVED, MERGED = "active", "archived", "merged"
ALONE = "is_alone"
"""Our own field: the thread is one memory that belongs to no context."""
UNPINNED = "is_unpinned"
"""Our own field: the thread is pinned no more, whatever its messages say of their source."""
MESSAGE, TITLE = "thread_message", "thread_title"
"""In the metadata of a memory: what else its message said; and that it is no message, but the title of a thread
without any."""

_STANDINGS = {one.value: one for one in (Standing.LIVE, Standing.ARCHIVED)}
_RECORDED = ("type", "significance", "confidence", "tags", "title", "agent", "metadata")
_OWN_FIELDS = ("content", "source", "memory_id", "standing", "record")
"""Fields of a message that have a place of their own in a memory; all others are kept in its metadata."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FIELDS = tuple(
    "id title status messages topics tags weight drift_history activation_count ratings relevance_score created_at "
    "last_active merged_into".split()
)
"""The seed's own."""

AiEntry = ImportedThread | ImportedFocus | Problem


# --- what is a folder of threads --------------------------------------------------------------------------------------


def is_folder_of_threads(path: Path) -> bool:
    """True for the folder that holds `threads/` or `focus.json`, and for the folder of the thread files."""
    if (path / THREADS).is_dir() or (path / FOCUS).is_file():
        return True
    with os.scandir(path) as found:
        return any(one.name.startswith("thread_") and one.name.endswith(SUFFIX) for one in found)


def in_project(path: Path) -> Path | None:
    """The `.ai` of a project folder, unless that is a folder of threads itself; a symbolic link is not followed."""
    folder = path / _FOLDER
    try:
        if is_folder_of_threads(path) or folder.is_symlink() or not folder.is_dir():
            return None
        return folder if is_folder_of_threads(folder) else None
    except OSError:  # closed to us: left out, as other hidden folders are
        return None


def looks_like(content: Any) -> bool:
    """True for the value of a thread's file or of a focus.json, whatever is wrong with it. A mistake would take its
    fields for keys, and write over the memories that have them."""
    if not isinstance(content, Mapping):
        return False
    is_memory = isinstance(content.get("content"), str) and "id" not in content
    if is_memory or are_pairs(content):
        return False
    said = [name for name in _FIELDS if name in content]
    is_thread = isinstance(content.get("messages"), list) or ("messages" in said and len(said) > 1)
    return is_thread or _ACTIVE_FOCUS in content


def has_place(path: Path) -> bool:
    """True for a file that lies where threads and the focus do, whatever it holds."""
    folder = Path(os.path.realpath(path.parent))
    if folder.name == _FOLDER:
        return path.name == FOCUS
    return folder.name == THREADS and folder.parent.name == _FOLDER and path.name.endswith(SUFFIX)


# --- reading files ----------------------------------------------------------------------------------------------------


def read(path: Path, *, content_limit_bytes: int, now: datetime | None = None) -> Iterator[AiEntry]:
    """What is in focus and the threads, by file name; or what one file holds, a link to it followed. In a folder other
    files and hidden ones are left out, and symbolic links are not followed: each makes a Problem, as does each file
    that is refused. Times beyond `now` are not believed."""
    as_thread = partial(thread, content_limit_bytes=content_limit_bytes, now=now)
    as_focus = partial(_focus_file, now=now)
    if not path.is_dir():

        def either(data: Any, path: Path) -> ImportedThread | ImportedFocus:
            is_focus = isinstance(data, Mapping) and _ACTIVE_FOCUS in data and "messages" not in data
            return (as_focus if is_focus or (path.name == FOCUS and has_place(path)) else as_thread)(data, path)

        yield _attempt(path, either, follow=True)
        return
    folder = path / THREADS
    if os.path.lexists(path / FOCUS):
        yield _attempt(path / FOCUS, as_focus)
    elif not os.path.lexists(folder):
        folder = path
    if folder.is_symlink():
        yield Problem(folder, "", "is a symbolic link and was not followed")
    elif folder.is_dir():
        yield from _threads(folder, as_thread)


def _threads(folder: Path, build: Callable[[Any, Path], ImportedThread]) -> Iterator[AiEntry]:
    try:
        with os.scandir(folder) as found:
            files = [one for one in found if one.name.endswith(SUFFIX) and not one.name.startswith(".")]
            names = sorted(one.name for one in files if not one.is_dir(follow_symlinks=False))
    except OSError as error:
        yield Problem(folder, "", f"cannot be read ({error.strerror})")
        return
    known: dict[str, str] = {}
    for name in names:
        one = _attempt(folder / name, build)
        if isinstance(one, ImportedThread) and known.setdefault(one.id, name) != name:
            one = Problem(folder / name, "", f"id: is that of {known[one.id]} too")
        yield one


def _attempt(
    path: Path, build: Callable[[Any, Path], ImportedThread | ImportedFocus], *, follow: bool = False
) -> AiEntry:
    try:
        if not follow and path.is_symlink():
            raise InvalidInput("file", "is a symbolic link and was not followed")
        with opened(path, follow=follow) as file:
            content = file.read(_FILE_LIMIT_BYTES + 1)
            if len(content) > _FILE_LIMIT_BYTES:
                size = os.fstat(file.fileno()).st_size
                raise InvalidInput("file", f"has {size:,} bytes, at most {_FILE_LIMIT_BYTES:,} are read")
        return build(json_value(content, strict=True), path)
    except InvalidInput as error:
        is_whole = error.field in ("file", "json")  # which name no field of the file
        return Problem(path, "", error.problem if is_whole else str(error))


# --- a focus ----------------------------------------------------------------------------------------------------------


def _focus_file(data: Any, path: Path, *, now: datetime | None) -> ImportedFocus:
    """A focus.json in its own form. Of a topic that is there twice, what was said last. Raises InvalidInput."""
    found, times = _mapping("focus", data), _Times(now)
    by_topic: dict[str, JsonObject] = {}
    for place, value in enumerate(_listed(_ACTIVE_FOCUS, found.get(_ACTIVE_FOCUS), _MOST_FOCUSES)):
        where = f"{_ACTIVE_FOCUS}[{place}]"
        one = _mapping(where, value)
        try:
            topic = label("topic", one.get("topic"))
        except InvalidInput as error:
            raise InvalidInput(f"{where}.topic", error.problem) from None
        if topic is None:
            raise InvalidInput(f"{where}.topic", "is missing")
        weight = _number(f"{where}.weight", one.get("weight"), 0.8, 1.0)
        set_at = times.written(f"{where}.set_at", one.get("set_at"))
        by_topic[topic.casefold()] = {**one, "topic": topic, "weight": weight, "set_at": set_at}
    updated = times.written("last_updated", found.get("last_updated"))
    return ImportedFocus(path, {_ACTIVE_FOCUS: [*by_topic.values()], "last_updated": updated}, len(times.ahead))


# --- a thread ---------------------------------------------------------------------------------------------------------


def thread(data: Any, path: Path, content_limit_bytes: int, now: datetime | None = None) -> ImportedThread:
    """A thread from its file's JSON value. Without an id it is called as its file; what was said beyond `now` was said
    now. Raises InvalidInput."""
    found, times = _mapping("file", data), _Times(now)
    said = _said(found)
    thread_id = label("id", said.get("id")) or label("id", path.stem) or ""
    messages = _listed("messages", found.get("messages"), _MOST_MESSAGES)
    tags = tag_list("tags", said.get("tags") or ())
    has_pin_tag = PIN_TAG in (tag.casefold() for tag in tags)
    status = _text("status", said.get("status")).casefold() or ACTIVE
    into = label("merged_into", said.get("merged_into"))
    if into == thread_id:
        raise InvalidInput("merged_into", "is the thread itself")
    first_id = messages[0].get("memory_id") if messages and isinstance(messages[0], Mapping) else None
    is_alone = said.get(ALONE) is True and len(messages) == 1 and first_id == thread_id and into is None
    into = into if status == MERGED else None
    # What is neither active nor merged into another thread is out of sight.
    usual = Standing.LIVE if status == ACTIVE or into is not None else Standing.ARCHIVED
    context_id, pinned = None if is_alone else thread_id, set[str]()
    memories: list[Imported] = []
    blank: list[tuple[int, JsonObject]] = []
    known: dict[str, str] = {}

    def add(where: str, memory_id: str, message: JsonObject, record: JsonObject, at: datetime | None) -> None:
        is_pin = has_pin_tag or (message.get("source") == PIN_SOURCE and said.get(UNPINNED) is not True)
        try:
            own = {"context_id": context_id, "content_limit_bytes": content_limit_bytes}
            made = _draft(message, {"tags": list(tags), **record}, at, **own)
        except InvalidInput as error:
            raise InvalidInput(f"{where}.{error.field}", error.problem) from None
        memories.append(Imported(made, memory_id, _STANDINGS.get(str(message.get("standing")), usual)))
        pinned.update([memory_id] if is_pin else ())

    last_active = times.at("last_active", said.get("last_active"))
    at = times.at("created_at", said.get("created_at")) or last_active
    for place, value in enumerate(messages):
        where = f"messages[{place}]"
        message = _plain(_mapping(where, value), where)
        if not _text(f"{where}.content", message.get("content")).strip():
            blank.append((place, message))
            continue
        name = "timestamp" if message.get("timestamp") not in (None, "") else "created_at"
        at = times.at(f"{where}.{name}", message.get(name)) or at
        _text(f"{where}.source", message.get("source"))
        given = message.get("record")
        record = {one: given[one] for one in _RECORDED if one in given} if isinstance(given, Mapping) else {}
        add(where, _memory_id(where, thread_id, place, message, known), message, record, at)
    if not memories:  # a thread is what was said in it; of one without messages its title is
        title = _title(said.get("title"))
        if title is None:
            raise InvalidInput("messages", "holds no text, and the thread has no title either")
        add("title", message_id(thread_id, ""), {"content": title}, {"metadata": {TITLE: True}}, at)
    moments = [one for one in (last_active, *(one.draft.created_at for one in memories)) if one is not None]
    last_active = max(moments, default=None)
    archived_at = last_active.timestamp() if last_active and usual is Standing.ARCHIVED else None
    facets = _facets(
        said,
        times,
        {"into": into, "archived_at": archived_at},
        context_id=context_id,
        is_pinned=has_pin_tag or bool(pinned),
    )
    return ImportedThread(
        path,
        thread_id,
        tuple(memories),
        facets,
        frozenset(pinned),
        said,
        tuple(blank),
        into,
        last_active,
        is_alone,
        len(times.ahead),
    )


def _said(found: Mapping[str, Any]) -> JsonObject:
    """What a file says beside its messages."""
    said: JsonObject = _plain({name: one for name, one in found.items() if name != "messages"})
    size = len(json.dumps(said, ensure_ascii=False).encode())
    if size > _SAID_LIMIT_BYTES:
        raise InvalidInput("file", f"has {size:,} bytes beside its messages, at most {_SAID_LIMIT_BYTES:,} are kept")
    return said


def _facets(
    said: JsonObject, times: _Times, fate: JsonObject, *, context_id: str | None, is_pinned: bool
) -> dict[str, JsonObject]:
    """What a file says of its thread and of its `fate`, as it lies beside the thread here."""
    weight = _number("weight", said.get("weight"), 1.0, _WEIGHT_LIMIT)
    ratings = _ratings(said.get("ratings"), times)
    thread = {
        "title": _title(said.get("title")),
        "topics": _texts("topics", said.get("topics"), _MOST_TOPICS),
        "drift_history": _texts("drift_history", said.get("drift_history"), _MOST_DRIFTS),
        "recalls": _count("activation_count", said.get("activation_count")),
        **fate,
    }
    told = {name: one for name, one in thread.items() if one}
    context = {} if context_id is None else {"context_id": context_id}
    attention = {"weight": weight, **({"pinned": True} if is_pinned else {})}
    return {
        **({"thread": {**context, **told}} if told else {}),
        **({"attention": attention} if weight != 1 or is_pinned else {}),
        **({"ratings": {"ratings": ratings}} if ratings else {}),
    }


def default_type(source: object) -> str:
    """A conversation is episodic; what was pinned is a fact."""
    return "semantic" if source == PIN_SOURCE else "episodic"


def seed_time(at: datetime) -> str:
    """A time as the seed's files write it: ISO 8601 without a zone. Ours are UTC."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat()


def _memory_id(where: str, thread_id: str, place: int, message: JsonObject, known: dict[str, str]) -> str:
    own, given = message.get("id"), message.get("memory_id")
    if given is not None and (not isinstance(given, str) or not _ID.fullmatch(given)):
        raise InvalidInput(f"{where}.memory_id", "is not the id of a memory")
    if own is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
        raise InvalidInput(f"{where}.id", "is neither a text nor a whole number")
    is_named = own not in (None, "")
    memory_id = given or message_id(thread_id, str(own) if is_named else place)
    for name, one in (("id", f"id {own}" if is_named else None), ("memory_id", memory_id)):
        if one is not None and (before := known.setdefault(one, where)) != where:
            raise InvalidInput(f"{where}.{name}", f"is that of {before} too")
    return memory_id


def _draft(message: JsonObject, record: JsonObject, at: datetime | None, **own: Any) -> Draft:
    source, metadata = message.get("source"), record.pop("metadata", None)
    others = {name: one for name, one in message.items() if name not in _OWN_FIELDS}
    if at is not None and others.get("timestamp") == seed_time(at):
        del others["timestamp"]
    is_lost = {  # what the memory would not say
        "source": not source,
        "standing": str(message.get("standing")) not in _STANDINGS,
        "record": not isinstance(message.get("record"), Mapping),
    }
    others |= {name: message[name] for name, lost in is_lost.items() if lost and name in message}
    noted = {**({"source": source} if source else {}), **({MESSAGE: others} if others else {})}
    return draft(
        message.get("content"),
        created_at=at,
        origin="import",
        metadata={**_mapping("metadata", metadata or {}), **noted},
        **own,
        **{"type": default_type(source), **record},
    )


def _ratings(value: Any, times: _Times) -> list[JsonObject]:
    """The latest ratings as {useful, timestamp, reason}; a plain true or false was given without the other two."""
    found: list[JsonObject] = []
    for place, one in enumerate(_listed("ratings", value, _MOST_RATINGS)):
        where = f"ratings[{place}]"
        data = {"useful": one} if isinstance(one, bool) else _mapping(where, one)
        if not isinstance(data.get("useful"), bool):
            raise InvalidInput(f"{where}.useful", "is neither true nor false")
        timestamp = times.written(f"{where}.timestamp", data.get("timestamp"))
        reason = _text(f"{where}.reason", data.get("reason")) or None
        found.append({"useful": data["useful"], "timestamp": timestamp, "reason": reason})
    return found[-_RATINGS_KEPT:]


# --- fields -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Times:
    """The times of one file, of which none can be later than `now`; without a `now` all are believed. `ahead` names the
    fields that lie in the future."""

    now: datetime | None
    ahead: set[str] = field(default_factory=set)

    def at(self, where: str, value: Any) -> datetime | None:
        """A time; one in the future is taken as now."""
        at = point_in_time(where, value)
        if at is None or self.now is None or at <= self.now:
            return at
        self.ahead.add(where)
        return self.now

    def written(self, where: str, value: Any) -> str | None:
        """The same, as it was written if it was in ISO 8601; else in that form."""
        at = self.at(where, value)
        is_iso = isinstance(value, str) and not value.isdecimal() and where not in self.ahead
        return None if at is None else value if is_iso else seed_time(at)


def _plain(value: Any, where: str = "", depth: int = METADATA_DEPTH) -> Any:
    """A copy without what the store cannot hold: lone surrogates are mended, the rest is refused."""
    if isinstance(value, str):
        return mended(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidInput(where, "is a whole number beyond 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(where, "is a number that is too large")
        return value
    if depth == 0:
        raise InvalidInput(where, f"is nested deeper than {METADATA_DEPTH} levels")
    if isinstance(value, list):
        return [_plain(one, f"{where}[{place}]", depth - 1) for place, one in enumerate(value)]
    above = f"{where}." if where else ""
    return {mended(name): _plain(one, f"{above}{shown(name)}", depth - 1) for name, one in value.items()}


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(where, "is not an object")
    return value


def _listed(where: str, value: Any, most: int) -> Sequence[Any]:
    """A list; a missing one is empty."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidInput(where, "is not a list")
    if len(value) > most:
        raise InvalidInput(where, f"has {len(value):,} entries, at most {most:,} are read")
    return value


def _text(where: str, value: Any) -> str:
    """A text; a missing one is empty."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(where, "is not a text")
    return value or ""


def _texts(where: str, value: Any, most: int) -> list[str]:
    """Short texts, without empty ones."""
    found = [_text(f"{where}[{place}]", one) for place, one in enumerate(_listed(where, value, most))]
    for place, one in enumerate(found):
        if len(one) > KEY_LIMIT:
            raise InvalidInput(f"{where}[{place}]", f"has {len(one):,} characters, at most {KEY_LIMIT} are allowed")
    return [one for one in found if one.strip()]


def _number(where: str, value: Any, default: float, most: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(where, "is not a number")
    if not 0 <= value <= most:
        raise InvalidInput(where, f"{shown(value)} is outside 0 to {most:g}")
    return value


def _count(where: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _COUNT_LIMIT):
        raise InvalidInput(where, f"{shown(value)!r} is not a whole number from 0 on")
    return value or 0


def _title(value: Any) -> str | None:
    """On one line, and no longer than a title of ours."""
    printable = "".join(one if one.isprintable() else " " for one in _text("title", value))
    return " ".join(printable.split())[:KEY_LIMIT].strip() or None
