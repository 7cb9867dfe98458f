"""What MCP tools do that is no method of the router: the tools of the seeds, each with the arguments that its seed
names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from kingly_memory import validation
from kingly_memory.api.memories import BUDGET_TOKENS
from kingly_memory.declare import CONTEXT, SIGNIFICANCE, Arg, example, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.validation import required, shown

MemoryRouter = Any
"""The awaiting router, which is put together from this room."""
MOST_KEYS = 100
"""Keys that a list holds: what a model reads, and what can be read at once."""
MOST_RETRIEVED = 5
LATEST_YEAR = 1_000_000
RETRIEVE = "retrieve_memory"

_QUERY = Arg("what to look for, in plain words")
_AGENT = Arg("only what this agent stored")
_PROJECT = Arg("this server's project; no other one is shown")


@verb(None, "alma_retrieve_for_mode", "alma", "Search in a mode", reads=True)
@example(
    '{"query": "why does the deploy fail", "mode": "diagnostic"}',
    "success results count excluded source failures repaired asked took_ms mode mode_reason hint",
)
async def search_in_mode(
    memory: MemoryRouter,
    query: Annotated[str, _QUERY],
    mode: Annotated[
        str,
        Arg(
            "broad (planning), precise (doing), diagnostic (debugging), learning (patterns), recall (one known thing); "
            "left out, the question decides",
            tool_default=None,
        ),
    ] = "auto",
    project_id: Annotated[str | None, _PROJECT] = None,
    agent: Annotated[str | None, _AGENT] = None,
    top_k: Annotated[
        int | None, Arg("how many at most; left out, as many as suit the mode", least=1, most=validation.MOST_IN_A_MODE)
    ] = None,
    min_confidence: Annotated[
        float | None,
        Arg("how sure memories must be (0.5 unless told otherwise); left out, the mode says", least=0, most=1),
    ] = None,
    budget_tokens: Annotated[
        int, Arg("most tokens of the results, about", least=1, most=validation.MOST_TOKENS)
    ] = BUDGET_TOKENS,
    explain: Annotated[bool, Arg("show the figures that each place was made from")] = False,
) -> Any:
    """Find memories for a purpose: the mode decides how many, what counts, and whether failures come along."""
    _check_project(memory, project_id)
    how: Any = {"mode": mode}  # any text: the router refuses what is no mode
    return await memory.search(
        query, agent=agent, top_k=top_k, min_confidence=min_confidence, budget_tokens=budget_tokens, **how
    )


@verb(None, "alma_retrieve_verified", "alma", "Search and verify", reads=True)
@example(
    '{"query": "how many reviews does a deploy need", "ground_truth": ["Deploys need two reviews."]}',
    "success verified uncertain contradicted unverifiable total_candidates counts excluded verification_method "
    "source failures repaired asked took_ms",
)
async def search_verified(
    memory: MemoryRouter,
    query: Annotated[str, _QUERY],
    ground_truth: Annotated[
        Sequence[str] | None, Arg("texts known to be right; left out, memories are held against each other")
    ] = None,
    project_id: Annotated[str | None, _PROJECT] = None,
    agent: Annotated[str | None, _AGENT] = None,
    top_k: Annotated[int, Arg("how many at most, all statuses together", least=1, most=validation.MOST_VERIFIED)] = 5,
) -> Any:
    """Find memories and check each: which are verified, uncertain, contradicted or unverifiable."""
    _check_project(memory, project_id)
    return await memory.search_verified(query, top_k, ground_truth, agent=agent)


@verb(None, "alma_get_weak_memories", "alma", "See what has faded", reads=True)
@example('{"include_recoverable": true}', "success forgettable recoverable protected counts")
async def weak(
    memory: MemoryRouter,
    project_id: Annotated[str | None, _PROJECT] = None,
    agent: Annotated[str | None, _AGENT] = None,
    include_recoverable: Annotated[bool, Arg("also those that using them brings back")] = True,
) -> Any:
    """See which memories have faded and may be forgotten. Looking at them is no use of them."""
    _check_project(memory, project_id)
    return await memory.weak(agent)


@verb(None, "alma_compress_and_learn", "alma", "Learn a long text")
@example(
    '{"content": "We deployed twice. The second failed: a review was missing.", "memory_type": "outcome"}',
    "success memory_id compression_ratio key_facts compression_factor summary summary_by level original_id "
    "delivery reason",
)
async def learn(
    memory: MemoryRouter,
    content: Annotated[str, Arg("a verbose text: a log of what was done, a report, a discussion")],
    memory_type: Annotated[
        str,
        Arg(
            "outcome (what happened), knowledge (facts) or heuristic (how to do it)",
            choices=("outcome", "knowledge", "heuristic"),
        ),
    ] = "outcome",
    project_id: Annotated[str | None, _PROJECT] = None,
    agent: Annotated[str | None, Arg("who learns; this server speaks for one agent only")] = None,
    significance: Annotated[float | None, SIGNIFICANCE._replace(usual=0.5)] = None,
    level: Annotated[
        str | None,
        Arg(
            "how much may be left out; left out itself, the setting decides",
            choices=("none", "light", "medium", "aggressive"),
            is_closed=True,
        ),
    ] = None,
    context_id: Annotated[str | None, CONTEXT] = None,
) -> Any:
    """Remember a long text by its summary. The whole text is kept in the archive, under `original_id`."""
    _check_project(memory, project_id)
    if agent is not None and agent != memory.agent:
        speaks = "no agent" if memory.agent is None else f"the agent {shown(memory.agent)!r}"
        problem = f"this server speaks for {speaks}, not for {shown(agent)!r}"
        raise InvalidInput("agent", f"{problem}; leave it out, or start a server with --agent for the other")
    return await memory.compress_and_learn(content, memory_type, significance, level=level, context_id=context_id)


def _check_project(memory: MemoryRouter, project_id: str | None) -> None:
    """Raise InvalidInput for another project than the server's."""
    if project_id is not None and project_id != memory.project:
        problem = f"{shown(project_id)!r} is not the project of this server ({shown(memory.project)!r})"
        raise InvalidInput("project_id", f"{problem}; leave it out, or start a server with --project for the other")


