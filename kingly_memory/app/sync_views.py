"""The views of a router for code that does not await: the same methods and results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from kingly_memory.cognition.consensus import ConsensusMemory, ConsensusRecord, DissentRecord, SimilarDebate
from kingly_memory.cognition.continuum import LEAST_SIMILARITY, ConsolidationResult, MemoryEntry, Strategy
from kingly_memory.cognition.stream import NOW, MemoryEvent, MemoryStream, Subscription
from kingly_memory.errors import RouterClosed
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.tiers import USUAL_RELEVANCE
from kingly_memory.models import JsonObject, Receipt, Results, Tier
from kingly_memory.router.minds.continuum import ContinuumMemory

Call = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]
"""Begins something on the router's own thread and waits for it."""


class SyncMemoryStream:
    """See `MemoryStream`."""

    def __init__(self, stream: MemoryStream, call: Call) -> None:
        self._stream = stream
        self._call = call

    @property
    def agent(self) -> str:
        return self._stream.agent

    def record(self, event: MemoryEvent) -> Receipt:
        """See `MemoryStream.record`."""
        receipt: Receipt = self._call(lambda: self._stream.record(event))
        return receipt

    def recall(self, query: str, limit: int = 10) -> list[MemoryEvent]:
        """See `MemoryStream.recall`."""
        found: list[MemoryEvent] = self._call(lambda: self._stream.recall(query, limit))
        return found

    def events(self, limit: int = 100) -> list[MemoryEvent]:
        """See `MemoryStream.events`."""
        found: list[MemoryEvent] = self._call(lambda: self._stream.events(limit))
        return found

    def summarize(self, time_range: tuple[datetime | str | None, datetime | str | None]) -> str:
        """See `MemoryStream.summarize`."""
        text: str = self._call(lambda: self._stream.summarize(time_range))
        return text

    def subscribe(self, after: str = NOW, *, types: Sequence[str] | None = ("episodic",)) -> SyncSubscription:
        """See `MemoryStream.subscribe`; use it as `with` and `for`."""

        async def begin() -> Subscription:
            return self._stream.subscribe(after, types=types)

        return SyncSubscription(self._call(begin), self._call)


class SyncSubscription:
    """See `Subscription`. Each step waits for the next event; closing it, from any thread, ends the wait."""

    def __init__(self, subscription: Subscription, call: Call) -> None:
        self._subscription = subscription
        self._call = call

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MemoryEvent:
        async def step() -> MemoryEvent | None:
            return await anext(self._subscription, None)

        try:
            event: MemoryEvent | None = self._call(step)
        except RouterClosed:
            event = None
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """See `Subscription.aclose`."""
        try:
            self._call(self._subscription.aclose)
        except RouterClosed:
            return  # and so is this


class SyncConsensusMemory:
    """See `ConsensusMemory`."""

    def __init__(self, consensus: ConsensusMemory, call: Call) -> None:
        self._consensus = consensus
        self._call = call

    def store_consensus(self, record: ConsensusRecord) -> MemoryId:
        """See `ConsensusMemory.store_consensus`."""
        debate_id: MemoryId = self._call(lambda: self._consensus.store_consensus(record))
        return debate_id

    def store_dissent(self, record: DissentRecord) -> MemoryId:
        """See `ConsensusMemory.store_dissent`."""
        dissent_id: MemoryId = self._call(lambda: self._consensus.store_dissent(record))
        return dissent_id

    def find_similar(self, topic: str, limit: int = 5) -> list[SimilarDebate]:
        """See `ConsensusMemory.find_similar`."""
        found: list[SimilarDebate] = self._call(lambda: self._consensus.find_similar(topic, limit))
        return found

    def get_dissent_for_topic(self, topic_hash: str) -> list[DissentRecord]:
        """See `ConsensusMemory.get_dissent_for_topic`."""
        found: list[DissentRecord] = self._call(lambda: self._consensus.get_dissent_for_topic(topic_hash))
        return found


class SyncContinuumMemory:
    """See `ContinuumMemory`."""

    def __init__(self, continuum: ContinuumMemory, call: Call) -> None:
        self._continuum = continuum
        self._call = call

    def store(  # noqa: PLR0917  # the seed's signature
        self,
        content: str,
        tier: Tier = Tier.SLOW,
        importance: float = 0.5,
        source: str = "",
        topic: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """See `ContinuumMemory.store`."""
        stored: MemoryEntry = self._call(
            lambda: self._continuum.store(content, tier, importance, source, topic, metadata)
        )
        return stored

    def retrieve(
        self,
        query: str,
        tiers: Sequence[Tier] | None = None,
        limit: int = 5,
        min_similarity: float = LEAST_SIMILARITY,
        strategy: str = Strategy.WEIGHTED,
    ) -> list[MemoryEntry]:
        """See `ContinuumMemory.retrieve`."""
        found: list[MemoryEntry] = self._call(
            lambda: self._continuum.retrieve(query, tiers, limit, min_similarity, strategy)
        )
        return found

    def entry(self, memory_id: str) -> MemoryEntry | None:
        """See `ContinuumMemory.entry`."""
        found: MemoryEntry | None = self._call(lambda: self._continuum.entry(memory_id))
        return found

    def update_outcome(
        self,
        memory_ids: Iterable[str | MemoryEntry] | MemoryEntry,
        success: bool,
        *,
        actual_usefulness: float | None = None,
        predicted_relevance: float = USUAL_RELEVANCE,
    ) -> int:
        """See `ContinuumMemory.update_outcome`."""
        count: int = self._call(
            lambda: self._continuum.update_outcome(
                memory_ids,
                success,
                actual_usefulness=actual_usefulness,
                predicted_relevance=predicted_relevance,
            )
        )
        return count

    def update_surprise_score(
        self, memory_id: str | MemoryEntry, retrieval_context: Mapping[str, float] | None = None
    ) -> float:
        """See `ContinuumMemory.update_surprise_score`."""
        surprise: float = self._call(lambda: self._continuum.update_surprise_score(memory_id, retrieval_context))
        return surprise

    def needs_consolidation(self) -> bool:
        """See `ContinuumMemory.needs_consolidation`."""
        is_needed: bool = self._call(self._continuum.needs_consolidation)
        return is_needed

    def consolidate_memories(self) -> ConsolidationResult:
        """See `ContinuumMemory.consolidate_memories`."""
        result: ConsolidationResult = self._call(self._continuum.consolidate_memories)
        return result

    def get_memory_stats(self) -> JsonObject:
        """See `ContinuumMemory.get_memory_stats`."""
        stats: JsonObject = self._call(self._continuum.get_memory_stats)
        return stats

    def search(self, query: str, limit: int = 10, **how: Any) -> Results:
        """See `ContinuumMemory.search`."""
        results: Results = self._call(lambda: self._continuum.search(query, limit, **how))
        return results
