"""What debates came to, and who would not agree: records that are found again by topic (seed 003, ConsensusMemory).

Both are semantic memories of the project, told apart by `metadata.record`. Digests of topic and debate are among their
tags, so that the index finds all of a topic whatever was stored since. At the significance they have unless told
otherwise no sweep takes them; archived ones are found too, forgotten ones are not.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from kingly_memory import intake
from kingly_memory.cognition import links
from kingly_memory.cognition.links import LinkDraft
from kingly_memory.cognition.outcomes import spoken
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import KEY_LIMIT, Draft
from kingly_memory.models import JsonObject, Memory, MemoryType, Receipt
from kingly_memory.ports import Searcher, Writer

CONSENSUS, DISSENT = "consensus", "dissent"
"""What `metadata.record` of the two says, and one of their tags."""
TOPIC_TAG, DEBATE_TAG = "topic:", "debate:"
"""Begin the tags that name the digest of a topic, and the consensus that a dissent is from."""

SIGNIFICANCE = 0.8
"""From which nothing but its owner takes a memory away."""
HASH_LENGTH = 32
RECORD_LIMIT_BYTES = 60_000
"""Of one record as JSON: it lies beside the text that is searched."""
MOST_ROUNDS = 1_000_000

_ENDS = " .!?…。！？"


@dataclass(frozen=True, slots=True)
class ConsensusRecord:
    """What a debate came to. `confidence` and `significance` are 0 to 1; without `participating_agents`, those that
    agreed took part. `timestamp`: naive is UTC, None is when it is stored. Whoever stores leaves out `id`."""

    topic: str
    conclusion: str
    confidence: float = 0.5
    agreeing_agents: Sequence[str] = ()
    participating_agents: Sequence[str] = ()
    rounds: int = 1
    key_claims: Sequence[str] = ()
    tags: Sequence[str] = ()
    significance: float = SIGNIFICANCE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None
    id: MemoryId | None = None

    @property
    def topic_hash(self) -> str:
        return topic_hash(self.topic)

    @property
    def agreement(self) -> float:
        """The share of those who took part that agreed; 1.0 when nobody is named."""
        return len(self.agreeing_agents) / len(self.participating_agents) if self.participating_agents else 1.0


@dataclass(frozen=True, slots=True)
class DissentRecord:
    """Who would not agree, and why. `debate_id` is what `store_consensus` answered. Whoever stores leaves out `topic`,
    which is that of the debate, and `id`."""

    debate_id: str
    agent: str
    content: str
    dissent_type: str = "disagreement"
    reasoning: str = ""
    confidence: float = 0.5
    acknowledged: bool = False
    rebuttal: str = ""
    tags: Sequence[str] = ()
    significance: float = SIGNIFICANCE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None
    topic: str = ""
    id: MemoryId | None = None

    @property
    def topic_hash(self) -> str:
        return topic_hash(self.topic)


@dataclass(frozen=True, slots=True)
class SimilarDebate:
    """An earlier consensus, how much like the topic asked about (0 to 1, 1 for the same topic), and its dissents,
    oldest first."""

    consensus: ConsensusRecord
    similarity: float
    dissents: tuple[DissentRecord, ...]


class Shelf(Protocol):
    """Where records are kept and found by their tags."""

    async def keep_beside(self, key_or_id: str, make: Callable[[Memory], Draft], said: LinkDraft) -> Receipt:
        """Store what `make` says of a memory, live or archived, with a link from it to that memory: both or neither.
        Raises InvalidInput for `debate_id` when there is none, StoreError, and what `make` raises."""
        ...

    async def tagged(self, *tags: str) -> list[Memory]:
        """The project's live and archived memories with all of those tags, in the order they were stored."""
        ...


