"""The plan of a sweep: what every policy says about every memory, put together. Nothing else forgets. Pure.

What wins when policies differ, the first line first:

1. The end of a memory: erased (working memories below 0.8, and copies) or archived.
2. Too little strength: archived.
3. A tier that a memory has outlived, or that holds too much: archived, or archived behind a summary.
4. A move to another tier: down, or up for what has earned it.

Nothing of this takes away what is pinned or of a significance of 0.8 and more (which ends only where its owner named an
end or it is a working memory), nor the last memory of its category: only its end does, which was said when it was
stored and hides it from that instant, whoever sweeps.

A tier over its size lets go of the least important: FAST one tier down, MEDIUM and SLOW behind summaries that rest in
GLACIAL, GLACIAL to the archive. Protected memories hold their place, and what moved within the cooldown is not asked to
leave again: until that ends, a tier may be too full. One that nothing else would be summed up with goes to the archive
without a summary; so does one whose lifetime has ended, and a summary itself. Working memories end by themselves: they
may step down, and never leave, so that no summary outlives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import chain

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.decay import SEEDS_RULES, StrengthRules
from kingly_memory.lifecycle.lifetimes import LIFETIMES, is_expired
from kingly_memory.lifecycle.policies import (
    Archive,
    Demote,
    Move,
    Promote,
    Subject,
    Summarise,
    Verdict,
)
from kingly_memory.lifecycle.tiers import SEEDS_TIERS
from kingly_memory.models import SUMMARY, JsonObject, Memory, MemoryType, Tier
from kingly_memory.settings import Tiers

STRENGTH, TIERS = "strength", "tiers"
POLICIES = (LIFETIMES, STRENGTH, TIERS)
"""In the order of precedence."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The names of those that a sweep asks, in the order of precedence, and the figures that they go by."""

    names: tuple[str, ...] = (LIFETIMES,)
    strength: StrengthRules = SEEDS_RULES
    tiers: Tiers = SEEDS_TIERS

    @classmethod
    def chosen(
        cls, names: Iterable[str] | None, usual: Sequence[str], strength: StrengthRules, tiers: Tiers
    ) -> Policies:
        """The policies of those names, or of that one, or the usual ones. Raises InvalidInput."""
        wanted = tuple(usual) if names is None else validation.texts("policies", names)
        for name in wanted:
            validation.one_of("policies", name, POLICIES)
        return cls(tuple(name for name in POLICIES if name in wanted), strength, tiers)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of one memory, as its text (`revision`) and its facets (`mark`) were then. `policy` names who
    wants it. `elsewhere`: the memory has ended and belongs to another project than the one that sweeps."""

    memory_id: MemoryId
    revision: int
    mark: int
    policy: str
    verdict: Verdict
    elsewhere: bool = False

    def to_json(self) -> JsonObject:
        return {
            "memory_id": self.memory_id,
            "policy": self.policy,
            "does": type(self.verdict).__name__.lower(),
            **({"to": self.verdict.to.value} if isinstance(self.verdict, Move) else {}),
            "reason": self.verdict.reason,
            "figures": {name: round(value, 4) for name, value in self.verdict.figures.items()},
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep would do, in the order in which it would: nothing in it is kept as it is. `waiting` counts ended
    memories that a remote has yet to acknowledge, `spared` the last of their categories, `summaries` what is to be
    written. All counts are of the sweeping project. Those that go behind the same summary come one after the other, at
    the end."""

    policies: tuple[str, ...]
    decisions: tuple[Decision, ...] = ()
    waiting: int = 0
    spared: int = 0
    summaries: int = 0


