"""A debate in its phases: what is known comes in, critiques are at hand while it goes on, and what it came to is kept
(seed 003)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kingly_memory import validation
from kingly_memory.cognition.consensus import ConsensusRecord, DissentRecord, SimilarDebate, topic_hash
from kingly_memory.cognition.continuum import ConsolidationResult, MemoryEntry
from kingly_memory.cognition.stream import MemoryEvent
from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.models import Tier
from kingly_memory.router.agents.consensus import ConsensusMemory
from kingly_memory.router.agents.continuum import ContinuumMemory
from kingly_memory.router.agents.stream import MemoryStream

CRITIQUE_IMPORTANCE = 0.8
OUTCOME_IMPORTANCE = 0.7
OWN_STREAM = 0.2
"""The significance of a critique in its agent's stream: so little that it is not found twice, nor sent to a remote."""


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """What is known when a debate begins: memories from SLOW and MEDIUM, best first, and earlier debates like it."""

    memories: Sequence[MemoryEntry]
    debates: Sequence[SimilarDebate]


@dataclass(frozen=True, slots=True)
class Concluded:
    """What a conclusion did. `served`: memories that were referred to; `consolidation`: None where no tier was full."""

    debate_id: MemoryId
    outcome: MemoryEntry
    served: int
    consolidation: ConsolidationResult | None


class Debate:
    """One debate about a topic. `begin` it, let agents `criticise` and `hear` in each round, and `conclude`."""

    def __init__(
        self,
        topic: str,
        continuum: ContinuumMemory,
        consensus: ConsensusMemory,
        stream: Callable[[str], MemoryStream],
    ) -> None:
        self.topic = validation.required("topic", topic)
        self.rounds = 0
        self._continuum = continuum
        self._consensus = consensus
        self._stream = stream
        self._referenced: dict[MemoryId, MemoryEntry] = {}

    def __repr__(self) -> str:
        return f"<Debate topic={self.topic!r} rounds={self.rounds}>"

    async def begin(self, limit: int = 3) -> KnownBefore:
        """Phase 0: what the slower tiers know of the topic, `limit` memories at most, and earlier debates like it. What
        comes in counts as referred to. Raises InvalidInput."""
        memories = await self._continuum.retrieve(self.topic, [Tier.SLOW, Tier.MEDIUM], limit=limit)
        debates = await self._consensus.find_similar(self.topic, limit=limit)
        self._referenced |= {entry.id: entry for entry in memories}
        return KnownBefore(memories, debates)

    async def criticise(self, agent: str, text: str, importance: float = CRITIQUE_IMPORTANCE) -> MemoryEntry:
        """Phase 2: keep a critique in FAST, and in the agent's own stream. Raises InvalidInput, StoreError."""
        entry = await self._continuum.store(text, Tier.FAST, importance, source=agent, topic=self.topic)
        await self._stream(agent).record(MemoryEvent(text, kind="critique", significance=OWN_STREAM))
        return entry

    async def hear(self, limit: int = 5) -> list[MemoryEntry]:
        """Phase 2: the critiques of this topic that are at hand, best first; each call is a round."""
        self.rounds += 1
        critiques = await self._continuum.retrieve(self.topic, [Tier.FAST], limit=limit, strategy="fast_first")
        heard = [entry for entry in critiques if topic_hash(entry.topic or "-") == topic_hash(self.topic)]
        self._referenced |= {entry.id: entry for entry in heard}
        return heard

    async def judge(self, entry: MemoryEntry, usefulness: float) -> float:
        """Phase 2: say how useful (0 to 1) a critique was that was heard; more than it promised is a surprise, whose
        average (0 to 1) is answered. Raises InvalidInput, StoreError."""
        figures = {"predicted_relevance": entry.similarity or 0.0, "actual_usefulness": usefulness}
        return await self._continuum.update_surprise_score(entry, figures)

    async def conclude(
        self,
        conclusion: str,
        *,
        agreeing: Sequence[str] = (),
        dissents: Mapping[str, str] | None = None,
        confidence: float = 0.5,
        success: bool = True,
    ) -> Concluded:
        """Phase 7: the outcome goes to SLOW and into the memory of debates, with the objection of each agent that
        dissents. What came in and was heard has served, and a tier that is too full is consolidated. Raises
        InvalidInput, StoreError."""
        agreeing, objections = validation.texts("agreeing", agreeing), dict(dissents or {})
        referenced = list(self._referenced.values())
        record = ConsensusRecord(
            self.topic,
            conclusion,
            confidence=confidence,
            agreeing_agents=agreeing,
            participating_agents=(*agreeing, *objections),
            rounds=max(self.rounds, 1),
            key_claims=[entry.content for entry in referenced],
        )
        outcome = await self._continuum.store(
            f"{self.topic} {conclusion}", Tier.SLOW, OUTCOME_IMPORTANCE, source="debate", topic=self.topic
        )
        debate_id = await self._consensus.store_consensus(record)
        for agent, objection in objections.items():
            await self._consensus.store_dissent(DissentRecord(debate_id, agent, objection))
        served = await self._continuum.update_outcome(referenced, success=success) if referenced else 0
        full = await self._continuum.needs_consolidation()
        done = await self._continuum.consolidate_memories() if full else None
        return Concluded(debate_id, outcome, served, done)
