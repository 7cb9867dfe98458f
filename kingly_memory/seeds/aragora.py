"""The names of seed 003 (Aragora) as it writes them: tiers, continuum, consensus and streams, without a router.

Each memory here opens a `SyncMemoryRouter` of its own at the home that is named, or takes one that is open.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Protocol, Self

from kingly_memory.app.hybrid_search import get_hybrid_memory_search
from kingly_memory.blocking import SyncConsensusMemory, SyncContinuumMemory, SyncMemoryRouter, SyncMemoryStream
from kingly_memory.cognition.consensus import ConsensusRecord, DissentRecord, SimilarDebate, topic_hash
from kingly_memory.cognition.continuum import ConsolidationResult, MemoryEntry, MemoryTier
from kingly_memory.cognition.stream import MemoryEvent
from kingly_memory.lifecycle.tiers import (
    SEEDS_TIERS,
    SURPRISE_ALPHA,
    TIER_CONFIGS,
    TIER_HALF_LIVES,
    decayed_importance,
)
from kingly_memory.settings import TierConfig

__all__ = [
    "PROMOTION_ACCESS_THRESHOLD",
    "SUCCESS_REFERENCE_THRESHOLD",
    "SURPRISE_THRESHOLD",
    "TIER_CONFIGS",
    "TIER_HALF_LIVES",
    "ConsensusMemory",
    "ConsensusRecord",
    "ConsolidationResult",
    "ContinuumMemory",
    "DissentRecord",
    "MemoryEntry",
    "MemoryEvent",
    "MemoryStream",
    "MemoryTier",
    "SimilarDebate",
    "TierConfig",
    "decay_importance",
    "get_hybrid_memory_search",
    "get_wal_connection",
    "should_demote",
    "should_promote",
    "topic_hash",
    "update_surprise_score",
]

PROMOTION_ACCESS_THRESHOLD = SEEDS_TIERS.promotion_accesses
SURPRISE_THRESHOLD = SEEDS_TIERS.surprise_threshold
SUCCESS_REFERENCE_THRESHOLD = SEEDS_TIERS.success_references

Home = str | os.PathLike[str]


class Entry(Protocol):
    """What the seed's functions read of an entry. Times in Unix seconds, ages in seconds."""

    tier: MemoryTier
    access_count: int
    surprise_score: float
    success_references: int
    created_at: float
    base_importance: float
    last_access_age: float
    decayed_importance: float


def should_promote(entry: Entry) -> bool:
    """Whether uses, surprise or successes lift an entry by a tier."""
    return (
        entry.access_count >= PROMOTION_ACCESS_THRESHOLD
        or entry.surprise_score >= SURPRISE_THRESHOLD
        or entry.success_references >= SUCCESS_REFERENCE_THRESHOLD
    )


def should_demote(entry: Entry) -> bool:
    """Whether idleness or faded importance lets an entry sink."""
    config = TIER_CONFIGS[entry.tier]
    return entry.last_access_age > config.ttl_seconds or entry.decayed_importance < config.importance_threshold


def decay_importance(entry: Entry, current_time: float) -> float:
    """What is left of an entry's importance at that time (Unix seconds)."""
    return decayed_importance(entry.base_importance, current_time - entry.created_at, entry.tier)


def update_surprise_score(entry: Entry, retrieval_context: dict[str, float]) -> None:
    """Let the average of surprise follow a use: `predicted_relevance`, `actual_usefulness` (both 0.5 unless said)."""
    predicted = retrieval_context.get("predicted_relevance", 0.5)
    surprise = max(0.0, retrieval_context.get("actual_usefulness", 0.5) - predicted)
    entry.surprise_score = SURPRISE_ALPHA * surprise + (1 - SURPRISE_ALPHA) * entry.surprise_score


class _Opened:
    """A memory over a router that it opens, and closes again, unless it was given one."""

    _router: SyncMemoryRouter
    _is_own: bool

    def _open(self, where: Home | SyncMemoryRouter | None, **named: Any) -> SyncMemoryRouter:
        self._is_own = not isinstance(where, SyncMemoryRouter)
        router = where if isinstance(where, SyncMemoryRouter) else SyncMemoryRouter.open(where, remote=False, **named)
        self._router = router
        return router

    def close(self) -> None:
        """Close the store that this memory has opened."""
        if self._is_own:
            self._router.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ContinuumMemory(_Opened, SyncContinuumMemory):
    """Multi-tier memory: `store`, `retrieve`, `consolidate_memories`, `get_memory_stats` and the rest."""

    def __init__(self, where: Home | SyncMemoryRouter | None = None) -> None:
        SyncContinuumMemory.__init__(self, *_parts(self._open(where).continuum))


class ConsensusMemory(_Opened, SyncConsensusMemory):
    """What debates came to, and who would not agree."""

    def __init__(self, where: Home | SyncMemoryRouter | None = None) -> None:
        SyncConsensusMemory.__init__(self, *_parts(self._open(where).consensus))


class MemoryStream(_Opened, SyncMemoryStream):
    """What one agent lived through, in the order of time."""

    def __init__(self, agent_id: str, where: Home | SyncMemoryRouter | None = None) -> None:
        SyncMemoryStream.__init__(self, *_parts(self._open(where).stream(agent_id)))


def _parts(face: Any) -> tuple[Any, Any]:
    """What a blocking view is made of, for a view of the same that has the seed's constructor."""
    return face._awaiting, face._call  # noqa: SLF001  # views of one object


def get_wal_connection(db_path: Path, timeout: float = 30.0) -> sqlite3.Connection:
    """A connection of your own to a SQLite file in WAL mode; our stores do not use it. Waits `timeout` seconds for
    others, also while another connection is just changing the mode."""
    connection = sqlite3.connect(db_path, timeout=timeout)
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError:  # the change of mode does not wait as other statements do
            if time.monotonic() >= deadline:
                connection.close()
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA busy_timeout={int(timeout * 1000)}")
    return connection
