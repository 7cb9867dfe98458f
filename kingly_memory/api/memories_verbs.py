"""Storing, finding, reading and forgetting memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from kingly_memory.api.declare import (
    Answer,
    Arg,
    Before,
    ByAgent,
    ContextId,
    Facts,
    KeyOrId,
    OneContext,
    OwnTags,
    Significance,
    Tags,
    Title,
    Types,
    checked,
    verb,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import (
    CONFIDENCE,
    DETAILS,
    MOST_IN_A_MODE,
    MOST_TOKENS,
    MOST_VERIFIED,
    RESULTS_LIMIT,
    SIGNIFICANCE,
    TTL,
    TYPE,
    required,
    shown,
)
from kingly_memory.models import KINDS, JsonObject, MemoryType, RetrievalMode

if TYPE_CHECKING:
    from kingly_memory.api.declare import MemoryRouter

BUDGET_TOKENS = 2_000
"""What a search may take of a model's context unless it is told: ten usual memories, whole."""
MOST_GOT = 20
MOST_KEYS = 100
"""Keys that a list holds: what a model reads, and what can be read at once."""
LONGEST_WAIT_S = 60.0
"""A host gives up on a call about then."""
SAY_WHAT = "say what to look for"

MemoryKind = Annotated[
    str,
    Arg(
        "semantic: a fact; procedural: how something is done; episodic: what happened; working: only for this task",
        tool="memory_type",
        choices=(*MemoryType, *KINDS),
    ),
]
Query = Annotated[str, Arg("what to look for, in plain words", is_sentence=True)]
BudgetTokens = Annotated[
    int, Arg("most tokens of the results, about", "N", least=1, most=MOST_TOKENS, tool_default=BUDGET_TOKENS)
]
ProjectId = Annotated[str, Arg("this server's project; no other one is shown", only="tool")]


@verb("store", "memory_intelligent_store", "memory", title="Store a memory", destroys=True)
def store(
    memory: MemoryRouter,
    content: Annotated[str, Arg("what to remember, understandable on its own")],
    *,
    key: Annotated[str | None, Arg("only for what you may correct: storing a key again replaces its text")] = None,
    type: MemoryKind = TYPE,
    significance: Significance = SIGNIFICANCE,
    context_id: ContextId | None = None,
    tags: OwnTags | None = None,
    title: Title | None = None,
    confidence: Annotated[float, Arg("how sure it is", least=0, most=1)] = CONFIDENCE,
    metadata: Facts | None = None,
    origin: Annotated[
        # not user: only what a person's own command or prompt says is the user's
        Literal["agent", "tool", "web"], Arg("web or tool: copied from a web page or a tool's output", only="tool")
    ] = "agent",
    ttl: Annotated[float | str | None, Arg("when it ends, from now: 30m, 12h, 7d, seconds, or never", "TIME")] = None,
    wait: Annotated[
        float | None, Arg("seconds to wait for the remote's acknowledgement", "S", least=0, most=LONGEST_WAIT_S)
    ] = None,
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
        ttl=TTL if ttl is None else ttl,
        wait=wait,
    )


@verb("search", "memory_hybrid_search", "memory", title="Search memories", reads=True)
def search(
    memory: MemoryRouter,
    query: Query,
    *,
    mode: Annotated[
        str | None, Arg("what it is for; auto: the question decides", choices=(*RetrievalMode, "auto"), only="command")
    ] = None,
    min_confidence: Annotated[
        float | None, Arg("only memories at least that sure", least=0, most=1, only="command")
    ] = None,
    min_similarity: Annotated[
        float | None, Arg("least likeness of hits without the words", least=0, most=1, only="command")
    ] = None,
    fold: Annotated[bool, Arg("show memories that say the same one by one", only="command")] = True,
    prefer_speed: Annotated[bool, Arg("ask the remote only if this machine finds nothing")] = False,
    include_semantic: Annotated[bool, Arg("ask the remote too", option="semantic", also=("semantic",))] = True,
    types: Types | None = None,
    limit: Annotated[int, Arg("how many at most", "N", least=1, most=RESULTS_LIMIT)] = 10,
    context_id: OneContext | None = None,
    agent: ByAgent | None = None,
    tags: Tags | None = None,
    since: Annotated[str | None, Arg("ISO 8601 date or time (UTC)", "TIME")] = None,
    until: Annotated[str | None, Arg("ISO 8601 time, or date with all of that day (UTC)", "TIME")] = None,
    include_archived: Annotated[bool, Arg("search archived ones too", option="archived")] = False,
    include_linked: Annotated[bool, Arg("show linked memories", only="tool")] = False,
    detail: Annotated[
        str | None, Arg("how much of each memory; titles cost least", "HOW", choices=(*DETAILS,), tool_default="full")
    ] = None,
    budget_tokens: BudgetTokens | None = None,
) -> Answer:
    """Find memories by words and meaning, best first. What exceeds the budget is shown as a passage or a title.

    Example: {"query": "who reviews a deploy", "limit": 5}
    Answers: success results count excluded source failures repaired asked took_ms
    """
    in_mode = (mode, min_confidence, min_similarity) != (None, None, None)
    return memory.search(
        checked("query", query, SAY_WHAT),
        limit,
        types,
        tags,
        agent,
        context_id,
        since,
        until,
        prefer_speed,
        include_semantic,
        include_archived,
        include_linked,
        mode=mode,
        top_k=limit if in_mode else None,
        min_confidence=min_confidence,
        min_similarity=min_similarity,
        fold=fold,
        detail=detail or "full",
        budget_tokens=budget_tokens,
    )


