"""How long memories live (seed 004, memory_type_strategy; decision D1).

A memory has no end unless its type or kind has a lifetime or its owner names an end. A lifetime counts from the last
use; an end that was named (`ttl`) stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.dataclass import NamedTuple
from kingly_memory.models import EXPERIENCE, KINDS, JsonObject, Memory, MemoryType
from kingly_memory.settings import Lifetimes

LIFETIMES = "lifetimes"
"""The policy that takes away what has ended."""
PROTECTED_FROM = 0.8
"""Significance from which nothing but its owner takes a memory away (decision A10)."""


class Lifetime(NamedTuple):
    """The facet `lifetime:<id>`; a memory without one has no end. Times in Unix seconds.

    `sliding_s` is the lifetime of a type or kind: every use puts the end that far ahead. Without it the end was named
    by the owner. `expires_at` is None while nothing counts: the memory is pinned, too significant, archived or
    forgotten.
    """

    expires_at: float | None
    sliding_s: float | None = None

    def to_json(self) -> JsonObject:
        return {"expires_at": self.expires_at, "sliding_s": self.sliding_s}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lifetime:
        return cls(data["expires_at"], data["sliding_s"])

    @property
    def ends_at(self) -> datetime | None:
        return None if self.expires_at is None else datetime.fromtimestamp(self.expires_at, UTC)

    @property
    def slides(self) -> bool:
        """Whether a use puts the end off."""
        return self.sliding_s is not None and self.expires_at is not None

    def used(self, at_s: float) -> Lifetime:
        """The lifetime after a use: never shorter than before."""
        if self.sliding_s is None or self.expires_at is None:
            return self
        return Lifetime(max(self.expires_at, at_s + self.sliding_s), self.sliding_s)

    def begun(self, memory: Memory, now_s: float, *, is_pinned: bool = False) -> Lifetime | None:
        """The lifetime counted anew. An end that was named stays, and is dropped when it is over.

        Whatever stores, imports, restores, unpins or reinforces a memory calls this, since each of these is a use.
        """
        if self.sliding_s is None:
            return None if is_pinned or is_expired(self, now_s) else self
        is_held = is_pinned or memory.metadata.get("record") == EXPERIENCE
        is_held |= memory.significance >= PROTECTED_FROM and memory.type is not MemoryType.WORKING
        return Lifetime(None if is_held else now_s + self.sliding_s, self.sliding_s)

    def stopped(self) -> Lifetime | None:
        """What is kept of it beside a memory that is out of sight: `begun` starts it again."""
        return None if self.sliding_s is None else Lifetime(None, self.sliding_s)


UsualLifetimes = Mapping[str, Lifetime | None]
"""The lifetime of each type and kind, by its name; None for no end. They do not count yet."""


def usual_lifetimes(settings: Lifetimes) -> UsualLifetimes:
    """As the settings say; a kind that they do not name has that of its type."""
    types = {one.value: one for one in MemoryType}
    lengths_s = {
        name: getattr(settings, name, getattr(settings, kind.value)) for name, kind in {**types, **KINDS}.items()
    }
    return {name: None if math.isinf(length) else Lifetime(None, length) for name, length in lengths_s.items()}


def later_of(first: Lifetime | None, other: Lifetime | None, now_s: float) -> Lifetime | None:
    """The one that ends later when both are used now; None, which is no end, ends last."""
    if first is None or other is None:
        return None
    return max(
        first, other, key=lambda each: each.expires_at or 0.0 if each.sliding_s is None else now_s + each.sliding_s
    )


def is_expired(lifetime: Lifetime | None, now_s: float) -> bool:
    """Expired at the very instant of `expires_at`. A memory without a lifetime lives for ever."""
    return lifetime is not None and lifetime.expires_at is not None and lifetime.expires_at <= now_s
