"""The folder of seed 002 as a view of the store: a file for each thread, and `focus.json`. `ai_threads` reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.ai_fields import latest, seed_time
from kingly_memory.adapters.files.ai_threads import (
    ACTIVE,
    ALONE,
    ARCHIVED,
    FOCUS,
    MERGED,
    MESSAGE,
    PIN_SOURCE,
    PIN_TAG,
    SUFFIX,
    THREADS,
    TITLE,
    UNPINNED,
    default_type,
)
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import derived_id
from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, moment
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.thread_files import FILE, ExportedThread, message_id

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_RESERVED = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]")
"""What one system takes for a device."""
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")

OURS = (ALONE, UNPINNED)
"""What we add to the seed's fields."""

_FACET_FIELDS = {
    "title": ("thread", "title"),
    "topics": ("thread", "topics"),
    "drift_history": ("thread", "drift_history"),
    "activation_count": ("thread", "recalls"),
    "weight": ("attention", "weight"),
}
"""Where the fields of a file live in the store."""


def write(folder: Path, threads: Iterable[ExportedThread], focus: JsonObject | None) -> dict[str, int]:
    """Write a file for each thread, and what is in focus if anything ever was; says how many there are of each. Files
    of threads that are not there any more are left alone. Raises InvalidInput."""
    written = 0
    for written, thread in enumerate(threads, start=1):
        if written == 1:
            _made(folder / THREADS)
        _write(folder / THREADS / file_name(thread.id), document(thread))
    if focus is not None:
        _made(folder)
        _write(folder / FOCUS, focus_document(focus))
    return {THREADS: written, FOCUS: 0 if focus is None else len(focus.get("active_focus", ()))}


def file_name(thread_id: str) -> str:
    """Names of contexts may be anything; names of files stay in their folder, on every system."""
    if _PLAIN_NAME.fullmatch(thread_id) and not _RESERVED.fullmatch(thread_id):
        return thread_id + SUFFIX
    words = _NOT_IN_A_NAME.sub("-", thread_id[:60].lower()).strip("-") or "thread"
    return f"{words}-{sha256(thread_id.encode()).hexdigest()[:12]}{SUFFIX}"


def focus_document(focus: Mapping[str, Any]) -> JsonObject:
    """As the seed's focus.json."""
    active = [{**one, "set_at": _as_seed(one.get("set_at"))} for one in focus.get("active_focus", ())]
    return {**focus, "active_focus": active, "last_updated": _as_seed(focus.get("last_updated"))}


def document(thread: ExportedThread) -> JsonObject:
    """A thread as its file. What nobody has changed since it was imported is given back as it was."""
    file = thread.facets.get(FILE, {})
    said: JsonObject = file.get("said", {})
    messages = _messages(thread, file.get("blank", ()), said)
    made = {
        "id": thread.id,
        **_from_facets(thread, said, file.get("facets", {})),
        "status": _status(thread, said),
        "tags": _tags(thread, said, file.get("facets", {})),
        "relevance_score": round(thread.relevance, 4),
        **_times(thread, said, file.get("last_s")),
    }
    into, into_before = (one.get("thread", {}).get("into") for one in (thread.facets, file.get("facets", {})))
    kept = {
        name: one for name, one in said.items() if (name != "merged_into" or into_before is None) and name not in OURS
    }
    merged = {} if into is None else {"merged_into": into}
    alone = {ALONE: True} if thread.is_alone else {}
    unpinned = {UNPINNED: True} if _is_unpinned(thread, messages) else {}
    return {**kept, **made, **merged, **alone, **unpinned, "messages": messages}


def _is_unpinned(thread: ExportedThread, messages: Iterable[JsonObject]) -> bool:
    """A message that was pinned says so for ever; its thread may have been let go since."""
    is_pinned = _facet(thread, "attention").get("pinned") is True
    return not is_pinned and any(message.get("source") == PIN_SOURCE for message in messages)


def _messages(thread: ExportedThread, blank: Iterable[Any], said: JsonObject) -> list[JsonObject]:
    waiting: dict[int, JsonObject] = dict(blank)
    messages: list[JsonObject] = []
    is_in_view = _facet(thread, "thread").get("into") is not None or _status(thread, said).casefold() == ACTIVE
    default = Standing.LIVE if is_in_view else Standing.ARCHIVED
    for memory, standing in thread.memories:
        if memory.metadata.get(TITLE) is True and memory.metadata.get("source") is None:
            continue
        while len(messages) in waiting:
            messages.append(waiting.pop(len(messages)))
        messages.append(_message(thread, memory, len(messages), said))
        if standing is not default:
            messages[-1]["standing"] = standing.value
    return messages + [waiting[place] for place in sorted(waiting)]


def _message(thread: ExportedThread, memory: Memory, place: int, said: JsonObject) -> JsonObject:
    source, others = memory.metadata.get("source"), memory.metadata.get(MESSAGE)
    message = {
        "content": memory.content,
        "source": source if isinstance(source, str) and source else memory.origin.value,
        "timestamp": seed_time(memory.created_at),
        **(others if isinstance(others, Mapping) else {}),
    }
    own = message.get("id")
    expected = message_id(thread.id, place if own in (None, "") else str(own))
    if memory.id not in (expected, derived_id(expected, memory.scope.project)):
        message["memory_id"] = memory.id
    record = _record(memory, message["source"], said)
    return {**message, "record": record} if record else message


