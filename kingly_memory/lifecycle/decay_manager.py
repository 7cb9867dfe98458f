"""Strengths under the names of seed 000, over a storage of the caller's own. The arithmetic is that of `strength`.

The router keeps strengths by itself; this is for those who bring their own store or their code for the seed's classes.
Unlike the rest of this room it may look at the clock: wherever `now` is left out, it is the present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.lifecycle.decay import (
    KEPT_REINFORCEMENTS,
    SEEDS_RULES,
    Strength,
    StrengthRules,
    Vitals,
    current,
    half_life,
)
from kingly_memory.lifecycle.lifetimes import PROTECTED_FROM
from kingly_memory.models import JsonObject
from kingly_memory.observe import log
from kingly_memory.validation import count, moment, share


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class MemoryStrength:
    """How alive one memory is. Raises InvalidInput on figures that make no sense; naive times are taken as UTC.

    `initial_strength` (0 to 1) is what fading begins from. The seed stores it and never reads it; at 1.0, its default,
    there is no difference.
    """

    memory_id: str
    initial_strength: float = 1.0
    decay_half_life_days: float = 30
    created_at: datetime = field(default_factory=utc_now)
    last_accessed: datetime = field(default_factory=utc_now)
    access_count: int = 0
    reinforcement_events: list[datetime] = field(default_factory=list)
    explicit_importance: float = 0.5

    def __post_init__(self) -> None:
        self.created_at = _moment("created_at", self.created_at)
        self.last_accessed = _moment("last_accessed", self.last_accessed)
        self.reinforcement_events = [_moment("reinforcement_events", one) for one in self.reinforcement_events]
        self._vitals()

    def current_strength(self, now: datetime | None = None, rules: StrengthRules = SEEDS_RULES) -> float:
        """0 to 1, at that time."""
        return current(self._vitals(), _or_now(now).timestamp(), rules)

    def access(self, now: datetime | None = None) -> None:
        """Note that the memory was found and used. A clock that was set back does not take a use back."""
        self.last_accessed = max(self.last_accessed, _or_now(now))
        self.access_count += 1

    def reinforce(self, now: datetime | None = None) -> None:
        """Note that the memory proved useful. The latest ten such events are kept."""
        at = _or_now(now)
        self.last_accessed = max(self.last_accessed, at)
        self.reinforcement_events = sorted([*self.reinforcement_events, at])[-KEPT_REINFORCEMENTS:]

    def should_forget(self, threshold: float = SEEDS_RULES.forget_threshold, *, now: datetime | None = None) -> bool:
        """True below the threshold, not at it."""
        return self.current_strength(now) < threshold

    def recoverable(
        self,
        least: float = SEEDS_RULES.forget_threshold,
        below: float = SEEDS_RULES.weak_below,
        *,
        now: datetime | None = None,
    ) -> bool:
        """True for what is weak but not forgettable: from `least` to just below `below`. The seed begins at 0.05, where
        a memory would be both."""
        return least <= self.current_strength(now) < below

    def to_json(self) -> JsonObject:
        return {
            "memory_id": self.memory_id,
            "initial_strength": self.initial_strength,
            "decay_half_life_days": self.decay_half_life_days,
            "created_at": self.created_at.isoformat(),
            "last_accessed": self.last_accessed.isoformat(),
            "access_count": self.access_count,
            "reinforcement_events": [one.isoformat() for one in self.reinforcement_events],
            "explicit_importance": self.explicit_importance,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> MemoryStrength:
        """The inverse of `to_json`; times may be ISO 8601 texts. Raises InvalidInput."""
        known: dict[str, Any] = {**data}
        return cls(**known)

    def _vitals(self) -> Vitals:
        """The fields are anybody's to change, so they are checked at every use."""
        strength = Strength(
            half_life("decay_half_life_days", self.decay_half_life_days),
            share("initial_strength", self.initial_strength),
            tuple(one.timestamp() for one in self.reinforcement_events),
        )
        return Vitals(
            self.last_accessed.timestamp(),
            share("explicit_importance", self.explicit_importance),
            count("access_count", self.access_count, least=0, most=2**63 - 1),
            strength,
        )


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What a storage knows of a memory whose strength nobody has kept yet, and what protects it.

    `category` is whatever of which one memory has to stay, such as its type.
    """

    created_at: datetime
    last_used: datetime | None = None
    importance: float = 0.5
    category: str = ""
    pinned: bool = False


class StrengthStorage(Protocol):
    """What DecayManager needs of a store. Each method raises StoreError or OSError when it cannot do its part."""

    def get_memory_strength(self, memory_id: str) -> MemoryStrength | None:
        """What was last handed to `update_memory_strength`, None when nothing was."""
        ...

    def update_memory_strength(self, strength: MemoryStrength) -> None:
        """Keep it. When this returns, it is there for every other process and after a crash."""
        ...

    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]:
        """The ids of the memories of that project and agent that are neither archived nor deleted, each once. None
        means every project, or every agent."""
        ...

    def get_memory_facts(self, memory_id: str) -> MemoryFacts | None:
        """None when there is no such memory."""
        ...

    def archive_memory(self, memory_id: str) -> None:
        """Copy memory and strength to where they can be restored from. To return is to say that the copy is durable; a
        second time changes nothing."""
        ...

    def delete_memory(self, memory_id: str) -> None:
        """Take the memory away from those that are searched. Its copy in the archive stays."""
        ...


class DecayManager:
    """Strengths of the memories in a storage: noting uses, finding what has faded, forgetting it.

    Nothing is remembered between calls, so that several managers and processes agree. Raises InvalidInput for an id
    that the storage does not know, and for a half-life that is not above 0.
    """

    def __init__(
        self,
        storage: StrengthStorage,
        default_half_life: float = 30,
        *,
        rules: StrengthRules = SEEDS_RULES,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._storage = storage
        self._default_half_life = half_life("default_half_life", default_half_life)
        self._rules = rules
        self._now = now

    def __repr__(self) -> str:
        return f"<DecayManager default_half_life={self._default_half_life:g} storage={type(self._storage).__name__}>"

    def get_strength(self, memory_id: str) -> MemoryStrength:
        """The strength that is kept. When there is none, one that fades from the memory's own last use is begun and
        kept: what was never looked at is not young."""
        known = self._known(memory_id)
        if known is None:
            raise InvalidInput("memory_id", f"no memory has the id {memory_id!r}; list those there are")
        if self._storage.get_memory_strength(memory_id) is None:
            self._storage.update_memory_strength(known)
        return known

    def record_access(self, memory_id: str) -> None:
        strength = self.get_strength(memory_id)
        strength.access(self._now())
        self._storage.update_memory_strength(strength)

    def reinforce_memory(self, memory_id: str) -> None:
        strength = self.get_strength(memory_id)
        strength.reinforce(self._now())
        self._storage.update_memory_strength(strength)

    def get_forgettable_memories(
        self, project_id: str | None, agent: str | None, threshold: float = SEEDS_RULES.forget_threshold
    ) -> list[str]:
        """The ids of those below the threshold, weakest first, protected ones among them. Writes nothing."""
        least = share("threshold", threshold)
        return [memory_id for memory_id, strength in self._weakest_first(project_id, agent) if strength < least]

    def get_recoverable_memories(self, project_id: str | None, agent: str | None) -> list[tuple[str, float]]:
        """The weak ones that a use brings back, with their strengths, weakest first. Writes nothing."""
        least, below = self._rules.forget_threshold, self._rules.weak_below
        return [one for one in self._weakest_first(project_id, agent) if least <= one[1] < below]

    def smart_forget(
        self,
        project_id: str | None,
        agent: str | None,
        target_count: int | None = None,
        *,
        threshold: float = SEEDS_RULES.forget_threshold,
        dry_run: bool = False,
    ) -> list[str]:
        """Archive, then delete, what has faded: the weakest first, at most `target_count` (None for all). Returns the
        ids of those that went; with `dry_run` of those that would, and then nothing is written.

        Importance of 0.8 or more and pins protect a memory, and of each category in the scope one stays, the strongest.
        One whose archiving fails is kept and logged, and no other is taken in its place; one that was used meanwhile is
        kept too.
        """
        least = share("threshold", threshold)
        everything = self._storage.get_all_memory_ids(project_id, agent)
        facts = {one: known for one in everything if (known := self._storage.get_memory_facts(one)) is not None}
        there = Counter(known.category for known in facts.values())
        planned = []
        for memory_id in self.get_forgettable_memories(project_id, agent, least):
            known = facts.get(memory_id)
            if known is not None and there[known.category] > 1 and not self._is_protected(memory_id, known):
                there[known.category] -= 1
                planned.append(memory_id)
        if target_count is not None:
            planned = planned[: count("target_count", target_count, least=0, most=2**62)]
        return planned if dry_run else [memory_id for memory_id in planned if self._forgotten(memory_id, least)]

    def _is_protected(self, memory_id: str, facts: MemoryFacts) -> bool:
        stored = self._storage.get_memory_strength(memory_id)
        importance = facts.importance if stored is None else max(facts.importance, stored.explicit_importance)
        return facts.pinned or importance >= PROTECTED_FROM

    def _forgotten(self, memory_id: str, threshold: float) -> bool:
        strength = self._known(memory_id)
        if strength is None or strength.current_strength(self._now(), self._rules) >= threshold:
            return False  # another process has taken it away or used it since
        try:
            self._storage.archive_memory(memory_id)
            self._storage.delete_memory(memory_id)
        except (StoreError, OSError) as error:
            log.warning("memory %s is kept, for it could not be archived and deleted: %s", memory_id, error)
            return False
        return True

    def _weakest_first(self, project_id: str | None, agent: str | None) -> list[tuple[str, float]]:
        """One that another process has taken away meanwhile is left out."""
        now = self._now()
        known = (self._known(memory_id) for memory_id in self._storage.get_all_memory_ids(project_id, agent))
        found = [(one.memory_id, one.current_strength(now, self._rules)) for one in known if one is not None]
        return sorted(found, key=lambda one: (one[1], one[0]))

    def _known(self, memory_id: str) -> MemoryStrength | None:
        """The strength that is kept, else one that fades from the memory's own last use; None for no memory."""
        stored = self._storage.get_memory_strength(memory_id)
        facts = self._storage.get_memory_facts(memory_id) if stored is None else None
        if facts is None:
            return stored
        return MemoryStrength(
            memory_id,
            decay_half_life_days=self._default_half_life,
            created_at=facts.created_at,
            last_accessed=facts.created_at if facts.last_used is None else facts.last_used,
            explicit_importance=facts.importance,
        )


def _moment(name: str, value: object) -> datetime:
    found = moment(name, value)
    if found is None:
        raise InvalidInput(name, "is missing")
    return found


def _or_now(now: datetime | None) -> datetime:
    return utc_now() if now is None else _moment("now", now)