@verb(None, RETRIEVE, "cognition", "Retrieve experiences", reads=True)
@example('{"agent_id": "H001", "current_year": 3, "tags": ["flood"]}', "success agent_id memories count top_k limited")
async def retrieve(
    memory: MemoryRouter,
    agent_id: Annotated[str, Arg("whose experiences")],
    top_k: Annotated[
        int, Arg(f"how many; never more than {MOST_RETRIEVED} come back", least=0, most=validation.RESULTS_LIMIT)
    ] = MOST_RETRIEVED,
    current_year: Annotated[
        int, Arg("the year it is, for what has faded; 0 for the latest one", least=0, most=LATEST_YEAR)
    ] = 0,
    tags: Annotated[Sequence[str] | None, Arg("words to filter by")] = None,
    query: Annotated[str | None, Arg("only what shares words with it, the best match first")] = None,
) -> JsonObject:
    """Retrieve relevant past experiences for decision making: the latest ones, then the weightiest episodes."""
    from kingly_memory.cognition.skills import SkillRegistry

    agent = await memory.cognitive(required("agent_id", agent_id))
    tool = SkillRegistry.load()[RETRIEVE]
    called = tool.invoke(agent, top_k=top_k, current_year=current_year, tags=tags or None, query=query)
    most = called.parameters["top_k"]
    memories = list(called.result)
    return {"agent_id": agent_id, "memories": memories, "count": len(memories), "top_k": most, "limited": most < top_k}


@verb(None, "remember", "legacy", "Keep a value", destroys=True)
@example('{"key": "editor", "value": "vim"}', "success key id")
async def remember(
    memory: MemoryRouter,
    key: Annotated[str, Arg("name of the value")],
    content: Annotated[str, Arg("the value; what is no text is kept as JSON", tool="value", takes_anything=True)],
) -> JsonObject:
    """Keep a value under a key, in place of what was there. The newer tool is memory_intelligent_store."""
    receipt = await memory.store(content, key=required("key", key))
    return {"key": receipt.key or key, "id": receipt.id}


@verb(None, "recall", "legacy", "Read a value", reads=True)
@example('{"key": "editor"}', "success key found value")
async def recall(memory: MemoryRouter, key_or_id: Annotated[str, Arg("name of the value", tool="key")]) -> JsonObject:
    """Read the value under a key; `found` is false when there is none."""
    stored = await memory.get(key_or_id)
    return {"key": key_or_id, "found": stored is not None, "value": None if stored is None else stored.content}


@verb(None, "list", "legacy", "List the keys", reads=True)
@example("{}", "success keys count more")
async def list_keys(memory: MemoryRouter) -> JsonObject:
    """List the keys that hold a value, the latest first; `more` says that there are older ones than the 100 shown."""
    page = await memory.list(limit=MOST_KEYS)
    keys = [one.key for one in page if one.key is not None]
    return {"keys": keys, "count": len(keys), "more": page.next_before is not None}