def _record(memory: Memory, source: object, said: JsonObject) -> JsonObject:
    """What a memory says of itself that its message does not; of most imported ones nothing."""
    usual: JsonObject = {
        "type": default_type(source),
        "significance": SIGNIFICANCE,
        "confidence": CONFIDENCE,
        "tags": said.get("tags") or [],
        "title": None,
        "agent": None,
        "metadata": {},
    }
    own = {
        "type": memory.type.value,
        "significance": memory.significance,
        "confidence": memory.confidence,
        "tags": list(memory.tags),
        "title": memory.title,
        "agent": memory.scope.agent,
        "metadata": {
            name: one
            for name, one in memory.metadata.items()
            if not (name == "source" and one == source) and not (name == MESSAGE and isinstance(one, Mapping))
        },
    }
    return {name: one for name, one in own.items() if one != usual[name]}


def _from_facets(thread: ExportedThread, said: JsonObject, imported: Mapping[str, Any]) -> JsonObject:
    usual = {
        "title": thread.title,
        "topics": list(thread.topics),
        "drift_history": [],
        "activation_count": 0,
        "weight": 1.0,
    }
    made: JsonObject = {}
    for name, (facet, field) in _FACET_FIELDS.items():
        now = _facet(thread, facet).get(field)
        if name in said and now == imported.get(facet, {}).get(field):
            made[name] = said[name]
        else:
            made[name] = usual[name] if now is None else now
    return made | {"ratings": _ratings(thread, said, imported)}


def _ratings(thread: ExportedThread, said: JsonObject, imported: Mapping[str, Any]) -> list[Any]:
    """Those of the file as they stood there, and after them the new ones."""
    now = _facet(thread, "ratings").get("ratings") or []
    taken = imported.get("ratings", {}).get("ratings") or []
    as_written = said.get("ratings") or []
    known, there = [_same(one) for one in taken], [_same(one) for one in now]
    for dropped in range(max(len(known), 1)):  # the oldest go when there are too many
        left = len(known) - dropped
        if there[:left] == known[dropped:]:
            return [*as_written, *(_as_rating(one) for one in now[left:])]
    return [_as_rating(one) for one in now]


def _same(rating: Mapping[str, Any]) -> tuple[Any, ...]:
    """Whoever writes ratings again may write their times in another way."""
    at = _read(rating.get("timestamp"))
    return rating.get("useful"), None if at is None or at.timestamp() == 0 else at, rating.get("reason")


def _as_rating(rating: Mapping[str, Any]) -> JsonObject:
    return {**rating, "timestamp": _as_seed(rating.get("timestamp"))}


def _status(thread: ExportedThread, said: JsonObject) -> str:
    word = _word(said)
    if _facet(thread, "thread").get("into") is not None:
        return str(said["status"]) if word == MERGED else MERGED
    if thread.is_active:
        return str(said["status"]) if word == ACTIVE and said.get("status") else ACTIVE
    return ARCHIVED if word == ACTIVE else str(said["status"])


def _word(said: JsonObject) -> str:
    return str(said.get("status") or ACTIVE).casefold()


def _tags(thread: ExportedThread, said: JsonObject, imported: Mapping[str, Any]) -> Any:
    tags = said.get("tags") or []
    was, now = imported.get("attention", {}).get("pinned") is True, _facet(thread, "attention").get("pinned") is True
    if was == now and "tags" in said:
        return said["tags"]
    others = [one for one in ([tags] if isinstance(tags, str) else tags) if one.casefold() != PIN_TAG]
    return [*others, PIN_TAG] if now else others


def _times(thread: ExportedThread, said: JsonObject, imported_s: object) -> JsonObject:
    created = [memory.created_at for memory, _ in thread.memories]
    newest = latest([*created, *(memory.updated_at for memory, _ in thread.memories)])
    is_new = newest is not None and not (isinstance(imported_s, int | float) and newest.timestamp() <= imported_s)
    began = said.get("created_at") or (seed_time(min(created)) if created else None)
    active = said.get("last_active")
    if newest is not None and (is_new or not active):
        active = seed_time(newest)
    return {"created_at": began, "last_active": active}


def _facet(thread: ExportedThread, name: str) -> JsonObject:
    return thread.facets.get(name) or {}


def _as_seed(said: object) -> object:
    """A time of ours as the seed writes it; one that was written in another way stays as it is."""
    at = _read(said)
    is_aware = isinstance(said, str) and at is not None and datetime.fromisoformat(said).tzinfo is not None
    return seed_time(at) if at is not None and is_aware else said


def _read(said: object) -> datetime | None:
    try:
        return moment("time", said) if isinstance(said, str) else None
    except InvalidInput:
        return None


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("folder", f"{folder} cannot be used ({error.strerror})") from None


def _write(path: Path, content: JsonObject) -> None:
    with replacing(path) as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")
