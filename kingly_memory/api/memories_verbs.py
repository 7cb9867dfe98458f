"""Storing, finding, reading and forgetting memories."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kingly_memory.api.declare import (
    Answer,
    Arg,
    Before,
    ContextId,
    Facts,
    KeyOrId,
    Limit,
    MemoryRouter,
    OneContext,
    OwnSignificance,
    OwnTags,
    Tags,
    Title,
    Types,
    verb,
)
from kingly_memory.models import KINDS, JsonObject, MemoryType
from kingly_memory.validation import (
    USUAL,
    required,
)

MOST_GOT = 20
MOST_KEYS = 100
"""Keys that a list holds: what a model reads, and what can be read at once."""
LONGEST_WAIT_S = 60.0
"""A host gives up on a call about then."""

MemoryKind = Annotated[
    str,
    Arg(
        "semantic: a fact; procedural: how something is done; episodic: what happened; working: only for this task",
        tool="memory_type",
        choices=(*MemoryType, *KINDS),
        usual="semantic",
    ),
]


@verb("store", "memory_intelligent_store", "memory", title="Store a memory", destroys=True)
def store(
    memory: MemoryRouter,
    content: Annotated[str, Arg("what to remember, understandable on its own", reads_input=True)],
    *,
    key: Annotated[str | None, Arg("only for what you may correct: storing a key again replaces its text")] = None,
    type: MemoryKind | None = None,
    significance: OwnSignificance | None = None,
    context_id: ContextId | None = None,
    tags: OwnTags | None = None,
    title: Title | None = None,
    confidence: Annotated[float, Arg("how sure it is", least=0, most=1, usual=0.5)] | None = None,
    metadata: Facts | None = None,
    origin: Annotated[
        # not user: only what a person's own command or prompt says is the user's
        Literal["agent", "tool", "web"], Arg("web or tool: copied from a web page or a tool's output", only="tool")
    ] = "agent",
    ttl: Annotated[
        float | str | None,
        Arg("when it ends, from now: 30m, 12h, 7d, seconds, or never; left out, as its type says", "TIME"),
    ] = None,
    wait: Annotated[
        float | None,
        Arg("seconds to wait for the remote's acknowledgement", "S", least=0, most=LONGEST_WAIT_S),
    ] = None,
    require_remote: Annotated[bool, Arg("fail when the remote has not acknowledged in time", only="command")] = False,
) -> Answer:
    """Store one fact, decision, preference or lesson. It is on this machine's disk when this returns.

    Example: {"key": "deploy", "content": "Deploys need two reviews", "significance": 0.8}
    Answers: success local_id mcp_id storage_layers key revision delivery reason ends_at
    """
    return memory.store(
        content,
        key=None if key is None else required("key", key),
        type=type,
        significance=significance,
        confidence=confidence,
        tags=() if tags is None else tags,
        title=title,
        context_id=context_id,
        origin=origin,
        metadata=metadata,
        ttl=USUAL if ttl is None else ttl,
        wait=wait,
        require_remote=require_remote,
    )


@verb("get", "memory_get", "memory", title="Read a memory", reads=True)
def get(
    memory: MemoryRouter,
    key_or_id: Annotated[
        str | list[str],
        Arg(
            f"key or id, or a list of up to {MOST_GOT}",
            "KEY_OR_ID",
            most=MOST_GOT,
            command_words="key or id of the memory",
        ),
    ],
) -> Answer:
    """Read whole memories by key or id.

    Example: {"key_or_id": "deploy"}
    Answers: success memory memories missing
    """
    return memory.get(key_or_id) if isinstance(key_or_id, str) else _each(memory, key_or_id)


async def _each(memory: MemoryRouter, names: list[str]) -> dict[str, Any]:
    return {name: await memory.get(name) for name in names}


@verb("list")
def list_memories(
    memory: MemoryRouter,
    *,
    limit: Limit = 20,
    before: Before | None = None,
    types: Types | None = None,
    tags: Tags | None = None,
    context_id: OneContext | None = None,
    include_archived: Annotated[bool, Arg("show archived memories as well", option="archived")] = False,
) -> Answer:
    """List memories, the latest first; assessments of tasks only with --tag confidence_assessment."""
    return memory.list(
        limit=limit, before=before, types=types, tags=tags, context_id=context_id, include_archived=include_archived
    )


@verb("forget", "memory_forget", "memory", title="Forget a memory", destroys=True)
def forget(memory: MemoryRouter, key_or_id: KeyOrId) -> Answer:
    """Forget a memory, here and on the remote. A person can restore it.

    Example: {"key_or_id": "deploy"}
    Answers: success id key restore
    """
    return memory.forget(key_or_id)


@verb("restore", "memory_restore", "lifecycle", title="Restore a memory", repeatable=True)
def restore(memory: MemoryRouter, key_or_id: KeyOrId) -> Answer:
    """Bring a forgotten or archived memory back.

    Example: {"key_or_id": "deploy"}
    Answers: success id key memory_type
    """
    return memory.restore(key_or_id)


# --- tools only: keys and values of earlier days ----------------------------------------------------------------------


@verb(None, "remember", "legacy", title="Keep a value", destroys=True)
async def remember(
    memory: MemoryRouter,
    key: Annotated[str, Arg("name of the value")],
    content: Annotated[str, Arg("the value; what is no text is kept as JSON", tool="value", takes_anything=True)],
) -> JsonObject:
    """Keep a value under a key, in place of what was there. The newer tool is memory_intelligent_store.

    Example: {"key": "editor", "value": "vim"}
    Answers: success key id
    """
    receipt = await memory.store(content, key=required("key", key))
    return {"key": receipt.key or key, "id": receipt.id}


@verb(None, "recall", "legacy", title="Read a value", reads=True)
async def recall(memory: MemoryRouter, key_or_id: Annotated[str, Arg("name of the value", tool="key")]) -> JsonObject:
    """Read the value under a key; `found` is false when there is none.

    Example: {"key": "editor"}
    Answers: success key found value
    """
    found = await memory.get(key_or_id)
    return {"key": key_or_id, "found": found is not None, "value": None if found is None else found.content}


@verb(None, "list", "legacy", title="List the keys", reads=True)
async def list_keys(memory: MemoryRouter) -> JsonObject:
    """List the keys that hold a value, the latest first; `more` says that there are older ones than the 100 shown.

    Example: {}
    Answers: success keys count more
    """
    page = await memory.list(limit=MOST_KEYS)
    keys = [one.key for one in page if one.key is not None]
    return {"keys": keys, "count": len(keys), "more": page.next_before is not None}
