"""Holding memories against fading, seeing what has faded, learning texts, sweeping: under the names of the designs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from kingly_memory.errors import InvalidInput
from kingly_memory.intake import SIGNIFICANCE, shown
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.server.alma_tools import ProjectId, check_project
from kingly_memory.server.arguments import ContextId, KeyOrId, Names, Significance
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.lifecycle_results import (
    Compacted,
    LessonShown,
    MemoryStats,
    Reinforced,
    Restored,
    Swept,
    Weak,
)
from kingly_memory.server.results import Status

Agent = Annotated[str | None, Field(description="Only what this agent stored")]


class AlmaUpkeepTools:
    """Tools of the toolset `alma`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def alma_reinforce(
        self,
        memory_id: Annotated[
            str,
            Field(
                description="Id or key of the memory", validation_alias=AliasChoices("memory_id", "key_or_id", "key")
            ),
        ],
    ) -> Reinforced:
        """Hold a memory against fading: it was right, and will be needed again.

        Example: {"memory_id": "deploy"}
        """
        router = await self._memory.get()
        return Reinforced.of(await router.reinforce(memory_id))

    async def alma_get_weak_memories(
        self,
        *,
        project_id: ProjectId = None,
        agent: Agent = None,
        include_recoverable: Annotated[bool, Field(description="Also those that using them brings back")] = True,
    ) -> Weak:
        """See which memories have faded and may be forgotten. Looking at them is no use of them.

        Example: {"include_recoverable": true}
        """
        router = await self._memory.get()
        check_project(project_id, router.project)
        return Weak.of(await router.weak(agent), include_recoverable=include_recoverable)

    async def alma_compress_and_learn(
        self,
        *,
        content: Annotated[str, Field(description="A verbose text: a log of what was done, a report, a discussion")],
        memory_type: Annotated[
            str,
            Field(
                description="outcome (what happened), knowledge (facts) or heuristic (how to do it)",
                json_schema_extra={"enum": ["outcome", "knowledge", "heuristic"]},
            ),
        ] = "outcome",
        project_id: ProjectId = None,
        agent: Annotated[str | None, Field(description="Who learns; this server speaks for one agent only")] = None,
        significance: Significance = SIGNIFICANCE,
        level: Annotated[
            Literal["none", "light", "medium", "aggressive"] | None,
            Field(description="How much may be left out; left out itself, the setting decides"),
        ] = None,
        context_id: ContextId = None,
    ) -> LessonShown:
        """Remember a long text by its summary. The whole text is kept in the archive, under `original_id`.

        Example: {"content": "We deployed twice. The second failed: a review was missing.", "memory_type": "outcome"}
        """
        router = await self._memory.get()
        check_project(project_id, router.project)
        _check_agent(agent, router.agent)
        lesson = await router.compress_and_learn(content, memory_type, significance, level=level, context_id=context_id)
        return LessonShown.of(lesson)


class LifecycleTools:
    """The tools of the toolset `lifecycle`."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def memory_sweep(
        self,
        *,
        policies: Annotated[
            Names | None,
            Field(description="lifetimes, merging, strength, tiers; left out, lifetimes and what settings switch on"),
        ] = None,
        dry_run: Annotated[bool, Field(description="Only say what would happen; false carries it out")] = True,
    ) -> Swept:
        """See what a sweep would archive, erase, merge and move, and why; then carry it out with dry_run false. What is
        archived can be restored.

        Example: {"policies": ["strength"], "dry_run": true}
        """
        router = await self._memory.get()
        return Swept.of(await router.sweep(policies, dry_run))

    async def memory_restore(self, key_or_id: KeyOrId) -> Restored:
        """Bring a forgotten or archived memory back.

        Example: {"key_or_id": "deploy"}
        """
        router = await self._memory.get()
        memory = await router.restore(key_or_id)
        if memory is None:
            raise InvalidInput("key_or_id", f"nothing was ever stored under {shown(key_or_id)!r} in this project")
        return Restored.of(memory)

    async def memory_status(self) -> Status:
        """See how many memories there are, whether the remote is connected, and what waits for it.

        Example: {}
        """
        router = await self._memory.get()
        return Status.model_validate(await router.status())

    async def get_memory_stats(self) -> MemoryStats:
        """See how many memories are in which tier and how strong they are.

        Example: {}
        """
        router = await self._memory.get()
        return MemoryStats.model_validate(await router.stats())


class AiTools:
    """The tools of the toolset `ai`."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def ai_compact(
        self,
        *,
        strategy: Annotated[
            str,
            Field(
                description="gentle (merges above 0.95, archives after 30 days, keeps 50), normal (0.85, 14 days, 30) "
                "or aggressive (0.75, 7 days, 15)",
                json_schema_extra={"enum": list(COMPACTION_STRATEGIES)},
            ),
        ] = NORMAL,
        dry_run: Annotated[bool, Field(description="Only say what would happen")] = False,
    ) -> Compacted:
        """Make room when there are too many threads: merge those alike, archive idle and excess ones, make the others
        lighter. A thread is what was said in one context. Nothing is lost: memory_restore brings memories back.

        Example: {"strategy": "aggressive", "dry_run": true}
        """
        router = await self._memory.get()
        return Compacted.model_validate(await router.compact(strategy, dry_run))


def _check_agent(agent: str | None, own: str | None) -> None:
    if agent is not None and agent != own:
        speaks = "no agent" if own is None else f"the agent {shown(own)!r}"
        problem = f"this server speaks for {speaks}, not for {shown(agent)!r}"
        raise InvalidInput("agent", f"{problem}; leave it out, or start a server with --agent for the other")
