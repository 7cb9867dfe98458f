"""The names of seed 002 (threads) as it writes them: boosts by focus, ratings, priority and compaction. Pure.

Its six tools are those of the MCP server (`--tools ai`); `memory.threads` and `memory.attention` are the verbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention import focus as focusing
from kingly_memory.attention.focus import Focus
from kingly_memory.attention.ratings import Rating, Ratings, relevance
from kingly_memory.dataclass import dataclass, field
from kingly_memory.lifecycle import compaction

__all__ = [
    "COMPACTION_STRATEGIES",
    "Thread",
    "calculate_injection_priority",
    "get_focus_boost",
    "update_relevance_score",
]

COMPACTION_STRATEGIES: dict[str, dict[str, float]] = {
    name: {key: value for key, value in strategy._asdict().items() if key != "name"}
    for name, strategy in compaction.COMPACTION_STRATEGIES.items()
}
"""A copy: changing it changes no compaction."""


@dataclass
class Thread:
    """A thread as the seed's functions take it."""

    id: str = ""
    title: str = ""
    topics: list[str] = field(default_factory=list)
    weight: float = 1.0
    ratings: list[dict[str, Any]] = field(default_factory=list)
    relevance_score: float = 1.0


def get_focus_boost(thread: Thread, focus_data: Mapping[str, Any]) -> float:
    """What the focus of a `focus.json` adds to a thread's priority, 0 to 0.5."""
    topics = tuple(thread.topics)
    seen = focusing.Thread(thread.id, thread.title, topics, thread.weight, thread.relevance_score)
    active = focus_data.get("active_focus", ())
    return focusing.boost(seen, [Focus(str(one["topic"]), float(one["weight"])) for one in active])


def calculate_injection_priority(thread: Thread, similarity: float) -> float:
    """Similarity times weight, and times relevance where the thread has one."""
    return similarity * thread.weight * getattr(thread, "relevance_score", 1.0)


def update_relevance_score(thread: Thread, useful: bool) -> float:
    """Note a rating, and answer the relevance that follows from the last ten, 0.1 to 1 (decision S1)."""
    thread.ratings.append({"useful": useful, "timestamp": datetime.now(UTC).isoformat()})
    rated = Ratings(tuple(Rating(one["useful"] is True) for one in thread.ratings))
    thread.relevance_score = relevance(rated)
    return thread.relevance_score
