"""How long memories live (seed 004, memory_type_strategy): the first forgetting policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kingly_memory.models import JsonObject, Memory, MemoryType, Standing
from kingly_memory.settings import Settings

_SLIDING = (MemoryType.WORKING, MemoryType.PROCEDURAL)


@dataclass(frozen=True, slots=True)
class Lifetime:
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


@dataclass(frozen=True, slots=True)
class Lifetimes:
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

    def begin(self, kind: MemoryType, now_s: float) -> Lifetime:
        length = self.by_type[kind]
        return Lifetime(now_s + length, length if kind in _SLIDING else None)


def is_expired(lifetime: Lifetime | None, now_s: float) -> bool:
    """Expired at the very instant of `expires_at`. A memory without a lifetime lives for ever."""
    return lifetime is not None and lifetime.expires_at <= now_s


@dataclass(frozen=True, slots=True)
class Subject:
    """What a policy sees of one memory."""

    memory: Memory
    standing: Standing
    lifetime: Lifetime | None
    awaited: bool
    """True while a remote that should have the memory has not acknowledged it."""


@dataclass(frozen=True, slots=True)
class Keep:
    reason: str


@dataclass(frozen=True, slots=True)
class Archive:
    reason: str


@dataclass(frozen=True, slots=True)
class Expire:
    """Erase: only for working memories and copies of what the remote holds."""

    reason: str


Verdict = Keep | Archive | Expire


def decide(subject: Subject, now_s: float) -> Verdict:
    """Lifetime policy: expired working memories go once every remote has them, others rest in the archive."""
    if not is_expired(subject.lifetime, now_s):
        return Keep("its lifetime has not ended")
    if subject.standing is Standing.CACHED:
        return Expire("a remote's copy that was not used for its lifetime")
    if subject.standing is not Standing.LIVE:
        return Keep(f"it is {subject.standing.value} already")
    if subject.memory.type is not MemoryType.WORKING:
        return Archive(f"the lifetime of {subject.memory.type.value} memories has ended")
    if subject.awaited:
        return Keep("it waits for the remote to acknowledge it")
    return Expire("a working memory past its lifetime")
