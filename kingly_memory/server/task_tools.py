"""The task tools: how likely is it to succeed, and how did it end."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from kingly_memory.server.arguments import ContextId, Metadata, Names, Seconds, Significance, Tags, Task
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.results import Assessed, Stored


class TaskTools:
    """Tools of the toolset `memory`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def assess_task_confidence(self, task_description: Task, context_id: ContextId = None) -> Assessed:
        """Estimate how likely a task is to succeed, by how similar ones ended. Call it before you begin.

        Example: {"task_description": "migrate the users table"}
        """
        router = await self._memory.get()
        return Assessed.of(await router.assess_confidence(task_description, context_id))

    async def record_task_outcome(
        self,
        *,
        task: Annotated[
            str,
            Field(
                description="What was to be done, in a sentence",
                validation_alias=AliasChoices("task", "task_description", "taskDescription"),
            ),
        ],
        status: Annotated[
            str, Field(description="How it ended", json_schema_extra={"enum": ["completed", "failed", "cancelled"]})
        ] = "completed",
        context_id: ContextId = None,
        approach: Annotated[str | None, Field(description="How it was done, or by whom")] = None,
        notes: Annotated[Names | None, Field(description="What was learnt on the way")] = None,
        reason: Annotated[str | None, Field(description="Why it failed or was cancelled")] = None,
        duration_s: Annotated[Seconds | None, Field(description="Seconds it took")] = None,
        significance: Significance = 0.6,
        tags: Tags = None,
        metadata: Annotated[Metadata | None, Field(description="Further facts")] = None,
    ) -> Stored:
        """Record how a task ended, failures too: assess_task_confidence learns from it.

        Example: {"task": "migrate the users table", "status": "failed", "reason": "a lock timed out"}
        """
        router = await self._memory.get()
        receipt = await router.record_task_outcome(
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
        return Stored.of(receipt)
