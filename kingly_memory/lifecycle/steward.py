"""The steward asks every policy about every memory and makes one plan of what they say. Nothing else forgets. Pure.

What wins when policies differ, the first line first:

1. The end of a lifetime: erased (working memories and copies) or archived.
2. Too little strength: archived.
3. A tier that a memory has outlived, or that holds too much: archived, or archived behind a summary.
4. A move to another tier, up before down.

Nothing of this takes away what is pinned or of a significance of 0.8 and more (which has no lifetime unless it is a
working memory), nor, but for the first line, the last memory of its category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import ending
from kingly_memory.lifecycle.consolidation import Consolidation, consolidate
from kingly_memory.lifecycle.forgetting import Category, Forgetting, category, weakest_that_may_go
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Keep, Promote, Summarise, Verdict
from kingly_memory.models import JsonObject, Tier

LIFETIMES, STRENGTH, TIERS = "lifetimes", "strength", "tiers"
POLICIES = (LIFETIMES, STRENGTH, TIERS)
"""In the order of precedence."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What a sweep asks; None leaves a policy out."""

    lifetimes: bool = True
    strength: Forgetting | None = None
    tiers: Tiering | None = None

    @property
    def names(self) -> tuple[str, ...]:
        asked = (self.lifetimes, self.strength is not None, self.tiers is not None)
        return tuple(name for name, is_asked in zip(POLICIES, asked, strict=True) if is_asked)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of one memory, as its text (`revision`) and its facets (`mark`) were then. `policy` names who
    wants it."""

    memory_id: MemoryId
    revision: int
    mark: int
    policy: str
    verdict: Verdict

    def to_json(self) -> JsonObject:
        return {
            "memory_id": self.memory_id,
            "policy": self.policy,
            "does": type(self.verdict).__name__.lower(),
            **({"to": self.verdict.to.value} if isinstance(self.verdict, Promote | Demote) else {}),
            "reason": self.verdict.reason,
            "figures": {name: round(value, 4) for name, value in self.verdict.figures.items()},
        }


@dataclass(frozen=True, slots=True)
class Census:
    """How many memories of the project there are, by where they are."""

    live: int = 0
    archived: int = 0
    tiers: Mapping[Tier, int] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {
            "live": self.live,
            "archived": self.archived,
            "tiers": {tier.value: count for tier, count in self.tiers.items()},
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep would do, in the order in which it would: nothing in it is kept as it is. `waiting` counts ended
    memories that a remote has yet to acknowledge, `spared` what protection keeps."""

    at_s: float
    policies: tuple[str, ...]
    decisions: tuple[Decision, ...] = ()
    waiting: int = 0
    spared: int = 0
    before: Census = field(default_factory=Census)
    after: Census = field(default_factory=Census)

    def those(self, kind: type[Verdict]) -> tuple[Decision, ...]:
        return tuple(one for one in self.decisions if isinstance(one.verdict, kind))


def chosen(names: Iterable[str] | None, available: Policies, usual: Sequence[str]) -> Policies:
    """The policies of those names, or the usual ones. Raises InvalidInput."""
    wanted = tuple(usual if names is None else names)
    for name in wanted:
        if name not in POLICIES:
            raise InvalidInput("policies", f"{str(name)[:40]!r} is unknown; choose of {', '.join(POLICIES)}")
    return Policies(
        lifetimes=LIFETIMES in wanted,
        strength=available.strength if STRENGTH in wanted else None,
        tiers=available.tiers if TIERS in wanted else None,
    )


def plan(
    policies: Policies, ended: Iterable[Subject], subjects: Iterable[Subject], now_s: float, archived: int = 0
) -> Plan:
    """One plan for what has ended anywhere in the store, and for the live memories of a project.

    Reads both to their ends, once, and holds little of each. `archived` is how many of the project are so already.
    """
    return _Survey(policies, now_s).plan(ended, subjects, archived)


class _Survey:
    """One planning."""

    def __init__(self, policies: Policies, now_s: float) -> None:
        self._policies = policies
        self._now_s = now_s
        self._waiting = 0
        self._spared = 0
        self._live = 0
        self._left: Counter[type[Verdict]] = Counter()
        self._categories: Counter[Category] = Counter()
        self._seen: dict[MemoryId, tuple[int, int]] = {}
        self._fading: list[tuple[Subject, Archive]] = []

    def plan(self, ended: Iterable[Subject], subjects: Iterable[Subject], archived: int) -> Plan:
        over = self._over(ended) if self._policies.lifetimes else {}
        faded: list[Decision] = []
        run = self._consolidated(chain(self._staying(over, subjects), self._spare(faded)))
        moved = [self._decision(memory_id, TIERS, verdict) for memory_id, verdict in run.verdicts.items()]
        self._left.update(type(one.verdict) for one in (*faded, *moved))
        into_archive = self._left[Archive] + self._left[Summarise]
        return Plan(
            at_s=self._now_s,
            policies=self._policies.names,
            decisions=(*over.values(), *faded, *moved),
            waiting=self._waiting,
            spared=self._spared,
            before=Census(self._live, archived, run.before),
            after=Census(
                self._live - into_archive - self._left[Expire] + run.summaries, archived + into_archive, run.after
            ),
        )

    def _over(self, ended: Iterable[Subject]) -> dict[MemoryId, Decision]:
        decided = ((subject.memory.id, self._ended(subject)) for subject in ended)
        return {memory_id: decision for memory_id, decision in decided if decision is not None}

    def _ended(self, subject: Subject) -> Decision | None:
        verdict = ending.decide(subject, self._now_s)
        if isinstance(verdict, Keep):
            self._waiting += subject.awaited
            return None
        self._seen[subject.memory.id] = subject.memory.revision, subject.mark
        return self._decision(subject.memory.id, LIFETIMES, verdict)

    def _staying(self, over: Mapping[MemoryId, Decision], subjects: Iterable[Subject]) -> Iterator[Subject]:
        """Those that no policy but the tiers may take away, while the others are noted."""
        for subject in subjects:
            self._live += 1
            decision = over.get(subject.memory.id)
            if decision is not None:
                self._left[type(decision.verdict)] += 1
                continue
            self._categories[category(subject.memory)] += 1
            self._seen[subject.memory.id] = subject.memory.revision, subject.mark
            verdict = self._faded(subject)
            if isinstance(verdict, Archive):
                self._fading.append((_light(subject), verdict))
            else:
                yield subject

    def _faded(self, subject: Subject) -> Verdict | None:
        strength = self._policies.strength
        return None if strength is None else strength.decide(subject, self._now_s)

    def _spare(self, faded: list[Decision]) -> Iterator[Subject]:
        """The last of each category, once all are known; the others leave."""
        leaving = set(weakest_that_may_go(self._fading, self._categories))
        for subject, verdict in self._fading:
            if subject.memory.id in leaving:
                faded.append(self._decision(subject.memory.id, STRENGTH, verdict))
            else:
                self._spared += 1
                yield subject

    def _consolidated(self, subjects: Iterable[Subject]) -> Consolidation:
        tiers = self._policies.tiers
        if tiers is not None:
            return consolidate(tiers, subjects, self._now_s)
        for _ in subjects:
            pass
        return Consolidation()

    def _decision(self, memory_id: MemoryId, policy: str, verdict: Verdict) -> Decision:
        return Decision(memory_id, *self._seen[memory_id], policy, verdict)


def _light(subject: Subject) -> Subject:
    """Without what may be long: a plan for many memories must not hold their texts."""
    return replace(subject, memory=replace(subject.memory, content="", title=None, tags=subject.memory.tags[:1]))