def plan(
    chosen: Policies,
    now_s: float,
    space: str,
    *,
    ended: Iterable[Subject] = (),
    live: Iterable[Subject] = (),
) -> Plan:
    """What a sweep of the project would do: with what has `ended` anywhere in the store, and with its `live` memories,
    whose texts are not held.

    `live` is read only where a policy has to see every memory: what has ended is found by the index of lifetimes.
    """
    over: dict[MemoryId, Decision] = {}
    waiting = 0
    for subject in ended if LIFETIMES in chosen.names else ():
        verdict = policies.ended(subject, now_s)
        is_elsewhere = subject.memory.scope.space != space
        if verdict is None:
            waiting += subject.awaited and not is_elsewhere
            continue
        over[subject.memory.id] = _decision(subject, LIFETIMES, verdict, elsewhere=is_elsewhere)

    is_tiered = TIERS in chosen.names
    crowd = _Crowd(chosen.tiers, now_s)
    categories: Counter[Category] = Counter()
    fading: list[tuple[Archive, Subject]] = []
    for subject in live if is_tiered or STRENGTH in chosen.names else ():
        if subject.memory.id in over:
            continue
        categories[category(subject.memory)] += 1
        weak = policies.faded(subject, now_s, chosen.strength) if STRENGTH in chosen.names else None
        if isinstance(weak, Archive):
            fading.append((weak, _light(subject)))
        elif is_tiered:
            crowd.see(_light(subject))

    faded: list[Decision] = []
    spared: set[MemoryId] = set()
    # Between equally strong ones the less significant, the older one goes first.
    fading.sort(
        key=lambda pair: (
            pair[0].figures["strength"],
            pair[1].memory.significance,
            pair[1].memory.updated_at.timestamp(),
            pair[1].memory.id,
        )
    )
    for weak, subject in fading:
        if categories[category(subject.memory)] > 1:
            categories[category(subject.memory)] -= 1
            faded.append(_decision(subject, STRENGTH, weak))
        else:
            if is_tiered:
                crowd.see(subject)  # what is spared by both policies is counted once
            spared.add(subject.memory.id)
    moved = crowd.decided(categories)

    return Plan(
        policies=chosen.names,
        decisions=(*over.values(), *faded, *_summarised_last(moved)),
        waiting=waiting,
        spared=len(spared | crowd.spared),
        summaries=crowd.summaries,
    )


Category = tuple[str | None, str, str | None]
Heading = tuple[str | None, str]
"""Whose memories a summary joins: agent and topic."""


def category(memory: Memory) -> Category:
    """Memories that can stand for each other, so that one of them has to stay: those of one agent and type with one
    `metadata["category"]`. Tags do not count: nearly every memory would be the last with one of them."""
    named = memory.metadata.get("category")
    return memory.scope.agent, memory.type.value, named if isinstance(named, str) else None


def heading(memory: Memory) -> Heading:
    """The summary that a memory would go into. The topic is `metadata["topic"]`, else the first tag, else the type."""
    named = memory.metadata.get("topic")
    topic = named if isinstance(named, str) and named.strip() else next(iter(memory.tags), memory.type.value)
    return memory.scope.agent, topic


def _light(subject: Subject) -> Subject:
    """Without its text, which a plan need not hold."""
    return replace(subject, memory=replace(subject.memory, content="", title=None, tags=subject.memory.tags[:1]))


def _decision(subject: Subject, policy: str, verdict: Verdict, *, elsewhere: bool = False) -> Decision:
    return Decision(subject.memory.id, subject.memory.revision, subject.mark, policy, verdict, elsewhere)


