"""What the project's debates came to: stored with those who would not agree, and found again by topic."""

from __future__ import annotations

from collections.abc import Iterable

from kingly_memory import validation
from kingly_memory.cognition import links
from kingly_memory.cognition.consensus import (
    CONSENSUS,
    DEBATE_TAG,
    DISSENT,
    TOPIC_TAG,
    ConsensusRecord,
    DissentRecord,
    SimilarDebate,
    checked_hash,
    consensus_draft,
    consensus_of,
    dissent_draft,
    dissent_of,
    topic_hash,
)
from kingly_memory.cognition.outcomes import spoken
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, Query
from kingly_memory.ports import Transaction
from kingly_memory.router import linking, write
from kingly_memory.router.engine import Engine
from kingly_memory.router.view import pages
from kingly_memory.router.write import Stored


class ConsensusMemory:
    """What the project's debates came to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def store_consensus(self, record: ConsensusRecord) -> MemoryId:
        """Store what a debate came to; its id is the `debate_id` of its dissents. Raises InvalidInput, StoreError."""
        receipt = await self._engine.put(consensus_draft(record))
        return receipt.id

    async def store_dissent(self, record: DissentRecord) -> MemoryId:
        """Store a dissent from a consensus, and link it to that (`contradicts`). Raises InvalidInput, StoreError."""
        if not isinstance(record, DissentRecord):
            raise InvalidInput("record", f"expected a DissentRecord, not {type(record).__name__}")
        debate_id = validation.required("debate_id", record.debate_id)
        context = self._engine.write_context()

        def change(transaction: Transaction) -> Stored:
            debate = write.present(transaction, context.space, debate_id, "debate_id").memory
            stored = write.store(dissent_draft(record, debate), context, noted=False)(transaction)
            linking.link(stored.receipt.id, debate.id, links.draft("contradicts"), context)(transaction)
            return stored

        return (await self._engine.keep(change)).id

    async def find_similar(self, topic: str, limit: int = 5) -> list[SimilarDebate]:
        """Earlier debates of the same topic, the latest first, then those that are like it, best first, with their
        dissents. All that ever were are searched. Raises InvalidInput."""
        request = validation.query(spoken("topic", topic), space=self._engine.space, limit=limit, tags=[CONSENSUS])
        topic_tag = TOPIC_TAG + topic_hash(topic)
        same = _in_time(await self._tagged(CONSENSUS, topic_tag))
        ranked = [(memory, 1.0) for memory in reversed(same)]
        if (room := request.limit - len(ranked)) > 0:
            unlike = replace(request, limit=room, without_tags=frozenset({topic_tag}))
            wide = replace(unlike, include_archived=True, neighbours=False, include_semantic=False)
            ranked += [(hit.memory, hit.relevance) for hit in await self._engine.find(wide, is_search=True)]
        debates = [
            (record, similarity) for memory, similarity in ranked if (record := consensus_of(memory)) is not None
        ]
        return [
            SimilarDebate(record, alike, tuple(_dissents(await self._tagged(DISSENT, f"{DEBATE_TAG}{record.id}"))))
            for record, alike in debates[: request.limit]
        ]

    async def get_dissent_for_topic(self, topic_hash: str) -> list[DissentRecord]:
        """All dissents from debates of a topic, oldest first, none when there are none. `topic_hash(topic)` of
        `cognition.consensus` makes the digest. Raises InvalidInput for what is no digest."""
        return _dissents(await self._tagged(DISSENT, TOPIC_TAG + checked_hash(topic_hash)))

    async def _tagged(self, *tags: str) -> list[Memory]:
        """The project's live and archived memories with all of those tags, in the order they were stored."""
        query = Query("", self._engine.space, tags=tags)
        return await self._engine.read(lambda: [row.memory for row in pages(self._engine.reader, query)])


def _dissents(memories: Iterable[Memory]) -> list[DissentRecord]:
    return [record for memory in _in_time(memories) if (record := dissent_of(memory)) is not None]


def _in_time(memories: Iterable[Memory]) -> list[Memory]:
    """Oldest first; of one instant, in the order they were stored."""
    return sorted(memories, key=lambda one: one.created_at)