class ConsensusMemory:
    """What the project's debates came to."""

    def __init__(
        self, *, project: str, searcher: Searcher, writer: Writer, shelf: Shelf, content_limit_bytes: int
    ) -> None:
        self._project = project
        self._searcher = searcher
        self._writer = writer
        self._shelf = shelf
        self._content_limit_bytes = content_limit_bytes

    async def store_consensus(self, record: ConsensusRecord) -> MemoryId:
        """Store what a debate came to; its id is the `debate_id` of its dissents. Raises InvalidInput, StoreError."""
        receipt = await self._writer.put(consensus_draft(record, content_limit_bytes=self._content_limit_bytes))
        return receipt.id

    async def store_dissent(self, record: DissentRecord) -> MemoryId:
        """Store a dissent from a consensus, and link it to that (`contradicts`). Raises InvalidInput, StoreError."""
        if not isinstance(record, DissentRecord):
            raise InvalidInput("record", f"expected a DissentRecord, not {type(record).__name__}")

        def make(debate: Memory) -> Draft:
            return dissent_draft(record, debate, content_limit_bytes=self._content_limit_bytes)

        said = links.draft("contradicts")
        receipt = await self._shelf.keep_beside(intake.required("debate_id", record.debate_id), make, said)
        return receipt.id

    async def find_similar(self, topic: str, limit: int = 5) -> list[SimilarDebate]:
        """Earlier debates of the same topic, the latest first, then those that are like it, best first, with their
        dissents. All that ever were are searched. Raises InvalidInput."""
        asked = intake.query(spoken("topic", topic), project=self._project, limit=limit, tags=[CONSENSUS])
        topic_tag = TOPIC_TAG + topic_hash(topic)
        same = await self._shelf.tagged(CONSENSUS, topic_tag)
        found = [(memory, 1.0) for memory in reversed(_in_time(same))]
        if (room := asked.limit - len(found)) > 0:
            others = replace(asked, limit=room, without_tags=frozenset({topic_tag}))
            wide = replace(others, include_archived=True, neighbours=False)
            found += [(hit.memory, hit.relevance) for hit in await self._searcher.find(wide, include_semantic=False)]
        debates = [(record, similarity) for memory, similarity in found if (record := consensus_of(memory)) is not None]
        return [
            SimilarDebate(record, alike, await self._dissents(record.id)) for record, alike in debates[: asked.limit]
        ]

    async def get_dissent_for_topic(self, topic_hash: str) -> list[DissentRecord]:
        """All dissents from debates of a topic, oldest first, none when there are none. `topic_hash(topic)` of this
        module makes the digest. Raises InvalidInput for what is no digest."""
        return _dissents(await self._shelf.tagged(DISSENT, TOPIC_TAG + _checked_hash(topic_hash)))

    async def _dissents(self, debate_id: MemoryId | None) -> tuple[DissentRecord, ...]:
        return tuple(_dissents(await self._shelf.tagged(DISSENT, f"{DEBATE_TAG}{debate_id}")))


def topic_hash(topic: str) -> str:
    """A digest of a topic, the same in every process. Large and small letters, room between words, and the mark that
    ends it make no difference; what stands within it does: `C` is not `C++`. Raises InvalidInput for what is no text.
    """
    if not isinstance(topic, str):
        raise InvalidInput("topic", f"expected text, not {type(topic).__name__}")
    plain = unicodedata.normalize("NFKC", intake.mended(topic)).casefold()
    line = " ".join(plain.split())
    normal = line.rstrip(_ENDS) or line
    return sha256(normal.encode()).hexdigest()[:HASH_LENGTH]


def consensus_draft(record: ConsensusRecord, *, content_limit_bytes: int) -> Draft:
    """The memory that a consensus is stored as: its topic, its conclusion, then its claims. Raises InvalidInput."""
    if not isinstance(record, ConsensusRecord):
        raise InvalidInput("record", f"expected a ConsensusRecord, not {type(record).__name__}")
    topic, conclusion = spoken("topic", record.topic), spoken("conclusion", record.conclusion)
    agreeing, taking_part = _agents(record)
    claims = [spoken("key_claims", one) for one in _several("key_claims", record.key_claims)]
    said = {
        "record": CONSENSUS,
        "topic": topic,
        "conclusion": conclusion,
        "agreeing_agents": agreeing,
        "participating_agents": taking_part,
        "rounds": intake.count("rounds", record.rounds, least=0, most=MOST_ROUNDS),
        "key_claims": claims,
    }
    return intake.draft(
        "\n".join([topic, conclusion, *(f"- {claim}" for claim in claims)]),
        content_limit_bytes=content_limit_bytes,
        type=MemoryType.SEMANTIC.value,
        significance=record.significance,
        confidence=record.confidence,
        title=_title(topic),
        tags=(CONSENSUS, TOPIC_TAG + topic_hash(topic), *intake.tag_list("tags", record.tags)),
        metadata=_with(said, record.metadata),
        created_at=intake.moment("timestamp", record.timestamp),
    )


def dissent_draft(record: DissentRecord, debate: Memory, *, content_limit_bytes: int) -> Draft:
    """The memory that a dissent from that debate is stored as, its agent's own. Raises InvalidInput."""
    consensus = consensus_of(debate)
    if consensus is None:
        raise InvalidInput("debate_id", f"{intake.shown(record.debate_id)!r} is no consensus; store that first")
    content, reasoning = spoken("content", record.content), _perhaps("reasoning", record.reasoning)
    if not isinstance(record.acknowledged, bool):
        raise InvalidInput("acknowledged", f"expected true or false, not {intake.shown(record.acknowledged)!r}")
    said = {
        "record": DISSENT,
        "debate_id": debate.id,
        "topic": consensus.topic,
        "content": content,
        "dissent_type": intake.required("dissent_type", record.dissent_type),
        "reasoning": reasoning,
        "acknowledged": record.acknowledged,
        "rebuttal": _perhaps("rebuttal", record.rebuttal),
    }
    return intake.draft(
        f"{content}\n{reasoning}" if reasoning else content,
        content_limit_bytes=content_limit_bytes,
        type=MemoryType.SEMANTIC.value,
        significance=record.significance,
        confidence=record.confidence,
        title=_title(consensus.topic),
        agent=intake.required("agent", record.agent),
        tags=(
            DISSENT,
            TOPIC_TAG + consensus.topic_hash,
            DEBATE_TAG + debate.id,
            *intake.tag_list("tags", record.tags),
        ),
        metadata=_with(said, record.metadata),
        created_at=intake.moment("timestamp", record.timestamp),
    )


