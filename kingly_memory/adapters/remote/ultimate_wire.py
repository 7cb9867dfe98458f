"""Between our values and an Ultimate MCP server's words. Pure; what comes in is believed only as far as its shape goes.

Its levels are our types; what it calls a memory's type is a kind of content. Tags come back in lower case, and what is
kept in `context_data` does not come back from a search at all: so what a hit must say of itself is in tags.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.digests import sha256
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import CONFIDENCE_ASSESSMENT, JsonObject, Memory, MemoryType, project_and_user, whose
from kingly_memory.ports import RemoteHit, RemoteLink

KINDS_THERE = frozenset(
    "observation action_log tool_output artifact_creation reasoning_step fact insight plan question summary reflection "
    "skill procedure pattern code json url user_input text".split()
)
PLAIN_KIND = "text"
FORGOTTEN = "(forgotten)"
"""What a memory says there once it was dropped: the server has no tool to delete one, and it may take its time."""
FOREVER_S = 315_360_000
"""Ten years: what is kept for good here must not end there by its level's own lifetime."""
MEMORY_TAG, CONTEXT_TAG = "kingly:", "ctx:"
PROJECT_TAG, REVISION_TAG = "kingly-project:", "kingly-revision:"
OUR_TAGS = (MEMORY_TAG, CONTEXT_TAG, PROJECT_TAG, REVISION_TAG)

_LEAST_SIMILARITY = 0.1
"""What an older server asks for by itself, 0.75, leaves out most of what a question is about."""
_CONTEXT_DATA_LIMIT_BYTES = 60_000
"""The server replaces what is above 64,000 by an error, without saying so."""
_LIFETIMES_S: Mapping[MemoryType, int] = {MemoryType.WORKING: 1_800, MemoryType.EPISODIC: FOREVER_S}
"""Only working memories end there. Others end here, if they do, and may be restored. The server ends episodic ones
after a week unless it is told otherwise."""
_KIND_OF_RECORD: Mapping[str, str] = {
    "thought": "reasoning_step",
    "whisper": "insight",
    "summary": "summary",
    "event": "observation",
    "task_outcome": "action_log",
    CONFIDENCE_ASSESSMENT: "reflection",
}
_SCORES = ("hybrid_score", "similarity", "semantic_score", "keyword_relevance_score")
_LATEST_S = 253_402_300_799
"""The last second of the year 9999."""
_MOST_TAGS = 64


# --- what we send -----------------------------------------------------------------------------------------------------


def store_arguments(memory: Memory, idempotency_key: str, supersedes: str | None = None) -> JsonObject:
    """The arguments of `store_memory`, but for the workflow."""
    ttl_s = _LIFETIMES_S.get(memory.type)
    return {
        "content": memory.content,
        "memory_type": kind_of(memory),
        "memory_level": memory.type.value,
        "importance": importance_of(memory.significance),
        "confidence": memory.confidence,
        "source": wire.SOURCE,
        "tags": tags_of(memory),
        "context_data": _context_data(memory, supersedes),
        "suggest_links": False,
        "idempotency_key": idempotency_key,
        **({} if memory.title is None else {"description": memory.title}),
        **({} if ttl_s is None else {"ttl": ttl_s}),
    }


def update_arguments(memory: Memory, remote_id: str, now: datetime) -> JsonObject:
    """The arguments of `update_memory`. Its lifetime there may count from when it was first stored, and may be over."""
    age_s = max(0, math.ceil((now - memory.created_at).total_seconds()))
    return {
        "memory_id": remote_id,
        "content": memory.content,
        "importance": importance_of(memory.significance),
        "confidence": memory.confidence,
        "tags": tags_of(memory),
        "memory_level": memory.type.value,
        "ttl": age_s + _LIFETIMES_S.get(memory.type, FOREVER_S),
    }


def link_arguments(link: RemoteLink) -> JsonObject:
    """The arguments of `create_memory_link`."""
    described = {} if link.description is None else {"description": link.description}
    return {**wire.link_words(link), **described}


def workflow_arguments(space: str) -> JsonObject:
    """The arguments of `create_workflow`: the same words for the same space, so that there is one workflow for it."""
    project, user = project_and_user(space)
    name = project if project is not None and user is None else whose(space)
    return {
        "title": f"Kingly Memory: {name}",
        "description": "What Kingly Memory keeps for this project.",
        "tags": ["kingly-memory", project_tag(space)],
        "idempotency_key": f"kingly:{name}",
    }


