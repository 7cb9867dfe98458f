"""The thought tools: reasoning that is kept in its order, and links between memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kingly_memory.cognition.links import LinkType
from kingly_memory.server.arguments import ContextId, KeyOrId, Share, Significance
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.results import SHOWN_CHARACTERS, ChainStep, Linked, ThoughtRecorded

LATEST = 20
"""Thoughts of a chain that an answer holds."""


class ThoughtTools:
    """The tools of the toolset `thoughts`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def record_thought(
        self,
        *,
        content: Annotated[str, Field(description="The thought")],
        chain_id: Annotated[
            str | None, Field(description="The chain it goes on with; left out, a new one begins")
        ] = None,
        thought_type: Annotated[
            str, Field(description="Such as inference, hypothesis, evidence, decision")
        ] = "inference",
        parent_id: Annotated[str | None, Field(description="The thought it follows from, if not the last one")] = None,
        context_id: ContextId = None,
        significance: Significance = 0.5,
    ) -> ThoughtRecorded:
        """Record one step of reasoning; the answer holds the chain so far, in order.

        Example: {"content": "The cache is stale, since only reads after 10:00 fail", "thought_type": "hypothesis"}
        """
        router = await self._memory.get()
        thought = await router.record_thought(
            content,
            chain_id=chain_id,
            thought_type=thought_type,
            parent_id=parent_id,
            context_id=context_id,
            significance=significance,
        )
        chain = await router.thoughts(thought.chain_id)
        return ThoughtRecorded(
            id=thought.id,
            chain_id=thought.chain_id,
            thought_type=thought.thought_type,
            parent_id=thought.parent_id,
            position=thought.position,
            chain=[
                ChainStep(position=one.position, thought_type=one.thought_type, content=one.content[:SHOWN_CHARACTERS])
                for one in chain[-LATEST:]
            ],
            mcp_id=thought.receipt.remote_id,
            storage_layers=list(thought.receipt.layers),
            delivery=thought.receipt.delivery.value,
        )

    async def memory_link(
        self,
        *,
        source: KeyOrId,
        target: KeyOrId,
        link_type: Annotated[
            str,
            Field(description="What the source is to the target", json_schema_extra={"enum": [*LinkType]}),
        ] = "related",
        strength: Annotated[Share, Field(description="How strong the link is")] = 1.0,
        description: Annotated[str | None, Field(description="What the link means")] = None,
    ) -> Linked:
        """Link two memories, so that one is shown with the other.

        Example: {"source": "deploy", "target": "outage-march", "link_type": "follows"}
        """
        router = await self._memory.get()
        link = await router.link_memories(source, target, link_type, strength, description)
        return Linked.model_validate(link.to_json())
