"""Guiding what is put into prompts: focus, pins and ratings, under the names of the design."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from kingly_memory.attention.focus import WEIGHT
from kingly_memory.attention.pins import BOOST
from kingly_memory.server.arguments import Names, Number
from kingly_memory.server.lazy_router import LazyRouter

Message = Annotated[str, Field(description="What happened, in a sentence")]
ThreadId = Annotated[str, Field(description="Id of a thread, or key or id of a memory in it")]


class FocusSet(BaseModel):
    """What is in focus now."""

    success: bool = True
    message: Message
    topic: str
    weight: Annotated[float, Field(description="From 0 to 1, after clamping")]
    affected_threads: Annotated[int, Field(description="Threads that it lifts")]
    more: Annotated[bool, Field(description="True: there may be more of them than were counted")]
    clamped: Annotated[bool, Field(description="True: the weight that was asked for was outside 0 to 1")]
    thread_id: Annotated[str | None, Field(description="The thread that the topic names, if it names one")] = None


class FocusCleared(BaseModel):
    """What is no longer in focus, and what still is."""

    success: bool = True
    message: Message
    cleared: list[str]
    active_focus: Annotated[list[str], Field(description="Topics that are still in focus")]
    for_everyone: Annotated[list[str], Field(description="Those cleared that held for every agent")] = []


class PinSet(BaseModel):
    """The thread that was pinned, and its memory."""

    success: bool = True
    message: Message
    thread_id: str
    memory_id: str
    title: str | None
    weight: float
    clamped: Annotated[bool, Field(description="True: the boost that was asked for was outside 0 to 0.5")]
    storage_layers: list[str]


class PinTaken(BaseModel):
    """The thread that is no longer pinned."""

    success: bool = True
    message: Message
    thread_id: str
    memories: Annotated[int, Field(description="How many memories of it were pinned")]


class ContextRated(BaseModel):
    """How relevant the thread counts now."""

    success: bool = True
    message: Message
    thread_id: str
    useful: bool
    relevance_before: float
    relevance_score: Annotated[float, Field(description="From 0.1 to 1: its priority is multiplied by this")]
    raw_score: Annotated[float, Field(description="The weighted mean of the last ten ratings by themselves")]
    ratings: Annotated[int, Field(description="How many there are")]
    reason: str | None
    replaced: Annotated[bool, Field(description="True: in place of the last rating; nothing was put in since")]


class AttentionTools:
    """Tools of the toolset `ai`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def ai_focus(
        self,
        topic: Annotated[str, Field(description="A topic in a word or two, or the id of a thread or key of a note")],
        weight: Annotated[Number, Field(description="How strongly, from 0 to 1")] = WEIGHT,
    ) -> FocusSet:
        """Say what you work on: threads about it are put into prompts first, until ai_unfocus. Again updates the
        weight.

        Example: {"topic": "authentication", "weight": 0.8}
        """
        router = await self._memory.get()
        return FocusSet.model_validate((await router.attention.focus(topic, weight)).to_json())

    async def ai_unfocus(
        self,
        topic: Annotated[str | None, Field(description="Left out, all focus is cleared")] = None,
    ) -> FocusCleared:
        """Take the focus off a topic, or off everything that holds for you, also where others have set it for all.

        Example: {"topic": "authentication"}
        """
        router = await self._memory.get()
        return FocusCleared.model_validate((await router.attention.unfocus(topic)).to_json())

    async def ai_pin(
        self,
        content: Annotated[str, Field(description="What to keep in view; stored as it is")],
        title: Annotated[str | None, Field(description="Left out, its first sentence")] = None,
        topics: Annotated[Names | None, Field(description="Words to find it by")] = None,
        weight_boost: Annotated[Number, Field(description="Weight beyond that of others, from 0 to 0.5")] = BOOST,
    ) -> PinSet:
        """Keep something important: a new thread that weighs more, and that nothing takes away until ai_unpin. Sessions
        that begin with a hook of the same agent begin with it; beside a prompt it must fit like anything else.

        Example: {"content": "User prefers dark mode", "title": "User preferences", "topics": ["preferences", "ui"]}
        """
        router = await self._memory.get()
        return PinSet.model_validate((await router.attention.pin(content, title, topics, weight_boost)).to_json())

    async def ai_unpin(self, thread_id: ThreadId) -> PinTaken:
        """Let a pinned thread be as any other. Nothing that was said in it is lost.

        Example: {"thread_id": "thread_20260201_083000_abc123"}
        """
        router = await self._memory.get()
        return PinTaken.model_validate((await router.attention.unpin(thread_id)).to_json())

    async def ai_rate_context(
        self,
        thread_id: ThreadId,
        useful: Annotated[bool, Field(description="True: it helped; false: it was noise")],
        reason: Annotated[str | None, Field(description="Why, in a sentence; it is kept")] = None,
    ) -> ContextRated:
        """Say whether a note that a hook or memory_inject has put into a prompt helped: later prompts get more or less
        of its thread. Once for each session that it was put into.

        Example: {"thread_id": "thread_20260201_083000_abc123", "useful": false, "reason": "API was redesigned"}
        """
        router = await self._memory.get()
        return ContextRated.model_validate((await router.attention.rate(thread_id, useful, reason)).to_json())