def worded_query(text: str) -> tuple[str, bool]:
    """A question as the server can take it, and whether its keyword half can. That reads it as FTS5 syntax, in which a
    hyphen is an error and OR an operator: only plain words are sent. A question that would not be much of one without
    the others is for the semantic half alone, as it is."""
    question = text[:1_000]
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", question) if not unicodedata.combining(letter))
    plain = " ".join(re.sub(r"[^A-Za-z0-9 ]+", " ", bare).lower().split())
    lost = sum(letter.isalnum() and not letter.isascii() for letter in bare)
    kept = sum(letter.isalnum() for letter in plain)
    return (plain, True) if kept > lost else (question, False)


def search_arguments(text: str, limit: int, level: MemoryType | None, *, by_words: bool = True) -> JsonObject:
    """The arguments of `hybrid_search_memories`, but for the workflow; or not `by_words` an older server's
    `search_semantic_memories`."""
    query, is_worded = worded_query(text) if by_words else (text, True)
    further = {} if by_words else {"threshold": _LEAST_SIMILARITY}
    return {
        "query": query,
        "limit": min(limit, 100),
        "include_content": True,
        **(further if is_worded else {"semantic_weight": 1.0, "keyword_weight": 0.0}),
        **({} if level is None else {"memory_level": level.value}),
    }


def importance_of(significance: float) -> float:
    """From 0-1 to 1-10."""
    return 1.0 + 9.0 * significance


def kind_of(memory: Memory) -> str:
    """The server's name for what such a memory says; `text` for whatever it has no name for."""
    kind, record = memory.metadata.get("kind"), memory.metadata.get("record")
    if isinstance(kind, str) and kind in KINDS_THERE:
        return kind
    return _KIND_OF_RECORD.get(record, PLAIN_KIND) if isinstance(record, str) else PLAIN_KIND


def tags_of(memory: Memory) -> list[str]:
    """The memory's own tags, and what tells it, its project, its context and its revision; thoughts say so too."""
    own = [tag for tag in memory.tags if not tag.lower().startswith(OUR_TAGS)]
    thought_type, context_id = memory.metadata.get("thought_type"), memory.scope.context_id
    if kind_of(memory) == _KIND_OF_RECORD["thought"]:
        own += ["reasoning", *([thought_type] if isinstance(thought_type, str) and thought_type else [])]
    ours = [memory_tag(memory), project_tag(memory.scope.space), f"{REVISION_TAG}{memory.revision}"]
    return list(dict.fromkeys([*own, *ours, *([] if context_id is None else [context_tag(context_id)])]))


def memory_tag(memory: Memory) -> str:
    return f"{MEMORY_TAG}{memory.id}"


def context_tag(context_id: str) -> str:
    return f"{CONTEXT_TAG}{context_id}"


def project_tag(space: str) -> str:
    """A digest, since names that differ in case alone would come back as one."""
    return PROJECT_TAG + sha256(space.encode(errors="replace")).hexdigest()[:16]


def _context_data(memory: Memory, supersedes: str | None) -> JsonObject:
    """The record without its content, which the server keeps beside it; without its metadata too where that is much."""
    data = {
        **wire.record_of(memory),
        "context_id": memory.scope.context_id,
        "timestamp": wire.timestamp_of(memory),
        "source": wire.SOURCE,
        **({} if supersedes is None else {"supersedes": supersedes}),
    }
    if len(json.dumps(data)) > _CONTEXT_DATA_LIMIT_BYTES:
        del data["metadata"], data["tags"]
    return data


# --- what the server answers ------------------------------------------------------------------------------------------


def named(reply: Any, field: str) -> str:
    """An id that a reply must name. Raises RemoteUnavailable without one: the outcome is unknown."""
    found = wire.text_of(wire.body_of(reply).get(field))
    if found is None:
        raise RemoteUnavailable(f"the reply names no {field}", reached=True)
    return found


def entries(reply: Any) -> list[Mapping[str, Any]]:
    """The memories of a reply; an empty list is an answer. Raises RemoteUnavailable when it holds no list of them, or
    nothing in the list can be read as a memory: that is none."""
    found = wire.body_of(reply).get("memories")
    if not isinstance(found, list):
        raise RemoteUnavailable("the reply holds no list of memories", reached=True)

    def readable(entry: Any) -> Mapping[str, Any] | None:
        """One with an id and words, whosever memory it is."""
        if not isinstance(entry, Mapping) or wire.text_of(entry.get("memory_id")) is None:
            return None
        return entry if wire.is_content(entry.get("content")) else None

    return wire.readable(found, readable)