def _summarised_last(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """So that a summary is written and used before the next one is."""
    behind: defaultdict[Heading, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if isinstance(decision.verdict, Summarise):
            behind[decision.verdict.agent, decision.verdict.topic].append(decision)
        else:
            yield decision
    yield from chain.from_iterable(behind.values())


# --- the sizes of the tiers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Resident:
    """A memory in the tier where the decision on it alone leaves it. `is_settled`: it has neither moved lately nor is
    about to."""

    subject: Subject
    tier: Tier
    importance: float
    is_settled: bool

    @property
    def may_leave(self) -> bool:
        return self.is_settled and self.subject.memory.type is not MemoryType.WORKING

    @property
    def order(self) -> tuple[float, str]:
        return self.importance, self.subject.memory.id


class _Crowd:
    """The memories of the tiers, seen one by one. Sizes count for all, moves for those that may."""

    def __init__(self, rules: Tiers, now_s: float) -> None:
        self._rules = rules
        self._now_s = now_s
        self._tiers: dict[Tier, list[_Resident]] = {tier: [] for tier in Tier}
        self._moves: list[tuple[Tier, Decision]] = []
        self._outlived: dict[MemoryId, Decision] = {}
        self._removed: list[_Resident] = []
        self.summaries = 0
        self.spared: set[MemoryId] = set()

    def see(self, subject: Subject) -> None:
        placement = subject.placed(self._rules)
        verdict = policies.tiered(subject, self._now_s, self._rules)
        tier = verdict.to if isinstance(verdict, Move) else placement.tier
        is_settled = verdict is None and not placement.is_cooling(self._now_s)
        importance = subject.importance(self._now_s, self._rules, tier)
        resident = _Resident(subject, tier, importance, is_settled)
        if isinstance(verdict, Archive):
            self._outlived[subject.memory.id] = _decision(subject, TIERS, verdict)
            self._removed.append(resident)
            return
        if verdict is not None:
            self._moves.append((placement.tier, _decision(subject, TIERS, verdict)))
        self._tiers[tier].append(resident)

    def decided(self, categories: Counter[Category]) -> list[Decision]:
        """All moves, downward from FAST and then upward from GLACIAL. `categories` counts what is there."""

        def may_step_down(resident: _Resident) -> bool:
            return resident.is_settled and not resident.subject.placed(self._rules).is_held(self._now_s, upward=False)

        for resident in self._overflow(Tier.FAST, may_step_down):
            importance = resident.subject.importance(self._now_s, self._rules, Tier.MEDIUM)
            self._tiers[Tier.MEDIUM].append(_Resident(resident.subject, Tier.MEDIUM, importance, is_settled=False))
            verdict: Verdict = Demote(*self._crowded(resident), to=Tier.MEDIUM)
            self._moves.append((Tier.FAST, _decision(resident.subject, TIERS, verdict)))
        for tier in (Tier.MEDIUM, Tier.SLOW):
            self._removed += self._overflow(tier, lambda one: one.may_leave)
        self.summaries = sum(count > 1 for count in self._together().values())
        self._removed += self._overflow(Tier.GLACIAL, lambda one: one.may_leave)
        self._spare_the_last(Counter(categories))
        together = self._together()
        self.summaries = sum(count > 1 for count in together.values())
        for resident in self._removed:
            decision = self._outlived.get(resident.subject.memory.id)
            if decision is None:
                verdict = Archive(*self._crowded(resident))
                agent, topic = heading(resident.subject.memory)
                if self._may_be_summarised(resident) and together[agent, topic] > 1:
                    figures = {**verdict.figures, "significance": resident.subject.memory.significance}
                    verdict = Summarise(verdict.reason, figures, topic=topic, agent=agent)
                decision = _decision(resident.subject, TIERS, verdict)
            self._moves.append((resident.tier, decision))

        def turn(move: tuple[Tier, Decision]) -> tuple[bool, int, str]:
            is_upward, rank = isinstance(move[1].verdict, Promote), tuple(Tier).index(move[0])
            return is_upward, -rank if is_upward else rank, move[1].memory_id

        return [decision for _, decision in sorted(self._moves, key=turn)]

    def _overflow(self, tier: Tier, may_go: Callable[[_Resident], bool]) -> list[_Resident]:
        """As many of the least important as the tier holds too many, taken out where they may go. Those who may not are
        among them, so that a newcomer of little importance does not push out what matters more."""
        size = len(self._tiers[tier]) + (self.summaries if tier is Tier.GLACIAL else 0)
        excess = size - self._rules.configs[tier].max_items
        if excess <= 0:
            return []
        # Protected memories hold their place, but FAST lets go of them too: a step down loses nothing.
        among = [one for one in self._tiers[tier] if tier is Tier.FAST or not one.subject.is_protected]
        going = [one for one in nsmallest(excess, among, key=lambda one: one.order) if may_go(one)]
        gone = {one.subject.memory.id for one in going}
        self._tiers[tier] = [one for one in self._tiers[tier] if one.subject.memory.id not in gone]
        return going

    def _spare_the_last(self, remaining: Counter[Category]) -> None:
        """Of several that leave, the most important of a category that would be empty stays where it is, and the tier
        may be too full for it. A summary of one is none."""
        going = []
        for resident in sorted(self._removed, key=lambda resident: resident.order):
            kind = category(resident.subject.memory)
            if remaining[kind] > 1:
                remaining[kind] -= 1
                going.append(resident)
            else:
                self.spared.add(resident.subject.memory.id)
                self._tiers[resident.tier].append(resident)
        self._removed = going

    def _together(self) -> Counter[Heading]:
        """How many would share each summary."""
        return Counter(heading(one.subject.memory) for one in self._removed if self._may_be_summarised(one))

    def _may_be_summarised(self, resident: _Resident) -> bool:
        """What rests in GLACIAL, has ended or is a summary itself goes without a summary."""
        is_summary = resident.subject.memory.metadata.get("record") == SUMMARY
        return (
            resident.tier is not Tier.GLACIAL
            and not is_summary
            and not is_expired(resident.subject.lifetime, self._now_s)
        )

    def _crowded(self, resident: _Resident) -> tuple[str, dict[str, float]]:
        reason = f"the {resident.tier.value} tier holds too much, and this is of the least importance there"
        return reason, {"importance": resident.importance, "max_items": self._rules.configs[resident.tier].max_items}
