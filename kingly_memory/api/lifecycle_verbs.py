"""What becomes of memories: sweeps, fading, the archive, learning a long text."""

from __future__ import annotations

from typing import Annotated, Literal

from kingly_memory.api.declare import (
    Answer,
    Arg,
    Before,
    ByAgent,
    ContextId,
    KeyOrId,
    Limit,
    MemoryRouter,
    OwnSignificance,
    ProjectId,
    check_project,
    verb,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.validation import shown


@verb(
    "sweep",
    "memory_sweep",
    "lifecycle",
    title="Sweep",
    destroys=True,
    repeatable=True,
    reads=lambda dry_run, **_: dry_run,
)
def sweep(
    memory: MemoryRouter,
    *,
    policies: Annotated[
        list[str] | None,
        Arg(
            "lifetimes, merging, strength, tiers; left out, lifetimes and what settings switch on",
            "POLICY",
            option="policy",
        ),
    ] = None,
    dry_run: Annotated[bool, Arg("only say what would happen; false carries it out", tool_default=True)] = False,
) -> Answer:
    """Archive what has ended, and what other policies want to archive, merge or move; a dry run says it first. What
    is archived can be restored.

    Example: {"policies": ["strength"], "dry_run": true}
    Answers: success dry_run policies archived erased promoted demoted summarised summaries merged waiting spared
        skipped kept_for_keys elsewhere reasons before after actions twins undo
    """
    return memory.sweep(policies, dry_run)


@verb("weak", "alma_get_weak_memories", "alma", title="See what has faded", reads=True)
def weak(
    memory: MemoryRouter,
    *,
    project_id: ProjectId | None = None,
    agent: ByAgent | None = None,
    include_recoverable: Annotated[bool, Arg("also those that using them brings back", only="tool")] = True,
) -> Answer:
    """See which memories have faded and may be forgotten. Looking at them is no use of them.

    Example: {"include_recoverable": true}
    Answers: success forgettable recoverable protected counts
    """
    check_project(memory, project_id)
    return memory.weak(agent)


@verb("reinforce", "alma_reinforce", "alma", title="Hold against fading")
def reinforce(
    memory: MemoryRouter,
    key_or_id: Annotated[
        str,
        Arg("id or key of the memory", "KEY_OR_ID", tool="memory_id", also=("memory_id", "key_or_id", "key")),
    ],
) -> Answer:
    """Hold a memory against fading: it was right, and will be needed again.

    Example: {"memory_id": "deploy"}
    Answers: success memory_id new_strength access_count state reinforcements days_until_forgettable
    """
    return memory.reinforce(key_or_id)


@verb("archive list", reads=True)
def archived(
    memory: MemoryRouter,
    *,
    limit: Limit = 20,
    before: Before | None = None,
) -> Answer:
    """List what lies in the archive, and why."""
    return memory.archived(limit, before)


@verb("archive add")
def archive(
    memory: MemoryRouter,
    keys_or_ids: Annotated[list[str], Arg("keys or ids of the memories", "KEY_OR_ID")],
    *,
    reason: Annotated[str | None, Arg("why, to be read in the archive", "TEXT")] = None,
) -> Answer:
    """Put memories away into the archive. Those that lie there already stay as they are."""
    return memory.archive_all(keys_or_ids, reason)


@verb("archive restore")
def archive_restore(memory: MemoryRouter, key_or_id: KeyOrId) -> Answer:
    """Bring a memory back from the archive."""
    return memory.restore(key_or_id)


@verb(None, "alma_compress_and_learn", "alma", title="Learn a long text")
async def learn(
    memory: MemoryRouter,
    *,
    content: Annotated[str, Arg("a verbose text: a log of what was done, a report, a discussion")],
    memory_type: Annotated[
        str,
        Arg(
            "outcome (what happened), knowledge (facts) or heuristic (how to do it)",
            choices=("outcome", "knowledge", "heuristic"),
        ),
    ] = "outcome",
    project_id: ProjectId | None = None,
    agent: Annotated[str | None, Arg("who learns; this server speaks for one agent only")] = None,
    significance: OwnSignificance | None = None,
    level: Annotated[
        Literal["none", "light", "medium", "aggressive"] | None,
        Arg("how much may be left out; left out itself, the setting decides"),
    ] = None,
    context_id: ContextId | None = None,
) -> Answer:
    """Remember a long text by its summary. The whole text is kept in the archive, under `original_id`.

    Example: {"content": "We deployed twice. The second failed: a review was missing.", "memory_type": "outcome"}
    Answers: success memory_id compression_ratio key_facts compression_factor summary summary_by level original_id
        delivery reason
    """
    check_project(memory, project_id)
    if agent is not None and agent != memory.agent:
        speaks = "no agent" if memory.agent is None else f"the agent {shown(memory.agent)!r}"
        problem = f"this server speaks for {speaks}, not for {shown(agent)!r}"
        raise InvalidInput("agent", f"{problem}; leave it out, or start a server with --agent for the other")
    return await memory.compress_and_learn(content, memory_type, significance, level=level, context_id=context_id)


@verb("stats", "get_memory_stats", "lifecycle", title="See how memories do", reads=True)
def stats(memory: MemoryRouter) -> Answer:
    """See how many memories are in which tier and how strong they are.

    Example: {}
    Answers: success tier_counts promotions_last_hour demotions_last_hour hit_rate searches avg_surprise_score
        strength archived
    """
    return memory.stats()