@verb("get", "memory_get", "memory", title="Read a memory", reads=True)
def get(
    memory: MemoryRouter,
    key_or_id: Annotated[str | list[str], Arg(f"key or id, or a list of up to {MOST_GOT}", "KEY_OR_ID", most=MOST_GOT)],
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
    limit: Annotated[int, Arg("how many to show", "N")] = 20,
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


@verb("context", "memory_get_working_context", "memory", title="Read the working context", reads=True)
def context(
    memory: MemoryRouter,
    context_id: Annotated[str, Arg("left out: the last one", "ID")] = "current",
    include_related: Annotated[bool, Arg("show linked memories", only="tool")] = True,
) -> Answer:
    """Read the latest memories of a conversation or task. Call it when you resume one.

    Example: {"context_id": "deploy-42"}
    Answers: working_memory local_state context_id last_updated memory_count related_memories source tokens whispers
        reason
    """
    return memory.working_context(context_id, include_related)


@verb("link", "memory_link", "thoughts", title="Link two memories", repeatable=True)
def link(
    memory: MemoryRouter,
    source: Annotated[KeyOrId, Arg("key or id of the memory it begins at")],
    target: Annotated[KeyOrId, Arg("key or id of the memory it leads to")],
    *,
    link_type: Annotated[
        str,
        Arg(
            "what the source is to the target",
            "TYPE",
            option="type",
            choices="kingly_memory.cognition.links:LinkType",
        ),
    ] = "related",
    strength: Annotated[float, Arg("how strong the link is", least=0, most=1)] = 1.0,
    description: Annotated[str | None, Arg("what the link means", "TEXT")] = None,
) -> Answer:
    """Link two memories, so that one is shown with the other.

    Example: {"source": "deploy", "target": "outage-march", "link_type": "follows"}
    Answers: success id source target link_type strength description created_at
    """
    return memory.link_memories(source, target, link_type, strength, description)


@verb("links", reads=True)
def links(memory: MemoryRouter, key_or_id: KeyOrId) -> Answer:
    """List the links of a memory."""
    return memory.links(key_or_id)


# --- tools only: the searches of seed 000, keys and values of earlier days --------------------------------------------


@verb(None, "alma_retrieve_for_mode", "alma", title="Search in a mode", reads=True)
async def search_in_mode(
    memory: MemoryRouter,
    *,
    query: Query,
    mode: Annotated[
        str | None,
        Arg(
            "broad (planning), precise (doing), diagnostic (debugging), learning (patterns), recall (one known thing); "
            "left out, the question decides"
        ),
    ] = None,
    project_id: ProjectId | None = None,
    agent: ByAgent | None = None,
    top_k: Annotated[
        int | None, Arg("how many at most; left out, as many as suit the mode", least=1, most=MOST_IN_A_MODE)
    ] = None,
    min_confidence: Annotated[
        float | None,
        Arg("how sure memories must be (0.5 unless told otherwise); left out, the mode says", least=0, most=1),
    ] = None,
    budget_tokens: BudgetTokens = BUDGET_TOKENS,
    explain: Annotated[bool, Arg("show the figures that each place was made from")] = False,
) -> Answer:
    """Find memories for a purpose: the mode decides how many, what counts, and whether failures come along.

    Example: {"query": "why does the deploy fail", "mode": "diagnostic"}
    Answers: success results count excluded source failures repaired asked took_ms mode mode_reason hint
    """
    checked("query", query, SAY_WHAT)
    check_project(memory, project_id)
    return await memory.search(
        query,
        agent=agent,
        mode=mode or "auto",
        top_k=top_k,
        min_confidence=min_confidence,
        budget_tokens=budget_tokens,
    )


@verb(None, "alma_retrieve_verified", "alma", title="Search and verify", reads=True)
async def search_verified(
    memory: MemoryRouter,
    *,
    query: Query,
    ground_truth: Annotated[
        list[str] | None, Arg("texts known to be right; left out, memories are held against each other")
    ] = None,
    project_id: ProjectId | None = None,
    agent: ByAgent | None = None,
    top_k: Annotated[int, Arg("how many at most, all statuses together", least=1, most=MOST_VERIFIED)] = 5,
    budget_tokens: BudgetTokens = BUDGET_TOKENS,
) -> Answer:
    """Find memories and check each: which are verified, uncertain, contradicted or unverifiable.

    Example: {"query": "how many reviews does a deploy need", "ground_truth": ["Deploys need two reviews."]}
    Answers: success verified uncertain contradicted unverifiable total_candidates counts excluded
        verification_method source failures repaired asked took_ms
    """
    check_project(memory, project_id)
    return await memory.search_verified(query, top_k, ground_truth, agent=agent)


def check_project(memory: MemoryRouter, project_id: str | None) -> None:
    """Raise InvalidInput for another project than the server's."""
    if project_id is not None and project_id != memory.project:
        problem = f"{shown(project_id)!r} is not the project of this server ({shown(memory.project)!r})"
        raise InvalidInput("project_id", f"{problem}; leave it out, or start a server with --project for the other")


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
