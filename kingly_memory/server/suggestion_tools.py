"""What might be done about threads, under the name of the design."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from kingly_memory.server.lazy_router import LazyRouter


class MergeCandidate(BaseModel):
    thread_a: Annotated[str, Field(description="The one that goes on")]
    thread_b: str
    similarity: Annotated[float, Field(description="Of their topics, above 0.85")]
    reason: str
    command: str


class SplitCandidate(BaseModel):
    thread_id: str
    reason: str
    topics_to_split: list[str]
    command: str


class RecallHint(BaseModel):
    topic: str
    last_mentioned: str
    thread_count: Annotated[int, Field(description="Active threads on that topic")]
    command: str


class Health(BaseModel):
    active_threads: int
    total_weight: float
    context_pressure: Annotated[float, Field(description="Total weight ÷ 10, at most 1: ten fresh threads reach it")]
    utilisation: Annotated[float, Field(description="Active threads ÷ the 30 that a normal compaction leaves")]
    recommendation: str


class MoreSuggestions(BaseModel):
    merge_candidates: int
    split_candidates: int


class SuggestionsShown(BaseModel):
    """What might be done; nothing was changed. Each command is a tool call."""

    merge_candidates: list[MergeCandidate]
    split_candidates: list[SplitCandidate]
    recall_hints: Annotated[list[RecallHint], Field(description="Never recalled, by likeness to the context")]
    health: Health
    more: Annotated[MoreSuggestions, Field(description="How many there are beyond the ten shown of each")]
    unread: Annotated[int, Field(description="Active threads that were not looked at")]


WITHIN_S = 2.0
"""A host waits longer than a program. At its first call a process reads some hundred threads in that time; `unread`
says how many are left."""


class SuggestionTools:
    """The tool of the toolset `ai` that only looks; its docstring is what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def ai_suggestions(
        self,
        context: Annotated[
            str | None, Field(description="What is being worked on, in a few words: hints what to recall for it")
        ] = None,
    ) -> SuggestionsShown:
        """See which threads to merge, split or recall, and whether there are too many. Changes nothing. The latest
        1,000 threads are looked at.

        Example: {"context": "working on authentication"}
        """
        router = await self._memory.get()
        return SuggestionsShown.model_validate((await router.threads.suggestions(context, WITHIN_S)).to_json())
