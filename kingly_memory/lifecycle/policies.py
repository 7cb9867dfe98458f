"""What becomes of a memory, decided purely: the first policy is the end of a lifetime."""

from __future__ import annotations

from dataclasses import dataclass

from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import Memory, MemoryType, Standing


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
        return Expire("a copy of what the remote holds, past its lifetime")
    if subject.standing is not Standing.LIVE:
        return Keep(f"it is {subject.standing.value} already")
    if subject.memory.type is not MemoryType.WORKING:
        return Archive(f"the lifetime of {subject.memory.type.value} memories has ended")
    if subject.awaited:
        return Keep("it waits for the remote to acknowledge it")
    return Expire("a working memory past its lifetime")
