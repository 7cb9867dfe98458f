"""Finding memories: by words and meaning, in a mode, or checked."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import (
    Answer,
    Arg,
    ByAgent,
    MemoryRouter,
    OneContext,
    ProjectId,
    Tags,
    Types,
    check_project,
    checked,
    verb,
)
from kingly_memory.models import RetrievalMode
from kingly_memory.validation import DETAILS, MOST_IN_A_MODE, MOST_TOKENS, MOST_VERIFIED, RESULTS_LIMIT

BUDGET_TOKENS = 2_000
"""What a search may take of a model's context unless it is told: ten usual memories, whole."""
SAY_WHAT = "say what to look for"

Query = Annotated[str, Arg("what to look for, in plain words", is_sentence=True, reads_input=True)]
BudgetTokens = Annotated[
    int,
    Arg("most tokens of the results, about", "N", least=1, most=MOST_TOKENS, tool_default=BUDGET_TOKENS),
]


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
    fold: Annotated[bool, Arg("fold memories that say the same into one", only="command")] = True,
    prefer_speed: Annotated[
        bool,
        Arg(
            "ask the remote only if this machine finds nothing",
            command_words="by words alone, and do not ask the remote when this machine has an answer",
        ),
    ] = False,
    include_semantic: Annotated[
        bool,
        Arg(
            "ask the remote too",
            option="semantic",
            also=("semantic",),
            command_words="ask the remote for memories of similar meaning",
        ),
    ] = True,
    types: Types | None = None,
    limit: Annotated[
        int | None,
        Arg(
            "how many at most",
            "N",
            command_words="how many to show (default 10, or what suits the mode)",
            least=1,
            most=RESULTS_LIMIT,
            tool_default=10,
        ),
    ] = None,
    context_id: OneContext | None = None,
    agent: ByAgent | None = None,
    tags: Tags | None = None,
    since: Annotated[str | None, Arg("only from this ISO 8601 date or time on (UTC)", "TIME")] = None,
    until: Annotated[str | None, Arg("only up to this ISO 8601 time, or the end of that day (UTC)", "TIME")] = None,
    include_archived: Annotated[bool, Arg("search archived ones too", option="archived")] = False,
    include_linked: Annotated[bool, Arg("show linked memories", only="tool")] = False,
    detail: Annotated[
        str | None,
        Arg(
            "how much of each memory; titles cost least",
            "HOW",
            command_words="how much of each memory: titles, passages or full (default: a line of each)",
            choices=(*DETAILS,),
            tool_default="full",
        ),
    ] = None,
    budget_tokens: BudgetTokens | None = None,
) -> Answer:
    """Find memories by words and meaning, best first. What exceeds the budget is shown as a passage or a title.

    Example: {"query": "who reviews a deploy", "limit": 5}
    Answers: success results count excluded source failures repaired asked took_ms
    """
    return memory.search(
        checked("query", query, SAY_WHAT),
        10 if limit is None else limit,
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
        top_k=limit if mode is not None else None,
        min_confidence=min_confidence,
        min_similarity=min_similarity,
        fold=fold,
        detail=detail or "full",
        budget_tokens=budget_tokens,
    )


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
