"""How long memories live (seed 004, memory_type_strategy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kingly_memory.models import EXPERIENCE, JsonObject, Memory, MemoryType
from kingly_memory.settings import Settings

PROTECTED_FROM = 0.8
"""Significance from which nothing but its owner takes a memory away (decision A10)."""

_SLIDING = (MemoryType.WORKING, MemoryType.PROCEDURAL)


class Lifetime(NamedTuple):
    """The facet `lifetime:<id>`. Times in Unix seconds; `sliding_s` renews the lifetime at every use."""

    expires_at: float
    sliding_s: float | None = None

    def to_json(self) -> JsonObject:
        return {"expires_at": self.expires_at, "sliding_s": self.sliding_s}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lifetime:
        return cls(data["expires_at"], data["sliding_s"])

    def used(self, at_s: float) -> Lifetime:
        """The lifetime after a use: never shorter than before."""
        if self.sliding_s is None:
            return self
        return Lifetime(max(self.expires_at, at_s + self.sliding_s), self.sliding_s)


class Lifetimes(NamedTuple):
    """Default lifetimes by type, in seconds."""

    by_type: Mapping[MemoryType, float]

    @classmethod
    def of(cls, settings: Settings) -> Lifetimes:
        return cls(
            {
                MemoryType.WORKING: settings.working_lifetime_s,
                MemoryType.EPISODIC: settings.episodic_lifetime_s,
                MemoryType.SEMANTIC: settings.semantic_lifetime_s,
                MemoryType.PROCEDURAL: settings.procedural_lifetime_s,
            }
        )

    def begin(self, memory: Memory, now_s: float) -> Lifetime | None:
        """None for what is too significant to end by itself, but for working memories, which are meant to end; and for
        what a mind holds."""
        kind = memory.type
        if memory.metadata.get("record") == EXPERIENCE:
            return None
        if memory.significance >= PROTECTED_FROM and kind is not MemoryType.WORKING:
            return None
        length = self.by_type[kind]
        return Lifetime(now_s + length, length if kind in _SLIDING else None)


def is_expired(lifetime: Lifetime | None, now_s: float) -> bool:
    """Expired at the very instant of `expires_at`. A memory without a lifetime lives for ever."""
    return lifetime is not None and lifetime.expires_at <= now_s
