"""What a policy sees of one memory: the record and the facets that lie beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kingly_memory.lifecycle.lifetimes import PROTECTED_FROM, Lifetime
from kingly_memory.lifecycle.strength import Strength
from kingly_memory.lifecycle.tiers import Placement
from kingly_memory.models import EXPERIENCE, Memory, Standing


@dataclass(frozen=True, slots=True)
class Usage:
    """The facet `usage:<id>`: how often a memory was used, and when last (Unix seconds, None for never)."""

    accesses: int = 0
    last_used: float | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """One memory as the policies see it. `awaited`: a remote that should have it has not acknowledged it."""

    memory: Memory
    standing: Standing
    lifetime: Lifetime | None = None
    usage: Usage = field(default_factory=Usage)
    strength: Strength = field(default_factory=Strength)
    placement: Placement | None = None
    weight: float = 1.0
    pinned: bool = False
    awaited: bool = False

    @property
    def mark(self) -> int:
        """Another number after any use, reinforcement, judgement, move or pin, whatever the clock said then. Holds
        within one process."""
        return hash((self.usage, self.strength, self.placement, self.weight, self.pinned))

    @property
    def is_protected(self) -> bool:
        is_held = self.memory.metadata.get("record") == EXPERIENCE
        return self.pinned or is_held or self.memory.significance >= PROTECTED_FROM
