"""A folder of threads as seed 002 has them: `threads/*.json` and `focus.json`. Each file is imported whole or refused.

A thread becomes memories of one context and what was said of that context. Fields that are missing get defaults, and
what threads do not have is left out. What is wrong raises an InvalidInput that names its place in the file. An export
is a view of the store in the fields of the seed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import fields
from kingly_memory.adapters.files.atomic import made_folder, replacing
from kingly_memory.adapters.files.reading import OWN_ID, Entry, Problem, json_value, point_in_time, whole
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import derived_id, named_id
from kingly_memory.imported import ExportedThread, ImportedContext, ImportedFocus
from kingly_memory.models import WEIGHT_LIMIT, JsonObject, Memory, MemoryStatus
from kingly_memory.validation import USUAL, Imported, draft, label, tag_list

FORMAT = "ai"
THREADS, FOCUS, SUFFIX = "threads", "focus.json", ".json"
_ACTIVE_FOCUS = "active_focus"

_FILE_LIMIT_BYTES = 16 * 1_048_576
_MOST_MESSAGES = 10_000
_MOST_TOPICS, _MOST_FOCUSES = 100, 50

PIN_TAG, PIN_SOURCE = "pinned", "agent_pin"
ACTIVE, ARCHIVED, MERGED = "active", "archived", "merged"

_OWN_FIELDS = ("content", "timestamp", "created_at")
"""Fields of a message that have a place of their own in a memory; all others are kept in its metadata."""
_PLAIN_NAME = re.compile(r"(?!(?:con|prn|aux|nul|(?:com|lpt)[0-9])$)[a-z0-9][a-z0-9_-]{0,99}")
"""A name that is no device on any system."""

_Entries = list[Imported | ImportedContext | ImportedFocus]


# --- what is a folder of threads --------------------------------------------------------------------------------------


def is_folder_of_threads(path: Path) -> bool:
    """True for the folder that holds `threads/` or `focus.json`, and for the folder of the thread files."""
    if (path / THREADS).is_dir() or (path / FOCUS).is_file():
        return True
    with os.scandir(path) as entries:
        return any(one.name.startswith("thread_") and one.name.endswith(SUFFIX) for one in entries)


# --- reading files ----------------------------------------------------------------------------------------------------


def read(path: Path) -> Iterator[Entry]:
    """What is in focus and the threads, by file name. Other files and hidden ones are left out, and symbolic links are
    not followed: each makes a Problem, as does each file that is refused. Times in the future count as now."""
    now = datetime.now(UTC)
    as_thread = partial(thread, now=now)
    as_focus = partial(focus_file, now=now)
    folder = path / THREADS
    if os.path.lexists(path / FOCUS):
        yield from _attempt(path / FOCUS, as_focus)
    elif not os.path.lexists(folder):
        folder = path
    if folder.is_symlink():
        yield Problem(folder, "", "is a symbolic link and was not followed")
    elif folder.is_dir():
        yield from _threads(folder, as_thread)


def _threads(folder: Path, build: Callable[[Any, Path], _Entries]) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")]
            names = sorted(one.name for one in files if not one.is_dir(follow_symlinks=False))
    except OSError as error:
        yield Problem(folder, "", f"cannot be read ({error.strerror})")
        return
    file_of: dict[str, str] = {}
    for name in names:
        found_in = _attempt(folder / name, build)
        first = found_in[0]
        if isinstance(first, ImportedContext) and file_of.setdefault(first.context_id, name) != name:
            yield Problem(folder / name, "", f"id: is that of {file_of[first.context_id]} too")
        else:
            yield from found_in


def _attempt(path: Path, build: Callable[[Any, Path], _Entries]) -> Sequence[Entry]:
    """What a file holds, or what is wrong with it."""
    try:
        if path.is_symlink():
            raise InvalidInput("file", "is a symbolic link and was not followed")
        content, _ = whole(path, _FILE_LIMIT_BYTES, follow=False)
        return build(json_value(content, strict=True), path)
    except InvalidInput as error:
        is_whole = error.field in ("file", "json")  # which name no field of the file
        return [Problem(path, "", error.problem if is_whole else str(error))]


def focus_file(data: Any, _: Path, *, now: datetime) -> _Entries:
    """A focus.json in its own form. Of a topic that is there twice, what was said last. Raises InvalidInput."""
    focus = fields.mapping("focus", data)
    by_topic: dict[str, JsonObject] = {}
    for index, value in enumerate(fields.listed(_ACTIVE_FOCUS, focus.get(_ACTIVE_FOCUS), _MOST_FOCUSES)):
        where = f"{_ACTIVE_FOCUS}[{index}]"
        item = fields.mapping(where, value)
        try:
            topic = label("topic", item.get("topic"))
        except InvalidInput as error:
            raise InvalidInput(f"{where}.topic", error.problem) from None
        if topic is None:
            raise InvalidInput(f"{where}.topic", "is missing")
        weight = fields.number(f"{where}.weight", item.get("weight"), 0.8, 1.0)
        set_at = _iso(fields.time_of(f"{where}.set_at", item.get("set_at"), now))
        by_topic[topic.casefold()] = {"topic": topic, "weight": weight, "set_at": set_at}
    updated = _iso(fields.time_of("last_updated", focus.get("last_updated"), now))
    return [ImportedFocus({_ACTIVE_FOCUS: [*by_topic.values()], "last_updated": updated})]


# --- a thread ---------------------------------------------------------------------------------------------------------


def thread(data: Any, path: Path, now: datetime) -> _Entries:
    """What a file's JSON value says of a thread, and its messages. Without an id it is called as its file; what was
    said beyond `now` was said now. The messages of one that was merged belong to the other thread. Raises
    InvalidInput."""
    record = fields.mapping("file", data)
    thread_id = label("id", record.get("id")) or label("id", path.stem) or ""
    messages = fields.listed("messages", record.get("messages"), _MOST_MESSAGES)
    tags = tag_list("tags", record.get("tags") or ())
    into = label("merged_into", record.get("merged_into"))
    if into == thread_id:
        raise InvalidInput("merged_into", "is the thread itself")
    status = fields.text("status", record.get("status")).casefold() or ACTIVE
    into = into if status == MERGED else None
    # What is neither active nor merged into another thread is out of sight.
    usual = MemoryStatus.LIVE if status == ACTIVE or into is not None else MemoryStatus.ARCHIVED
    at = last_active = fields.time_of("last_active", record.get("last_active"), now)
    at = fields.time_of("created_at", record.get("created_at"), now) or at
    memories: list[Imported] = []
    sources = [one.get("source") for one in messages if isinstance(one, Mapping)]
    is_pinned = PIN_TAG in (tag.casefold() for tag in tags) or ("tags" not in record and PIN_SOURCE in sources)
    weight = fields.number("weight", record.get("weight"), 1.0, WEIGHT_LIMIT)
    attention = {"weight": weight, "pinned": True} if is_pinned else {"weight": weight} if weight != 1 else {}
    field_of: dict[str, str] = {}
    for index, value in enumerate(messages):
        where = f"messages[{index}]"
        message = fields.mapping(where, value)
        content = fields.text(f"{where}.content", message.get("content"))
        source = fields.text(f"{where}.source", message.get("source"))
        name = "timestamp" if message.get("timestamp") not in (None, "") else "created_at"
        at = fields.time_of(f"{where}.{name}", message.get(name), now) or at
        memory_id = _memory_id(where, thread_id, index, message, field_of)
        if not content.strip():
            continue
        try:
            made = draft(
                content,
                type="semantic" if source == PIN_SOURCE else "episodic",  # what was pinned is a fact
                tags=tags,
                context_id=into or thread_id,
                created_at=at,
                ttl=None if is_pinned else USUAL,
                origin="import",
                metadata={field: item for field, item in message.items() if field not in _OWN_FIELDS},
            )
        except InvalidInput as error:
            raise InvalidInput(f"{where}.{error.field}", error.problem) from None
        beside = {"attention": attention} if is_pinned else {}
        memories.append(Imported(made, memory_id, usual, at, beside=beside, is_message=True))
    if not memories:
        raise InvalidInput("messages", "holds no text")
    last_active = max(
        [time for time in (last_active, *(memory.draft.created_at for memory in memories)) if time], default=now
    )
    rated = fields.ratings("ratings", record.get("ratings"), now)
    ratings = [{**rating, "timestamp": _iso(rating["timestamp"])} for rating in rated]
    thread_fields = {
        "title": fields.title(record.get("title")),
        "topics": fields.texts("topics", record.get("topics"), _MOST_TOPICS),
        "recalls": fields.whole("activation_count", record.get("activation_count")),
        "archived_at": last_active.timestamp() if usual is MemoryStatus.ARCHIVED else None,
    }
    facets: dict[str, JsonObject] = {
        "thread": {name: item for name, item in thread_fields.items() if item},
        "attention": attention,
        "ratings": {"ratings": ratings} if ratings else {},
    }
    about = {} if into is not None else {name: facet for name, facet in facets.items() if facet}
    return [ImportedContext(thread_id, about, if_new=True), *memories]


def _memory_id(where: str, thread_id: str, index: int, message: Mapping[str, Any], field_of: dict[str, str]) -> str:
    own = message.get("id")
    if own is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
        raise InvalidInput(f"{where}.id", "is neither a text nor a whole number")
    name = index if own in (None, "") else str(own)
    memory_id = name if isinstance(name, str) and OWN_ID.fullmatch(name) else named_id(thread_id, name)
    if (before := field_of.setdefault(memory_id, where)) != where:
        raise InvalidInput(f"{where}.id", f"is that of {before} too")
    return memory_id


# --- writing files ----------------------------------------------------------------------------------------------------


def write(folder: Path, threads: Iterable[ExportedThread], focus: JsonObject | None) -> dict[str, int]:
    """Write a file for each thread, and what is in focus if anything ever was; answers how many there are of each.
    Files of threads that are gone are left alone. Raises InvalidInput."""
    written = 0
    for thread in threads:
        _write(made_folder(folder / THREADS) / file_name(thread.id), document(thread))
        written += 1
    active = [] if focus is None else focus.get(_ACTIVE_FOCUS, [])
    if focus is not None:
        active = [{**focus, "set_at": _as_seed(focus.get("set_at"))} for focus in active]
        updated = _as_seed(focus.get("last_updated"))
        _write(made_folder(folder) / FOCUS, {_ACTIVE_FOCUS: active, "last_updated": updated})
    return {THREADS: written, FOCUS: len(active)}


def file_name(thread_id: str) -> str:
    """Ids of contexts may be anything; names of files stay in their folder, on every system."""
    if _PLAIN_NAME.fullmatch(thread_id):
        return thread_id + SUFFIX
    words = re.sub(r"[^a-z0-9]+", "-", thread_id[:60].lower()).strip("-") or "thread"
    return f"{words}-{sha256(thread_id.encode()).hexdigest()[:12]}{SUFFIX}"


def document(thread: ExportedThread) -> JsonObject:
    """A thread as its file."""
    about, weight = thread.facets.get("thread", {}), thread.facets.get("attention", {})
    ratings = thread.facets.get("ratings", {}).get("ratings") or []
    into = about.get("into")
    created = [memory.created_at for memory, _ in thread.memories]
    tags = dict.fromkeys(tag for memory, _ in thread.memories for tag in memory.tags if tag != PIN_TAG)
    return {
        "id": thread.id,
        "title": about.get("title") or thread.title,
        "status": MERGED if into is not None else ACTIVE if thread.is_active else ARCHIVED,
        **({} if into is None else {"merged_into": into}),
        "topics": about.get("topics") or list(thread.topics),
        "tags": [*tags, PIN_TAG] if weight.get("pinned") is True else [*tags],
        "weight": weight.get("weight", 1.0),
        "drift_history": list(thread.drift_history),
        "activation_count": about.get("recalls", 0),
        "ratings": [{**one, "timestamp": _as_seed(one.get("timestamp"))} for one in ratings],
        "relevance_score": round(thread.relevance, 4),
        "created_at": _iso(min(created, default=None)),
        "last_active": _iso(max((memory.updated_at for memory, _ in thread.memories), default=None)),
        "messages": [_message(thread.id, memory) for memory, _ in thread.memories],
    }


def _message(thread_id: str, memory: Memory) -> JsonObject:
    """Under the id that makes it the same memory where it is imported again."""
    message = {"source": memory.origin.value, **memory.metadata}
    message |= {"content": memory.content, "timestamp": _iso(memory.created_at)}
    expected = named_id(thread_id, str(message.get("id")))
    is_named = memory.id in (expected, derived_id(expected, memory.scope.space))
    return message if is_named else {**message, "id": memory.id}


def _as_seed(moment: object) -> str | None:
    """A time of ours as the seed writes it."""
    return _iso(point_in_time("time", moment)) if isinstance(moment, str) else None


def _iso(at: datetime | None) -> str | None:
    """A time as the seed's files write it: ISO 8601 without a zone. Ours are UTC."""
    return None if at is None else at.astimezone(UTC).replace(tzinfo=None).isoformat()


def _write(path: Path, content: JsonObject) -> None:
    with replacing(path) as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")
