"""What an Ultimate MCP server is told, in its words. Pure.

Its levels are our types; what it calls a memory's type is a kind of content. Tags come back in lower case, and what is
kept in `context_data` does not come back from a search at all: so what a hit must say of itself is in tags.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from kingly_memory.adapters.remote import wire
from kingly_memory.models import CONFIDENCE_ASSESSMENT, JsonObject, Memory, MemoryType
from kingly_memory.ports import RemoteLink

KINDS_THERE = frozenset(
    "observation action_log tool_output artifact_creation reasoning_step fact insight plan question summary reflection "
    "skill procedure pattern code json url user_input text".split()
)
PLAIN_KIND = "text"
FORGOTTEN = "(forgotten)"
"""What a memory says there once it was dropped: the server has no tool to delete one, and it may take its time."""
DROP_TTL_S = 1
FOREVER_S = 315_360_000
"""Ten years: what is kept for good here must not end there by its level's own lifetime."""
MOST_HITS = 100
MOST_LINKS = 50
THOUGHT_TYPES = frozenset(
    "goal question hypothesis inference evidence constraint plan decision reflection critique summary".split()
)

MEMORY_TAG, CONTEXT_TAG = "kingly:", "ctx:"
PROJECT_TAG, REVISION_TAG = "kingly-project:", "kingly-revision:"
OUR_TAGS = (MEMORY_TAG, CONTEXT_TAG, PROJECT_TAG, REVISION_TAG)
_CONTEXT_DATA_LIMIT_BYTES = 60_000
"""The server replaces what is above 64,000 by an error, without saying so."""
_QUERY_LIMIT = 1_000
_KIND_OF_RECORD: Mapping[str, str] = {
    "thought": "reasoning_step",
    "whisper": "insight",
    "summary": "summary",
    "event": "observation",
    "task_outcome": "action_log",
    CONFIDENCE_ASSESSMENT: "reflection",
}
_LIFETIMES_S: Mapping[MemoryType, int] = {MemoryType.WORKING: 1_800, MemoryType.EPISODIC: FOREVER_S}
"""Only working memories end there. Others end here, if they do, and may be restored. The server ends episodic ones
after a week unless it is told otherwise."""
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9 ]+")


class Asked(NamedTuple):
    """A question as the server can take it. `worded` is False when its keyword half could not."""

    text: str
    worded: bool


def store_arguments(memory: Memory, idempotency_key: str, supersedes: str | None = None) -> JsonObject:
    """What `store_memory` is told, but for the workflow."""
    ttl_s = _lifetime_s(memory)
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
    """What `update_memory` is told. Its lifetime there may count from when it was first stored, and may be over."""
    age_s = max(0, math.ceil((now - memory.created_at).total_seconds()))
    return {
        "memory_id": remote_id,
        "content": memory.content,
        "importance": importance_of(memory.significance),
        "confidence": memory.confidence,
        "tags": tags_of(memory),
        "memory_level": memory.type.value,
        "ttl": age_s + (_lifetime_s(memory) or FOREVER_S),
    }


def drop_arguments(memory: Memory, remote_id: str) -> JsonObject:
    """What `update_memory` is told of a memory that was forgotten."""
    tags = [memory_tag(memory), project_tag(memory.scope.project)]
    return {"memory_id": remote_id, "content": FORGOTTEN, "tags": tags, "ttl": DROP_TTL_S}


