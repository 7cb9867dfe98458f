"""The folder of seed 002 as a view of the store: a file for each thread, and `focus.json`. `ai_threads` reads it.

What nobody has changed since a file was imported is written again as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

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
    seed_time,
)
from kingly_memory.adapters.files.atomic import made_folder, replacing
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import derived_id
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.thread_files import FILE, ExportedThread, message_id
from kingly_memory.validation import CONFIDENCE, SIGNIFICANCE, moment

_PLAIN_NAME = re.compile(r"(?!(?:con|prn|aux|nul|(?:com|lpt)[0-9])$)[a-z0-9][a-z0-9_-]{0,99}")
"""A name that is no device on any system."""


def write(folder: Path, threads: Iterable[ExportedThread], focus: JsonObject | None) -> dict[str, int]:
    """Write a file for each thread, and what is in focus if anything ever was; answers how many there are of each.
    Files of threads that are gone are left alone. Raises InvalidInput."""
    written = 0
    for written, thread in enumerate(threads, start=1):
        if written == 1:
            made_folder(folder / THREADS)
        _write(folder / THREADS / file_name(thread.id), document(thread))
    if focus is not None:
        active = [{**one, "set_at": _as_seed(one.get("set_at"))} for one in focus.get("active_focus", ())]
        updated = _as_seed(focus.get("last_updated"))
        _write(made_folder(folder) / FOCUS, {**focus, "active_focus": active, "last_updated": updated})
    return {THREADS: written, FOCUS: 0 if focus is None else len(focus.get("active_focus", ()))}


def file_name(thread_id: str) -> str:
    """Ids of contexts may be anything; names of files stay in their folder, on every system."""
    if _PLAIN_NAME.fullmatch(thread_id):
        return thread_id + SUFFIX
    words = re.sub(r"[^a-z0-9]+", "-", thread_id[:60].lower()).strip("-") or "thread"
    return f"{words}-{sha256(thread_id.encode()).hexdigest()[:12]}{SUFFIX}"


def document(thread: ExportedThread) -> JsonObject:
    """A thread as its file."""
    file = thread.facets.get(FILE, {})
    said: JsonObject = file.get("said", {})
    imported: Mapping[str, Any] = file.get("facets", {})
    about, weight = thread.facets.get("thread") or {}, thread.facets.get("attention") or {}
    was, was_weight = imported.get("thread", {}), imported.get("attention", {})
    status = _status(thread, said, is_merged=about.get("into") is not None)
    made: JsonObject = {"id": thread.id}
    for name, now, before, usual in (
        ("title", about.get("title"), was.get("title"), thread.title),
        ("topics", about.get("topics"), was.get("topics"), list(thread.topics)),
        ("drift_history", about.get("drift_history"), was.get("drift_history"), []),
        ("activation_count", about.get("recalls"), was.get("recalls"), 0),
        ("weight", weight.get("weight"), was_weight.get("weight"), 1.0),
    ):
        is_same = name in said and now == before
        made[name] = said[name] if is_same else usual if now is None else now
    made["ratings"] = _ratings(thread, said, imported)
    made["status"] = status
    tags = said.get("tags") or []
    is_pinned, was_pinned = weight.get("pinned") is True, was_weight.get("pinned") is True
    if is_pinned == was_pinned and "tags" in said:
        made["tags"] = said["tags"]
    else:
        others = [one for one in ([tags] if isinstance(tags, str) else tags) if one.casefold() != PIN_TAG]
        made["tags"] = [*others, PIN_TAG] if is_pinned else others
    made["relevance_score"] = round(thread.relevance, 4)
    made |= _times(thread, said, file.get("last_s"))
    is_in_view = about.get("into") is not None or status.casefold() == ACTIVE
    messages = _messages(thread, file.get("blank", ()), said, is_in_view=is_in_view)
    # A message that was pinned says so for ever; its thread may have been unpinned since.
    is_unpinned = not is_pinned and any(message.get("source") == PIN_SOURCE for message in messages)
    ours = {"merged_into": about.get("into"), ALONE: thread.is_alone or None, UNPINNED: is_unpinned or None}
    dropped = {ALONE, UNPINNED, *(() if was.get("into") is None else ("merged_into",))}
    return {
        **{name: one for name, one in said.items() if name not in dropped},
        **made,
        **{name: one for name, one in ours.items() if one is not None},
        "messages": messages,
    }


def _status(thread: ExportedThread, said: JsonObject, *, is_merged: bool) -> str:
    """As the file wrote it, as long as it means the same."""
    word = str(said.get("status") or ACTIVE)
    if is_merged:
        return word if word.casefold() == MERGED else MERGED
    if thread.is_active:
        return word if word.casefold() == ACTIVE else ACTIVE
    return ARCHIVED if word.casefold() == ACTIVE else word


def _messages(thread: ExportedThread, blank: Iterable[Any], said: JsonObject, *, is_in_view: bool) -> list[JsonObject]:
    waiting: dict[int, JsonObject] = dict(blank)
    messages: list[JsonObject] = []
    usual = Standing.LIVE if is_in_view else Standing.ARCHIVED
    for memory, standing in thread.memories:
        if memory.metadata.get(TITLE) is True and memory.metadata.get("source") is None:
            continue
        while len(messages) in waiting:
            messages.append(waiting.pop(len(messages)))
        messages.append(_message(thread, memory, len(messages), said))
        if standing is not usual:
            messages[-1]["standing"] = standing.value
    return messages + [waiting[place] for place in sorted(waiting)]


def _message(thread: ExportedThread, memory: Memory, place: int, said: JsonObject) -> JsonObject:
    """As its file had it, and under `record` what the memory says of itself beyond that; of most imported ones
    nothing."""
    given, others = memory.metadata.get("source"), memory.metadata.get(MESSAGE)
    message = {
        "content": memory.content,
        "source": given if isinstance(given, str) and given else memory.origin.value,
        "timestamp": seed_time(memory.created_at),
        **(others if isinstance(others, Mapping) else {}),
    }
    source, own_id = message["source"], message.get("id")
    expected = message_id(thread.id, place if own_id in (None, "") else str(own_id))
    if memory.id not in (expected, derived_id(expected, memory.scope.project)):
        message["memory_id"] = memory.id
    metadata = {
        name: one
        for name, one in memory.metadata.items()
        if not (name == "source" and one == source) and not (name == MESSAGE and isinstance(one, Mapping))
    }
    facts: tuple[tuple[str, object, object], ...] = (
        ("type", memory.type.value, default_type(source)),
        ("significance", memory.significance, SIGNIFICANCE),
        ("confidence", memory.confidence, CONFIDENCE),
        ("tags", list(memory.tags), said.get("tags") or []),
        ("title", memory.title, None),
        ("agent", memory.scope.agent, None),
        ("metadata", metadata, {}),
    )
    record = {name: own for name, own, usual in facts if own != usual}
    return {**message, "record": record} if record else message


def _ratings(thread: ExportedThread, said: JsonObject, imported: Mapping[str, Any]) -> list[Any]:
    """Those of the file as they stood there, and after them the new ones."""

    def known(rating: Mapping[str, Any]) -> tuple[Any, ...]:
        """Times may have been written again in another form."""
        at = _read(rating.get("timestamp"))
        return rating.get("useful"), None if at is None or at.timestamp() == 0 else at, rating.get("reason")

    now = (thread.facets.get("ratings") or {}).get("ratings") or []
    as_now = [{**one, "timestamp": _as_seed(one.get("timestamp"))} for one in now]
    taken = [known(one) for one in imported.get("ratings", {}).get("ratings") or []]
    there = [known(one) for one in now]
    for dropped in range(max(len(taken), 1)):  # the oldest go when there are too many
        left = len(taken) - dropped
        if there[:left] == taken[dropped:]:
            return [*(said.get("ratings") or []), *as_now[left:]]
    return as_now


def _times(thread: ExportedThread, said: JsonObject, imported_s: object) -> JsonObject:
    created = [memory.created_at for memory, _ in thread.memories]
    newest = max([*created, *(memory.updated_at for memory, _ in thread.memories)], default=None)
    is_new = newest is not None and not (isinstance(imported_s, int | float) and newest.timestamp() <= imported_s)
    began = said.get("created_at") or (seed_time(min(created)) if created else None)
    active = said.get("last_active")
    if newest is not None and (is_new or not active):
        active = seed_time(newest)
    return {"created_at": began, "last_active": active}


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


def _write(path: Path, content: JsonObject) -> None:
    with replacing(path) as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")