def hit(entry: Mapping[str, Any], space: str, level: MemoryType | None = None) -> RemoteHit | None:
    """A found memory in our words; None for one of another project, or without id or words, or that was dropped.

    Filters reach only half of a search there, so that each hit is looked at again. `level` is the one asked for.
    """
    remote_id, content = wire.text_of(entry.get("memory_id")), entry.get("content")
    if remote_id is None or not wire.is_content(content) or is_dropped(entry):
        return None
    tags = tags_there(entry)
    projects = _after(tags, PROJECT_TAG)
    if projects and project_tag(space).removeprefix(PROJECT_TAG) not in projects:
        return None
    relevance = wire.share(wire.first_figure(entry, _SCORES, 0.0))
    memory_id = next(iter(_after(tags, MEMORY_TAG)), None)
    return RemoteHit(remote_id, content, relevance, memory_id, _record(entry, tags, space, level))


def _record(entry: Mapping[str, Any], tags: tuple[str, ...], space: str, level: MemoryType | None) -> Mapping[str, Any]:
    """What is known of a memory that only the server holds. What it does not say is left out."""
    level_name, kind = entry.get("memory_level"), entry.get("memory_type")
    if isinstance(level_name, str) and level_name in set[str](MemoryType):
        level = MemoryType(level_name)
    revisions = (number for number in _after(tags, REVISION_TAG) if re.fullmatch(r"[1-9][0-9]{0,8}", number))
    title = wire.text_of(entry.get("description"))
    importance, confidence = wire.figure(entry.get("importance")), wire.figure(entry.get("confidence"))
    project, user = project_and_user(space)
    whose = {"project": project} if user is None else {"project": project, "user": user}
    fields = {
        "type": level,
        "significance": None if importance is None else significance_of(importance),
        "confidence": None if confidence is None else wire.share(confidence),
        "tags": [tag for tag in tags if not tag.startswith(OUR_TAGS)][:_MOST_TAGS],
        "title": title if wire.is_content(title) else None,
        "created_at": _moment(entry.get("created_at")),
        "scope": {**whose, "context_id": next(iter(_after(tags, CONTEXT_TAG)), None)},
        "revision": next((int(number) for number in revisions), None),
        "metadata": {"kind": kind} if isinstance(kind, str) and kind in KINDS_THERE - {PLAIN_KIND} else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def in_context(hit: RemoteHit, context_id: str) -> RemoteHit | None:
    """The hit with the name of the context as it is, since it came back in lower case; None for another one's."""
    scope = hit.record["scope"]
    if scope.get("context_id") != context_id.strip().lower():
        return None
    return hit._replace(record={**hit.record, "scope": {**scope, "context_id": context_id}})


def merged(hits: Iterable[RemoteHit | None], types: frozenset[MemoryType] | None) -> list[RemoteHit]:
    """Best first, once each, of those types only."""
    return wire.ranked(hit for hit in hits if hit is not None and (types is None or hit.record.get("type") in types))


def is_of(entry: Mapping[str, Any], memory: Memory, *, any_revision: bool) -> bool:
    """Whether an entry is a copy of that memory, of its revision where that matters."""
    tags = tags_there(entry)
    return memory_tag(memory).lower() in tags and (any_revision or f"{REVISION_TAG}{memory.revision}" in tags)


def is_dropped(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is what is left of a memory that was forgotten."""
    return entry.get("content") == FORGOTTEN


def tags_there(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags of an entry, in lower case; some replies hold them as JSON text."""
    tags = entry.get("tags")
    if isinstance(tags, str):
        try:
            tags = read(tags)
        except NotJson:
            return ()
    texts = (wire.text_of(tag) for tag in tags) if isinstance(tags, list) else ()
    return tuple(text.strip().lower() for text in texts if text is not None)


def significance_of(importance: float) -> float:
    """From 1-10 to 0-1."""
    return wire.share(round((importance - 1.0) / 9.0, 9))


def links(reply: Any, asked_id: str) -> list[JsonObject]:
    """The links of one memory, in our words. The end that is not named is the memory that was asked for."""
    by_direction = wire.body_of(reply).get("links")
    found: list[JsonObject] = []
    for direction, ours in (("outgoing", "source_memory_id"), ("incoming", "target_memory_id")):
        listed = by_direction.get(direction) if isinstance(by_direction, Mapping) else None
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, Mapping):
                found.extend(wire.links([{**entry, ours: entry.get(ours) or asked_id}]))
    return found


def _after(tags: Iterable[str], prefix: str) -> list[str]:
    return [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)]


def _moment(value: Any) -> str | None:
    """A time as ISO text: the server says it so, or in Unix seconds."""
    if isinstance(value, str):
        return wire.text_of(value)
    seconds = wire.figure(value)
    if seconds is None or not 0 <= seconds <= _LATEST_S:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()
