"""What debates came to, and who would not agree: records that are found again by topic (seed 003, ConsensusMemory).

Both are semantic memories of the project; `metadata.record` says which is which. Digests of topic and debate are among
their tags, so that the index finds all of a topic whatever was stored since. At their default significance no sweep
takes them; archived ones are found too, forgotten ones are not. Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kingly_memory import validation
from kingly_memory.cognition.outcomes import all_spoken, spoken
from kingly_memory.dataclass import dataclass
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.validation import KEY_LIMIT, Draft

CONSENSUS, DISSENT = "consensus", "dissent"
"""What `metadata.record` of the two says, and one of their tags."""
TOPIC_TAG, DEBATE_TAG = "topic:", "debate:"
"""Begin the tags that name the digest of a topic, and the consensus that a dissent is from."""
SIGNIFICANCE = 0.8
"""From which nothing but its owner takes a memory away."""
HASH_LENGTH = 32


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
    significance: float = SIGNIFICANCE
    timestamp: datetime | None = None
    id: MemoryId | None = None

    @property
    def topic_hash(self) -> str:
        return topic_hash(self.topic)


@dataclass(frozen=True, slots=True)
class DissentRecord:
    """Who would not agree, and why. `debate_id` is what `store_consensus` answered. Whoever stores leaves out `topic`,
    which is that of the debate, and `id`."""

    debate_id: str
    agent: str
    content: str
    reasoning: str = ""
    confidence: float = 0.5
    significance: float = SIGNIFICANCE
    timestamp: datetime | None = None
    topic: str = ""
    id: MemoryId | None = None


@dataclass(frozen=True, slots=True)
class SimilarDebate:
    """An earlier consensus, how much like the topic asked about (0 to 1, 1 for the same topic), and its dissents,
    oldest first."""

    consensus: ConsensusRecord
    similarity: float
    dissents: tuple[DissentRecord, ...]


def topic_hash(topic: str) -> str:
    """A digest of a topic, the same in every process. Large and small letters, room between words, and the mark that
    ends it make no difference; what stands within it does: `C` is not `C++`. Raises InvalidInput for what is no text.
    """
    if not isinstance(topic, str):
        raise InvalidInput("topic", f"expected text, not {type(topic).__name__}")
    plain = unicodedata.normalize("NFKC", validation.mended(topic)).casefold()
    line = " ".join(plain.split())
    normal = line.rstrip(" .!?…。！？") or line
    return sha256(normal.encode()).hexdigest()[:HASH_LENGTH]


def checked_hash(value: object) -> str:
    """Raises InvalidInput for what is no digest of a topic."""
    text = validation.required("topic_hash", value)
    if len(text) != HASH_LENGTH or not set(text) <= set("0123456789abcdef"):
        raise InvalidInput(
            "topic_hash", f"{validation.shown(text)!r} is no digest of a topic; topic_hash(topic) makes one"
        )
    return text


def consensus_draft(record: ConsensusRecord) -> Draft:
    """The memory that a consensus is stored as: its topic, its conclusion, then its claims. Raises InvalidInput."""
    if not isinstance(record, ConsensusRecord):
        raise InvalidInput("record", f"expected a ConsensusRecord, not {type(record).__name__}")
    topic, conclusion = spoken("topic", record.topic), spoken("conclusion", record.conclusion)
    agreeing = list(validation.texts("agreeing_agents", record.agreeing_agents))
    taking_part = list(validation.texts("participating_agents", record.participating_agents)) or agreeing
    stranger = next((one for one in agreeing if one not in taking_part), None)
    if stranger is not None:
        raise InvalidInput("agreeing_agents", f"{stranger!r} is not among participating_agents")
    claims = list(all_spoken("key_claims", record.key_claims))
    metadata = {
        "record": CONSENSUS,
        "topic": topic,
        "conclusion": conclusion,
        "agreeing_agents": agreeing,
        "participating_agents": taking_part,
        "rounds": validation.count("rounds", record.rounds, least=0, most=1_000_000),
        "key_claims": claims,
    }
    content = "\n".join([topic, conclusion, *(f"- {claim}" for claim in claims)])
    tags = (CONSENSUS, TOPIC_TAG + topic_hash(topic))
    return _draft(content, record, metadata, tags, None)


def dissent_draft(record: DissentRecord, debate: Memory) -> Draft:
    """The memory that a dissent from that debate is stored as, its agent's own. Raises InvalidInput."""
    consensus = consensus_of(debate)
    if consensus is None:
        raise InvalidInput("debate_id", f"{validation.shown(record.debate_id)!r} is no consensus; store that first")
    content = spoken("content", record.content)
    reasoning = spoken("reasoning", record.reasoning) if record.reasoning != "" else ""
    metadata = {
        "record": DISSENT,
        "debate_id": debate.id,
        "topic": consensus.topic,
        "content": content,
        "reasoning": reasoning,
    }
    tags = (DISSENT, TOPIC_TAG + consensus.topic_hash, DEBATE_TAG + debate.id)
    agent = validation.required("agent", record.agent)
    return _draft("\n".join(filter(None, (content, reasoning))), record, metadata, tags, agent)


def _draft(
    content: str,
    record: ConsensusRecord | DissentRecord,
    metadata: JsonObject,
    tags: tuple[str, ...],
    agent: str | None,
) -> Draft:
    """What both have alike, in the order of a memory. Raises InvalidInput."""
    line = "".join(one if one.isprintable() else " " for one in metadata["topic"][:KEY_LIMIT])
    return validation.draft(
        content,
        type=MemoryType.SEMANTIC.value,
        significance=record.significance,
        confidence=record.confidence,
        title=" ".join(line.split()) or None,
        agent=agent,
        tags=tags,
        metadata=metadata,
        created_at=validation.moment("timestamp", record.timestamp),
    )


def consensus_of(memory: Memory) -> ConsensusRecord | None:
    """The consensus that a memory holds; None when it holds none that can be read: anybody can store anything."""
    metadata = memory.metadata
    topic, conclusion, rounds = metadata.get("topic"), metadata.get("conclusion"), metadata.get("rounds")
    if metadata.get("record") != CONSENSUS or not isinstance(topic, str) or not isinstance(conclusion, str):
        return None
    return ConsensusRecord(
        topic=topic,
        conclusion=conclusion,
        confidence=memory.confidence,
        agreeing_agents=_texts(metadata, "agreeing_agents"),
        participating_agents=_texts(metadata, "participating_agents"),
        rounds=rounds if isinstance(rounds, int) else 0,
        key_claims=_texts(metadata, "key_claims"),
        significance=memory.significance,
        timestamp=memory.created_at,
        id=memory.id,
    )


def dissent_of(memory: Memory) -> DissentRecord | None:
    """The dissent that a memory holds; None when it holds none that can be read."""
    names = ("debate_id", "topic", "content", "reasoning")
    texts: dict[str, Any] = {name: memory.metadata.get(name) for name in names}
    if memory.metadata.get("record") != DISSENT or not all(isinstance(one, str) for one in texts.values()):
        return None
    return DissentRecord(
        **texts,
        agent=memory.scope.agent or "",
        confidence=memory.confidence,
        significance=memory.significance,
        timestamp=memory.created_at,
        id=memory.id,
    )


def _texts(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = metadata.get(name)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