def consensus_of(memory: Memory) -> ConsensusRecord | None:
    """The consensus that a memory holds; None when it holds none that can be read."""
    said = memory.metadata
    if said.get("record") != CONSENSUS or not _are_texts(said.get("topic"), said.get("conclusion")):
        return None
    rounds = said.get("rounds")
    return ConsensusRecord(
        topic=said["topic"],
        conclusion=said["conclusion"],
        confidence=memory.confidence,
        agreeing_agents=_texts(said.get("agreeing_agents")),
        participating_agents=_texts(said.get("participating_agents")),
        rounds=rounds if isinstance(rounds, int) else 0,
        key_claims=_texts(said.get("key_claims")),
        tags=_own(memory.tags, CONSENSUS, TOPIC_TAG + topic_hash(said["topic"])),
        significance=memory.significance,
        metadata=_within(said),
        timestamp=memory.created_at,
        id=memory.id,
    )


def dissent_of(memory: Memory) -> DissentRecord | None:
    """The dissent that a memory holds; None when it holds none that can be read."""
    said = memory.metadata
    texts = {name: said.get(name, "") for name in ("debate_id", "topic", "content", "dissent_type")}
    if said.get("record") != DISSENT or not _are_texts(*texts.values()):
        return None
    more = {name: said.get(name, "") for name in ("reasoning", "rebuttal")}
    return DissentRecord(
        **texts,
        **{name: text if isinstance(text, str) else "" for name, text in more.items()},
        agent=memory.scope.agent or "",
        confidence=memory.confidence,
        acknowledged=said.get("acknowledged") is True,
        tags=_own(memory.tags, DISSENT, TOPIC_TAG + topic_hash(said["topic"]), f"{DEBATE_TAG}{said['debate_id']}"),
        significance=memory.significance,
        metadata=_within(said),
        timestamp=memory.created_at,
        id=memory.id,
    )


def _dissents(memories: Iterable[Memory]) -> list[DissentRecord]:
    return [record for memory in _in_time(memories) if (record := dissent_of(memory)) is not None]


def _in_time(memories: Iterable[Memory]) -> list[Memory]:
    """Oldest first; of one instant, in the order they were stored."""
    return sorted(memories, key=lambda one: one.created_at)


def _agents(record: ConsensusRecord) -> tuple[list[str], list[str]]:
    agreeing = _names("agreeing_agents", record.agreeing_agents)
    taking_part = _names("participating_agents", record.participating_agents) or agreeing
    for one in agreeing:
        if one not in taking_part:
            raise InvalidInput("agreeing_agents", f"{one!r} is not among participating_agents")
    return agreeing, taking_part


def _names(field_name: str, value: object) -> list[str]:
    return list(dict.fromkeys(intake.required(field_name, one) for one in _several(field_name, value)))


def _several(field_name: str, value: object) -> list[object]:
    """A single text is one of them."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise InvalidInput(field_name, f"expected a list of texts, not {type(value).__name__}")
    return list(value)


def _perhaps(field_name: str, value: object) -> str:
    return "" if value == "" else spoken(field_name, value)


def _title(topic: str) -> str | None:
    line = "".join(one if one.isprintable() else " " for one in topic[:KEY_LIMIT])
    return " ".join(line.split()) or None


def _with(said: JsonObject, metadata: object) -> JsonObject:
    own = intake.checked_metadata(metadata)
    whole = {**said, **({"metadata": own} if own else {})}
    size = len(json.dumps(whole, ensure_ascii=False).encode())
    if size > RECORD_LIMIT_BYTES:
        raise InvalidInput(
            "record", f"has {size:,} bytes, at most {RECORD_LIMIT_BYTES:,} are stored; shorten its texts"
        )
    return whole


def _within(said: JsonObject) -> JsonObject:
    own = said.get("metadata", {})
    return own if isinstance(own, dict) else {}


def _own(tags: Sequence[str], *ours: str) -> tuple[str, ...]:
    """The tags that somebody gave."""
    return tuple(tag for tag in tags if tag not in ours)


def _are_texts(*values: object) -> bool:
    return all(isinstance(one, str) for one in values)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _checked_hash(value: object) -> str:
    text = intake.required("topic_hash", value)
    if len(text) != HASH_LENGTH or not set(text) <= set("0123456789abcdef"):
        raise InvalidInput("topic_hash", f"{intake.shown(text)!r} is no digest of a topic; topic_hash(topic) makes one")
    return text
