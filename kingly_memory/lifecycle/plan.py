"""The plan of a sweep: what every policy says about every memory, put together. Nothing else forgets. Pure.

What wins when policies differ, the first line first:

1. The end of a memory: erased (working memories below 0.8, and copies) or archived.
2. Another memory that says the same: archived, and merged into it. What follows sees the two as one.
3. Too little strength: archived.
4. A tier that a memory has outlived, or that holds too much: archived, or archived behind a summary.
5. A move to another tier: down, or up for what has earned it.

Nothing of this takes away what is pinned or of a significance of 0.8 and more (which ends only where its owner named an
end or it is a working memory), nor the last memory of its category: only its end does, which was said when it was
stored and hides it from that instant, whoever sweeps.

A tier over its size lets go of the least important: FAST one tier down, MEDIUM and SLOW behind summaries that rest in
GLACIAL, GLACIAL to the archive. Protected memories hold their place, and what moved within the cooldown is not asked to
leave again: until that ends, a tier may be too full. One that nothing else would be summed up with goes to the archive
without a summary, and so does one whose lifetime has ended. Working memories end by themselves: they may step down, and
never leave, so that no summary outlives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.duplicates import Group
from kingly_memory.lifecycle.lifetimes import LIFETIMES, is_expired
from kingly_memory.lifecycle.policies import (
    Archive,
    Demote,
    Expire,
    Keep,
    LifecycleRules,
    Merge,
    Move,
    Promote,
    Subject,
    Summarise,
    Verdict,
)
from kingly_memory.lifecycle.tiers import TierRules, below
from kingly_memory.models import JsonObject, Memory, MemoryType, Standing, Tier

MERGING, STRENGTH, TIERS = "merging", "strength", "tiers"
POLICIES = (LIFETIMES, MERGING, STRENGTH, TIERS)
"""In the order of precedence."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The names of those that a sweep asks, in the order of precedence, and the figures that they go by."""

    names: tuple[str, ...] = (LIFETIMES,)
    rules: LifecycleRules = field(default_factory=LifecycleRules)

    @classmethod
    def chosen(cls, names: Iterable[str] | None, usual: Sequence[str], rules: LifecycleRules) -> Policies:
        """The policies of those names, or of that one, or the usual ones. Raises InvalidInput."""
        wanted = tuple(usual) if names is None else validation.texts("policies", names)
        for name in wanted:
            if name not in POLICIES:
                raise InvalidInput(
                    "policies", f"{validation.shown(name)!r} is unknown; choose of {', '.join(POLICIES)}"
                )
        return cls(tuple(name for name in POLICIES if name in wanted), rules)

    @property
    def reads_all(self) -> bool:
        """Whether every live memory has to be looked at; what has ended is found by the index of lifetimes."""
        return self.names not in ((), (LIFETIMES,))


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of one memory, as its text (`revision`) and its facets (`mark`) were then. `policy` names who
    wants it. What has ended may be `elsewhere`, in another project, which is told nothing of it."""

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
            **({"into": self.verdict.into} if isinstance(self.verdict, Merge) else {}),
            "reason": self.verdict.reason,
            "figures": {name: round(value, 4) for name, value in self.verdict.figures.items()},
        }


@dataclass(frozen=True, slots=True)
class Census:
    """How many memories of the project there are, by where they are. `tiers` adds up to `live`; it is empty where the
    tiers were not asked."""

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
    memories that a remote has yet to acknowledge, `spared` the last of their categories, `summaries` what is to be
    written. All counts are of the sweeping project. Those that go behind the same summary come one after the other, at
    the end. `twins` say the same as others and are not merged because they have keys: each with the other one."""

    at_s: float
    policies: tuple[str, ...]
    decisions: tuple[Decision, ...] = ()
    waiting: int = 0
    spared: int = 0
    summaries: int = 0
    twins: tuple[tuple[MemoryId, MemoryId], ...] = ()
    before: Census = field(default_factory=Census)
    after: Census = field(default_factory=Census)

    def those(self, kind: type[Verdict]) -> tuple[Decision, ...]:
        return tuple(one for one in self.decisions if isinstance(one.verdict, kind))


