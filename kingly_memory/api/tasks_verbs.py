"""Working contexts, tasks and what came of them, chains of thought, links."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import (
    Answer,
    Arg,
    ContextId,
    Facts,
    KeyOrId,
    MemoryRouter,
    OwnTags,
    Significance,
    verb,
)

TASKS = ("task_description", "taskDescription", "task")
"""The names of the seeds for a task."""


@verb("context", "memory_get_working_context", "memory", title="Read the working context", reads=True)
def context(
    memory: MemoryRouter,
    context_id: Annotated[str, Arg("left out: the last one worked in", "ID")] = "current",
    include_related: Annotated[bool, Arg("show linked memories", only="tool")] = True,
) -> Answer:
    """Read the latest memories of a conversation or task. Call it when you resume one.

    Example: {"context_id": "deploy-42"}
    Answers: working_memory local_state context_id last_updated memory_count related_memories source tokens whispers
        reason
    """
    return memory.working_context(context_id, include_related)


@verb("task record", "record_task_outcome", "memory", title="Record how a task ended")
def record(
    memory: MemoryRouter,
    task: Annotated[str, Arg("what was to be done, in a sentence", also=TASKS)],
    *,
    status: Annotated[str, Arg("how it ended", choices=("completed", "failed", "cancelled"))] = "completed",
    context_id: ContextId | None = None,
    approach: Annotated[str | None, Arg("how it was done, or by whom", "NAME")] = None,
    notes: Annotated[list[str] | None, Arg("what was learnt on the way", "TEXT", option="note")] = None,
    reason: Annotated[str | None, Arg("why it failed or was cancelled", "TEXT")] = None,
    duration_s: Annotated[float | None, Arg("seconds it took", "S", option="duration", least=0)] = None,
    significance: Significance = 0.6,
    tags: OwnTags | None = None,
    metadata: Facts | None = None,
) -> Answer:
    """Record how a task ended, failures too: later assessments learn from it.

    Example: {"task": "migrate the users table", "status": "failed", "reason": "a lock timed out"}
    Answers: success local_id mcp_id storage_layers key revision delivery reason ends_at
    """
    return memory.record_task_outcome(
        task,
        status,
        context_id=context_id,
        approach=approach,
        notes=notes or (),
        reason=reason,
        duration_s=duration_s,
        significance=significance,
        tags=tags or (),
        metadata=metadata,
    )


@verb("confidence", "assess_task_confidence", "memory", title="Assess a task")
def confidence(
    memory: MemoryRouter,
    task: Annotated[
        str, Arg("what is to be done, in a sentence", tool="task_description", also=TASKS, is_sentence=True)
    ],
    *,
    context_id: ContextId | None = None,
) -> Answer:
    """Estimate how likely a task is to succeed, by how similar ones ended. Call it before you begin.

    Example: {"task_description": "migrate the users table"}
    Answers: confidence confidence_factors similar_tasks_count memory_informed interval evidence assessment_id
        source context
    """
    return memory.assess_confidence(task, context_id)


@verb("task route", reads=True)
def route(
    memory: MemoryRouter,
    task: Annotated[str, Arg("what is to be done")],
    candidates: Annotated[list[str], Arg("who or what could do it", "CANDIDATE", option="candidate")],
) -> Answer:
    """Rank candidates (agents or approaches) by what came of similar tasks."""
    return memory.route_task(task, candidates)


@verb("thought record", "record_thought", "thoughts", title="Record a thought")
def think(
    memory: MemoryRouter,
    content: Annotated[str, Arg("the thought")],
    *,
    chain_id: Annotated[str | None, Arg("the chain it goes on with; left out, a new one begins", "ID", "chain")] = None,
    thought_type: Annotated[
        str, Arg("such as inference, hypothesis, evidence, decision", "TYPE", "type")
    ] = "inference",
    parent_id: Annotated[
        str | None, Arg("the thought it follows from, if not the last one", "ID", option="parent")
    ] = None,
    context_id: ContextId | None = None,
    significance: Significance = 0.5,
) -> Answer:
    """Record one step of reasoning; the answer holds the chain so far, in order.

    Example: {"content": "The cache is stale, since only reads after 10:00 fail", "thought_type": "hypothesis"}
    Answers: success id chain_id thought_type parent_id position chain mcp_id storage_layers delivery
    """
    return memory.record_thought(
        content,
        chain_id=chain_id,
        thought_type=thought_type,
        parent_id=parent_id,
        context_id=context_id,
        significance=significance,
    )


@verb("thought list", reads=True)
def thoughts(memory: MemoryRouter, chain_id: Annotated[str, Arg("id of the chain", "CHAIN", "chain")]) -> Answer:
    """Show a chain of thoughts in its order."""
    return memory.thoughts(chain_id)


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
