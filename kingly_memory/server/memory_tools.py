"""The memory tools: store, search, get, forget, the working context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, Field

from kingly_memory.cognition.working import CURRENT
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, TTL, TYPE, required, shown
from kingly_memory.models import Memory
from kingly_memory.server.arguments import (
    BUDGET_TOKENS,
    BudgetTokens,
    ContextId,
    Detail,
    KeyOrId,
    KeysOrIds,
    Limit,
    MemoryKind,
    MemoryKinds,
    Metadata,
    Names,
    Share,
    Significance,
    Tags,
    Wait,
)
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.results import (
    GOT_CHARACTERS,
    ContextShown,
    Forgotten,
    Found,
    MemoryGot,
    MemoryShown,
    Stored,
)

if TYPE_CHECKING:  # read after the handshake
    from kingly_memory.app.opening import MemoryRouter


class MemoryTools:
    """Tools of the toolset `memory`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def memory_intelligent_store(
        self,
        *,
        content: Annotated[str, Field(description="What to remember, understandable on its own")],
        key: Annotated[
            str | None,
            Field(description="Only for what you may correct: storing a key again replaces its text"),
        ] = None,
        memory_type: MemoryKind = TYPE,
        significance: Significance = SIGNIFICANCE,
        context_id: ContextId = None,
        tags: Tags = None,
        title: Annotated[str | None, Field(description="A short title")] = None,
        confidence: Annotated[Share, Field(description="How sure it is")] = CONFIDENCE,
        metadata: Annotated[Metadata | None, Field(description="Further facts")] = None,
        origin: Annotated[
            Literal["agent", "tool", "web"],  # not user: only what a person's own command or prompt says is the user's
            Field(description="web or tool: copied from a web page or a tool's output"),
        ] = "agent",
        ttl: Annotated[
            float | str | None, Field(description="When it ends, from now: 30m, 12h, 7d, seconds, or never")
        ] = None,
        wait: Wait = None,
    ) -> Stored:
        """Store one fact, decision, preference or lesson. It is on this machine's disk when this returns.

        Example: {"key": "deploy", "content": "Deploys need two reviews", "significance": 0.8}
        """
        router = await self._memory.get()
        receipt = await router.store(
            content,
            key=None if key is None else required("key", key),
            type=memory_type,
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
        return Stored.of(receipt)

    async def memory_hybrid_search(
        self,
        *,
        query: Annotated[str, Field(description="What to look for, in plain words")],
        prefer_speed: Annotated[bool, Field(description="Ask the remote only if this machine finds nothing")] = False,
        include_semantic: Annotated[
            bool,
            Field(
                description="Ask the remote too",
                validation_alias=AliasChoices("include_semantic", "semantic"),
            ),
        ] = True,
        memory_types: Annotated[MemoryKinds | None, Field(description="Only these types")] = None,
        limit: Limit = 10,
        context_id: Annotated[str | None, Field(description="Only this conversation or task")] = None,
        agent: Annotated[str | None, Field(description="Only what this agent stored")] = None,
        tags: Annotated[Names | None, Field(description="Only with all of these tags")] = None,
        since: Annotated[str | None, Field(description="ISO 8601 date or time (UTC)")] = None,
        until: Annotated[str | None, Field(description="ISO 8601 time, or date with all of that day (UTC)")] = None,
        include_archived: Annotated[bool, Field(description="Search archived ones too")] = False,
        include_linked: Annotated[bool, Field(description="Show linked memories")] = False,
        detail: Detail = "full",
        budget_tokens: BudgetTokens = BUDGET_TOKENS,
    ) -> Found:
        """Find memories by words and meaning, best first. What exceeds the budget is shown as a passage or a title.

        Example: {"query": "who reviews a deploy", "limit": 5}
        """
        if not query.strip():
            raise InvalidInput("query", "is empty; say what to look for")
        router = await self._memory.get()
        found = await router.search(
            query,
            limit=limit,
            types=memory_types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            prefer_speed=prefer_speed,
            include_semantic=include_semantic,
            include_archived=include_archived,
            include_linked=include_linked,
            detail=detail,
            budget_tokens=budget_tokens,
        )
        return Found.of(found)

    async def memory_get_working_context(
        self,
        context_id: Annotated[str, Field(description="Left out: the last one")] = "current",
        include_related: Annotated[bool, Field(description="Show linked memories")] = True,
    ) -> ContextShown:
        """Read the latest memories of a conversation or task. Call it when you resume one.

        Example: {"context_id": "deploy-42"}
        """
        return await context_shown(await self._memory.get(), context_id, include_related)

    async def memory_get(self, key_or_id: KeysOrIds) -> MemoryGot:
        """Read whole memories by key or id.

        Example: {"key_or_id": "deploy"}
        """
        router = await self._memory.get()
        if isinstance(key_or_id, str):
            return MemoryGot(memory=MemoryShown.whole(_there(await router.get(key_or_id), key_or_id)))
        found = {name: await router.get(name) for name in key_or_id}
        return MemoryGot(
            memories=[MemoryShown.whole(memory, GOT_CHARACTERS) for memory in found.values() if memory is not None],
            missing=[name for name, memory in found.items() if memory is None],
        )

    async def memory_forget(self, key_or_id: KeyOrId) -> Forgotten:
        """Forget a memory, here and on the remote. A person can restore it.

        Example: {"key_or_id": "deploy"}
        """
        router = await self._memory.get()
        memory = _there(await router.forget(key_or_id), key_or_id)
        return Forgotten(id=memory.id, key=memory.key, restore=f"kingly-memory restore {memory.id}")


async def context_shown(router: MemoryRouter, context_id: str, include_related: bool = True) -> ContextShown:
    """What is at hand, for a tool or a resource. Raises InvalidInput when nothing is known of a context."""
    context = await router.working_context(context_id, include_related)
    if not len(context) and context.reason is None and context_id != CURRENT:
        problem = f"nothing is at hand in {shown(context_id)!r}: it is new, or was left too long ago"
        raise InvalidInput("context_id", f"{problem}. Search instead, or leave it out for the last one")
    return ContextShown.of(context)


def _there(memory: Memory | None, key_or_id: str) -> Memory:
    if memory is None:
        raise InvalidInput("key_or_id", f"nothing is stored under {shown(key_or_id)!r} in this project")
    return memory
