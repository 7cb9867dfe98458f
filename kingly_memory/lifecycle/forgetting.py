"""Forgetting by strength: what has faded goes to the archive, weakest first (seed 000, and decisions A7 and A10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.strength import SEEDS_RULES, StrengthRules, StrengthState, Vitals, current, figures, state
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Archive, Keep
from kingly_memory.models import JsonObject, Memory, Standing

_Name = TypeVar("_Name", bound=Hashable)
_Kind = TypeVar("_Kind", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """The policy. What it says of one memory looks at no other; the steward spares the last of each category."""

    rules: StrengthRules = SEEDS_RULES
    enabled: bool = True

    def decide(self, subject: Subject, now_s: float) -> Keep | Archive:
        if not self.enabled:
            return Keep("forgetting is switched off")
        if subject.standing is not Standing.LIVE:
            return Keep(f"it is {subject.standing.value} already")
        found = figures(vitals(subject), now_s, self.rules)
        reached = state(found["strength"], self.rules)
        if reached is not StrengthState.FORGETTABLE:
            return Keep(f"its strength is {reached.value}", found)
        if subject.pinned:
            return Keep("it is pinned", found)
        if subject.is_protected:
            return Keep("its significance protects it", found)
        return Archive(f"its strength is below {self.rules.forget_threshold:g}", found)

    def spares(self, subject: Subject, now_s: float) -> bool:
        """Whether its strength is enough. `decide` says the same with its reasons, at several times the cost."""
        return current(vitals(subject), now_s, self.rules) >= self.rules.forget_threshold


@dataclass(frozen=True, slots=True)
class Faded:
    """A memory and its strength."""

    memory_id: MemoryId
    strength: float

    def to_json(self) -> JsonObject:
        return {"memory_id": self.memory_id, "strength": round(self.strength, 4)}


@dataclass(frozen=True, slots=True)
class WeakMemories:
    """What has faded, each list weakest first. `forgettable` may go with the next sweep, unless one is the last of its
    category; `recoverable` are weak and a use brings them back; `protected` would be forgettable and are not."""

    forgettable: tuple[Faded, ...] = ()
    recoverable: tuple[Faded, ...] = ()
    protected: tuple[Faded, ...] = ()

    def to_json(self, *, include_recoverable: bool = True) -> JsonObject:
        """In the seed's names, with `protected` beside."""
        recoverable = [one.to_json() for one in self.recoverable]
        return {
            "forgettable": [one.memory_id for one in self.forgettable],
            "protected": [one.memory_id for one in self.protected],
            **({"recoverable": recoverable} if include_recoverable else {}),
        }


def weak(subjects: Iterable[Subject], now_s: float, rules: StrengthRules = SEEDS_RULES) -> WeakMemories:
    """The live memories that are weak or forgettable."""
    forgettable: list[Faded] = []
    recoverable: list[Faded] = []
    protected: list[Faded] = []
    for subject in subjects:
        if subject.standing is not Standing.LIVE:
            continue
        faded = Faded(subject.memory.id, current(vitals(subject), now_s, rules))
        reached = state(faded.strength, rules)
        if reached is StrengthState.WEAK:
            recoverable.append(faded)
        elif reached is StrengthState.FORGETTABLE:
            (protected if subject.is_protected else forgettable).append(faded)
    return WeakMemories(_weakest_first(forgettable), _weakest_first(recoverable), _weakest_first(protected))


Category = tuple[str, str | None, str, str | None]


def category(memory: Memory) -> Category:
    """Memories that can stand for each other, so that one of them has to stay: those of one project, agent and type
    with the same `metadata["category"]`. Tags do not count: nearly every memory would be the last with one of them."""
    named = memory.metadata.get("category")
    return memory.scope.project, memory.scope.agent, memory.type.value, named if isinstance(named, str) else None


def weakest_that_may_go(faded: Sequence[tuple[Subject, Archive]], there: Mapping[Category, int]) -> Iterator[MemoryId]:
    """Those that may leave while the strongest of each category stays. `there` counts all of each that are there."""
    weakest_first = sorted(faded, key=lambda one: (one[1].figures["strength"], *_rank(one[0].memory)))
    return those_that_may_go(((one.memory.id, category(one.memory)) for one, _ in weakest_first), there)


def those_that_may_go(weakest_first: Iterable[tuple[_Name, _Kind]], there: Mapping[_Kind, int]) -> Iterator[_Name]:
    """Those of them, given with their categories, whose category still has another one when they have gone. `there`
    counts all of each that are there."""
    left = Counter(there)
    for name, kind in weakest_first:
        if left[kind] > 1:
            left[kind] -= 1
            yield name


def vitals(subject: Subject) -> Vitals:
    usage = subject.usage
    return Vitals.of(subject.memory, subject.strength, accesses=usage.accesses, last_used=usage.last_used)


def _rank(memory: Memory) -> tuple[float, float, str]:
    """Between equally strong ones: the less significant, the older one goes first."""
    return memory.significance, memory.updated_at.timestamp(), memory.id


def _weakest_first(faded: Iterable[Faded]) -> tuple[Faded, ...]:
    return tuple(sorted(faded, key=lambda one: (one.strength, one.memory_id)))
