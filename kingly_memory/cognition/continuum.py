"""Memories by how near at hand they are: what a retrieval over tiers answers, and in which order (seed 003). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Tier
from kingly_memory.plain import Plain

MemoryTier = Tier
"""The seed's name for it."""

SOURCE, TOPIC = "source", "topic"
"""Where an entry's own are kept in its memory's metadata; a summary of memories that leave a tier is of one topic."""

TIER_WEIGHTS: Mapping[Tier, float] = {Tier.FAST: 1.0, Tier.MEDIUM: 0.85, Tier.SLOW: 0.7, Tier.GLACIAL: 0.5}
"""What the relevance of a memory is multiplied by in the strategy `weighted`. The seed names the order, not the
figures: with these one from SLOW comes before one from FAST when it is more than 1.43 times as relevant."""

LEAST_SIMILARITY = 0.3
"""Below which what only its meaning points to is left out (seed 003)."""


class RetrievalStrategy(StrEnum):
    """`fast_first` asks one tier after the other, the nearest first, while there are too few; `weighted` and
    `comprehensive` ask all at once, and the former favours the nearer ones."""

    FAST_FIRST = "fast_first"
    WEIGHTED = "weighted"
    COMPREHENSIVE = "comprehensive"


@dataclass(frozen=True, slots=True)
class MemoryEntry(Plain):
    """A memory and where it stands, in the seed's words. Figures are those of the moment it was read.

    `importance` is its significance, `similarity` (0 to 1) how well it answered the query it was retrieved by.
    """

    id: MemoryId
    content: str
    tier: Tier
    importance: float
    source: str = ""
    topic: str = ""
    metadata: JsonObject = field(default_factory=dict)
    access_count: int = 0
    surprise_score: float = 0.0
    success_references: int = 0
    created_at: datetime | None = None
    last_access: datetime | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class TieredHit:
    """A memory that a search found. `relevance` is the search's, `similarity` the better of that and how near its
    meaning lies; `is_worded`: its words were found, and not its meaning alone."""

    memory: Memory
    tier: Tier
    relevance: float
    similarity: float
    is_worded: bool


@dataclass(frozen=True, slots=True)
class ConsolidationResult(Plain):
    """What a consolidation did. Of `archived`, `summarised` went behind one of the `summaries` that were written;
    `skipped` were touched while it was under way."""

    promoted: int = 0
    demoted: int = 0
    archived: int = 0
    summarised: int = 0
    summaries: int = 0
    skipped: int = 0
    promoted_ids: tuple[MemoryId, ...] = ()
    demoted_ids: tuple[MemoryId, ...] = ()
    archived_ids: tuple[MemoryId, ...] = ()
    summary_ids: tuple[MemoryId, ...] = ()


def retrieved(
    candidates: Iterable[TieredHit], strategy: RetrievalStrategy, limit: int, min_similarity: float
) -> list[TieredHit]:
    """The best of the candidates, best first. What was found by its words may be less similar than `min_similarity`:
    an exact term is worth more than its vector says (decision R7). Of several that one agent said in the same words the
    nearest stands."""
    similar = [hit for hit in candidates if hit.is_worded or hit.similarity >= min_similarity]
    nearest: dict[tuple[str | None, str], TieredHit] = {}
    for one in sorted(similar, key=_ORDERS[RetrievalStrategy.FAST_FIRST]):
        nearest.setdefault((one.memory.scope.agent, " ".join(one.memory.content.split())), one)
    return sorted(nearest.values(), key=_ORDERS[strategy])[:limit]


def tiers(value: object) -> frozenset[Tier]:
    """All of them for None. Raises InvalidInput."""
    if value is None:
        return frozenset(Tier)
    named = frozenset(validation.choice("tiers", one, Tier) for one in validation.texts("tiers", value))
    if not named:
        raise InvalidInput("tiers", "is empty; leave it out for all of them")
    return named


def metadata(own: Mapping[str, Any] | None, source: object, topic: object) -> JsonObject:
    """What is kept beside the content of an entry. Raises InvalidInput."""
    checked = validation.checked_metadata(own)
    fields = {
        name: "" if value == "" else validation.required(name, value)
        for name, value in ((SOURCE, source), (TOPIC, topic))
    }
    for name, value in fields.items():
        if value and checked.get(name, value) != value:
            raise InvalidInput("metadata", f"names another {name} than the entry has; leave it out of one of them")
    return {**checked, **{name: value for name, value in fields.items() if value}}


_NEARNESS = {tier: index for index, tier in enumerate(Tier)}
_ORDERS: Mapping[RetrievalStrategy, Callable[[TieredHit], tuple[float, ...]]] = {
    RetrievalStrategy.FAST_FIRST: lambda one: (_NEARNESS[one.tier], -one.relevance),
    RetrievalStrategy.WEIGHTED: lambda one: (-one.relevance * TIER_WEIGHTS[one.tier], _NEARNESS[one.tier]),
    RetrievalStrategy.COMPREHENSIVE: lambda one: (-one.relevance, _NEARNESS[one.tier]),
}