def thought_arguments(
    memory: Memory, idempotency_key: str, parent_remote_id: str | None, chain_remote_id: str | None
) -> JsonObject:
    """What `record_thought` is told, but for the workflow."""
    said = memory.metadata.get("thought_type")
    arguments = {
        "content": memory.content,
        "thought_type": said if said in THOUGHT_TYPES else "inference",
        "thought_chain_id": chain_remote_id,
        "parent_thought_id": parent_remote_id,
        "idempotency_key": idempotency_key,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def link_arguments(link: RemoteLink) -> JsonObject:
    """What `create_memory_link` is told."""
    described = {} if link.description is None else {"description": link.description}
    return {**wire.link_words(link), **described}


def workflow_arguments(namespace: str) -> JsonObject:
    """What `create_workflow` is told: the same words for the same namespace, so that there is one workflow for it."""
    return {
        "title": f"Kingly Memory: {namespace}",
        "description": "What Kingly Memory keeps for this project.",
        "tags": ["kingly-memory", project_tag(namespace)],
        "idempotency_key": f"kingly:{namespace}",
    }


def asked(text: str) -> Asked:
    """The keyword half reads its question as FTS5 syntax, in which a hyphen is an error and OR an operator: only plain
    words are sent. A question that would not be much of one without the others is for the semantic half alone, as it
    is."""
    said = text[:_QUERY_LIMIT]
    bare = _without_accents(said)
    plain = " ".join(_NOT_A_WORD.sub(" ", bare).lower().split())
    lost = sum(one.isalnum() and not one.isascii() for one in bare)
    kept = sum(one.isalnum() for one in plain)
    return Asked(plain, worded=True) if kept > lost else Asked(said, worded=False)


def search_arguments(question: Asked, limit: int, level: MemoryType | None) -> JsonObject:
    """What `hybrid_search_memories` is told, but for the workflow."""
    weights = {} if question.worded else {"semantic_weight": 1.0, "keyword_weight": 0.0}
    return {
        "query": question.text,
        "limit": min(limit, MOST_HITS),
        "include_content": True,
        **weights,
        **({} if level is None else {"memory_level": level.value}),
    }


def importance_of(significance: float) -> float:
    """From 0-1 to 1-10."""
    return 1.0 + 9.0 * significance


def kind_of(memory: Memory) -> str:
    """The server's name for what such a memory says; `text` for whatever it has no name for."""
    kind = memory.metadata.get("kind")
    if isinstance(kind, str) and kind in KINDS_THERE:
        return kind
    record = memory.metadata.get("record")
    return _KIND_OF_RECORD.get(record, PLAIN_KIND) if isinstance(record, str) else PLAIN_KIND


def tags_of(memory: Memory) -> list[str]:
    """The memory's own tags, and what tells it, its project, its context and its revision; thoughts say so too."""
    own = [tag for tag in memory.tags if not tag.lower().startswith(OUR_TAGS)]
    context_id = memory.scope.context_id
    contexts = [] if context_id is None else [context_tag(context_id)]
    revision = f"{REVISION_TAG}{memory.revision}"
    reasoning = _reasoning_tags(memory)
    ours = [memory_tag(memory), project_tag(memory.scope.project), revision, *contexts]
    return list(dict.fromkeys([*own, *reasoning, *ours]))


def memory_tag(memory: Memory) -> str:
    return f"{MEMORY_TAG}{memory.id}"


def context_tag(context_id: str) -> str:
    return f"{CONTEXT_TAG}{context_id}"


def project_tag(project: str) -> str:
    """A digest, since names that differ in case alone would come back as one."""
    return PROJECT_TAG + sha256(project.encode(errors="replace")).hexdigest()[:16]


def _without_accents(text: str) -> str:
    """As the keyword half keeps its words."""
    return "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))


def _reasoning_tags(memory: Memory) -> list[str]:
    if kind_of(memory) != _KIND_OF_RECORD["thought"]:
        return []
    thought_type = memory.metadata.get("thought_type")
    return ["reasoning", *([thought_type] if isinstance(thought_type, str) and thought_type else [])]


def _lifetime_s(memory: Memory) -> int | None:
    """Seconds that it may live there; None for ever, where the server does that by itself."""
    return _LIFETIMES_S.get(memory.type)


def _context_data(memory: Memory, supersedes: str | None) -> JsonObject:
    """The record without its content, which the server keeps beside it; without its metadata too where that is much."""
    record = memory.to_json()
    del record["content"]
    data = {
        **record,
        "context_id": memory.scope.context_id,
        "timestamp": round(memory.updated_at.timestamp() * 1000),
        "source": wire.SOURCE,
        **({} if supersedes is None else {"supersedes": supersedes}),
    }
    if len(json.dumps(data)) > _CONTEXT_DATA_LIMIT_BYTES:
        del data["metadata"], data["tags"]
    return data