def plan(
    asked: Policies,
    now_s: float,
    project: str,
    *,
    counts: Mapping[str, int],
    ended: Iterable[Subject] = (),
    live: Iterable[Subject] = (),
    duplicates: Iterable[Group] = (),
) -> Plan:
    """What a sweep of the project would do: with what has `ended` anywhere in the store, and with its `live` memories,
    of which little is held. `counts` says how many are live, by type, and how many `archived`.

    `live` is read only where a policy has to see every memory; `duplicates` are groups of those.
    """
    rules = asked.rules
    over, left, waiting = _over(ended if LIFETIMES in asked.names else (), now_s, project)
    standing: dict[MemoryId, Subject] = {}
    merged: dict[MemoryId, Decision] = {}
    twins: list[tuple[MemoryId, MemoryId]] = []
    for group in duplicates:
        standing[group.was.memory.id] = group.stands
        merged |= {one.memory.id: _decision(one, MERGING, verdict) for one, verdict in group.merged}
        twins += [] if group.twin is None else [(group.was.memory.id, group.twin)]

    is_tiered = TIERS in asked.names
    crowd = _Crowd(rules.tiers, now_s)
    before: Counter[Tier] = Counter()
    categories: Counter[Category] = Counter()
    fading: list[tuple[Archive, Subject]] = []
    for one in live if asked.reads_all else ():
        if is_tiered:
            before[one.placed(rules.tiers).tier] += 1
        if one.memory.id in over or one.memory.id in merged:
            continue
        subject = standing.get(one.memory.id, one)
        categories[category(subject.memory)] += 1
        weak = policies.faded(subject, now_s, rules.strength) if STRENGTH in asked.names else None
        if isinstance(weak, Archive):
            light = replace(subject.memory, content="", title=None, tags=subject.memory.tags[:1])
            fading.append((weak, replace(subject, memory=light)))
        elif is_tiered:
            crowd.see(subject)

    faded: list[Decision] = []
    spared: set[MemoryId] = set()
    for weak, subject in sorted(fading, key=_weakest_first):
        if categories[category(subject.memory)] > 1:
            categories[category(subject.memory)] -= 1
            faded.append(_decision(subject, STRENGTH, weak))
        else:
            if is_tiered:
                crowd.see(subject)  # what is spared by both policies is counted once
            spared.add(subject.memory.id)
    moved = crowd.decided(categories)

    left.update(type(one.verdict) for one in (*merged.values(), *faded, *moved))
    into_archive = left[Archive] + left[Summarise] + left[Merge]
    live_count = sum(count for name, count in counts.items() if name != "archived")
    after_live = live_count - into_archive - left[Expire] + crowd.summaries
    return Plan(
        at_s=now_s,
        policies=asked.names,
        decisions=(*over.values(), *merged.values(), *faded, *_summarised_last(moved)),
        waiting=waiting,
        spared=len(spared | crowd.spared),
        summaries=crowd.summaries,
        twins=tuple(twins),
        before=Census(live_count, counts["archived"], {tier: before[tier] for tier in Tier} if is_tiered else {}),
        after=Census(after_live, counts["archived"] + into_archive, crowd.sizes if is_tiered else {}),
    )


def _over(
    ended: Iterable[Subject], now_s: float, project: str
) -> tuple[dict[MemoryId, Decision], Counter[type[Verdict]], int]:
    """The decisions on what has ended, how many live memories of the project those take away, and how many others wait
    for a remote."""
    decisions: dict[MemoryId, Decision] = {}
    left: Counter[type[Verdict]] = Counter()
    waiting = 0
    for subject in ended:
        verdict = policies.ended(subject, now_s)
        is_elsewhere = subject.memory.scope.project != project
        if isinstance(verdict, Keep):
            waiting += subject.awaited and not is_elsewhere
            continue
        decisions[subject.memory.id] = _decision(subject, LIFETIMES, verdict, elsewhere=is_elsewhere)
        if not is_elsewhere and subject.standing is Standing.LIVE:
            left[type(verdict)] += 1
    return decisions, left, waiting


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
    said = memory.metadata.get("topic")
    topic = said if isinstance(said, str) and said.strip() else next(iter(memory.tags), memory.type.value)
    return memory.scope.agent, topic


def _weakest_first(one: tuple[Archive, Subject]) -> tuple[float, float, float, str]:
    """Between equally strong ones the less significant, the older one goes first."""
    memory = one[1].memory
    return one[0].figures["strength"], memory.significance, memory.updated_at.timestamp(), memory.id


def _decision(subject: Subject, policy: str, verdict: Verdict, *, elsewhere: bool = False) -> Decision:
    return Decision(subject.memory.id, subject.memory.revision, subject.mark, policy, verdict, elsewhere)


def _summarised_last(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """So that a summary is written and used before the next one is."""
    behind: defaultdict[Heading, list[Decision]] = defaultdict(list)
    for one in decisions:
        if isinstance(one.verdict, Summarise):
            behind[one.verdict.agent, one.verdict.topic].append(one)
        else:
            yield one
    yield from chain.from_iterable(behind.values())


# --- the sizes of the tiers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Resident:
    """A memory in the tier where the decision on it alone leaves it; `keep` is that decision while it stays."""

    keep: Decision
    category: Category
    heading: Heading
    significance: float
    importance: float
    importance_below: float
    is_protected: bool
    may_leave: bool
    may_step_down: bool
    may_be_told: bool


class _Crowd:
    """The memories of the tiers, seen one by one; no text is held. Sizes count for all, moves for those that may."""

    def __init__(self, rules: TierRules, now_s: float) -> None:
        self._rules = rules
        self._now_s = now_s
        self._tiers: dict[Tier, list[_Resident]] = {tier: [] for tier in Tier}
        self._moves: list[tuple[Tier, Decision]] = []
        self._outlived: list[_Resident] = []
        self.summaries = 0
        self.spared: set[MemoryId] = set()

    @property
    def sizes(self) -> dict[Tier, int]:
        """How many live memories each tier holds afterwards, the summaries included."""
        sizes = {tier: len(residents) for tier, residents in self._tiers.items()}
        return {**sizes, Tier.GLACIAL: sizes[Tier.GLACIAL] + self.summaries}

    def see(self, subject: Subject) -> None:
        now_s, placement, memory = self._now_s, subject.placed(self._rules), subject.memory
        verdict = policies.tiered(subject, now_s, self._rules)
        decision = _decision(subject, TIERS, verdict)
        tier = verdict.to if isinstance(verdict, Move) else placement.tier
        is_settled = isinstance(verdict, Keep) and not placement.is_cooling(now_s)
        resident = _Resident(
            keep=decision,
            category=category(memory),
            heading=heading(memory),
            significance=memory.significance,
            importance=subject.importance(now_s, self._rules, tier),
            importance_below=subject.importance(now_s, self._rules, below(tier) or tier),
            is_protected=subject.is_protected,
            may_leave=is_settled and memory.type is not MemoryType.WORKING,
            may_step_down=is_settled and not placement.is_held(now_s, upward=False),
            may_be_told=not is_expired(subject.lifetime, now_s),
        )
        if isinstance(verdict, Archive):
            self._outlived.append(resident)
            return
        if not isinstance(verdict, Keep):
            self._moves.append((placement.tier, decision))
        self._tiers[tier].append(resident)

    def decided(self, categories: Counter[Category]) -> list[Decision]:
        """All moves, downward from FAST and then upward from GLACIAL. `categories` counts what is there."""
        for one in self._overflow(Tier.FAST, lambda one: one.may_step_down):
            self._tiers[Tier.MEDIUM].append(replace(one, importance=one.importance_below, may_leave=False))
            verdict: Verdict = Demote(*self._why(one, Tier.FAST), to=Tier.MEDIUM)
            self._moves.append((Tier.FAST, replace(one.keep, verdict=verdict)))
        leaving = [(tier, one) for tier in (Tier.MEDIUM, Tier.SLOW) for one in self._overflow(tier, _may_leave)]
        self.summaries = sum(count > 1 for count in _together(leaving).values())
        leaving += [(Tier.GLACIAL, one) for one in (*self._overflow(Tier.GLACIAL, _may_leave), *self._outlived)]
        leaving = self._without_the_last(leaving, categories)
        together = _together(leaving)
        self.summaries = sum(count > 1 for count in together.values())
        for tier, one in leaving:
            verdict = one.keep.verdict
            if not isinstance(verdict, Archive):
                verdict = Archive(*self._why(one, tier))
                if tier is not Tier.GLACIAL and one.may_be_told and together[one.heading] > 1:
                    agent, topic = one.heading
                    figures = {**verdict.figures, "significance": one.significance}
                    verdict = Summarise(verdict.reason, figures, topic=topic, agent=agent)
            self._moves.append((tier, replace(one.keep, verdict=verdict)))
        return [decision for _, decision in sorted(self._moves, key=_turn)]

    def _overflow(self, tier: Tier, may_go: Callable[[_Resident], bool]) -> list[_Resident]:
        """As many of the least important as the tier holds too many, taken out where they may go. Those who may not are
        among them, so that a newcomer of little importance does not push out what matters more."""
        excess = self.sizes[tier] - self._rules.configs[tier].max_items
        if excess <= 0:
            return []
        # Protected memories hold their place, but FAST lets go of them too: a step down loses nothing.
        among = [one for one in self._tiers[tier] if tier is Tier.FAST or not one.is_protected]
        least = nsmallest(excess, among, key=lambda one: (one.importance, one.keep.memory_id))
        going = {one.keep.memory_id: one for one in least if may_go(one)}
        self._tiers[tier] = [one for one in self._tiers[tier] if one.keep.memory_id not in going]
        return list(going.values())

    def _without_the_last(
        self, leaving: list[tuple[Tier, _Resident]], categories: Counter[Category]
    ) -> list[tuple[Tier, _Resident]]:
        """Of several that leave, the most important of a category that would be empty stays where it is, and the tier
        may be too full for it. A summary of one is none."""
        there = Counter(categories)
        going = []
        for tier, one in sorted(leaving, key=lambda one: (one[1].importance, one[1].keep.memory_id)):
            if there[one.category] > 1:
                there[one.category] -= 1
                going.append((tier, one))
            else:
                self.spared.add(one.keep.memory_id)
                self._tiers[tier].append(one)
        return going

    def _why(self, one: _Resident, tier: Tier) -> tuple[str, dict[str, float]]:
        reason = f"the {tier.value} tier holds too much, and this is of the least importance there"
        return reason, {"importance": one.importance, "max_items": self._rules.configs[tier].max_items}


def _may_leave(one: _Resident) -> bool:
    return one.may_leave


def _together(leaving: Iterable[tuple[Tier, _Resident]]) -> Counter[Heading]:
    """How many would share each summary."""
    return Counter(one.heading for tier, one in leaving if tier is not Tier.GLACIAL and one.may_be_told)


def _turn(move: tuple[Tier, Decision]) -> tuple[bool, int, str]:
    """First downward from FAST, then upward from GLACIAL."""
    source, decision = move
    is_upward, place = isinstance(decision.verdict, Promote), tuple(Tier).index(source)
    return is_upward, -place if is_upward else place, decision.memory_id
