"""One run over all tiers: what moves, and what leaves a tier that holds too much (seed 003, decisions R1 and R5). Pure.

The candidates are collected first, so what one move changes is not seen by the next. Then two passes: downward, from
FAST to the archive, and upward, from GLACIAL to FAST. A tier over its size lets go of the least important: FAST one
tier down, MEDIUM and SLOW behind summaries that rest in GLACIAL, GLACIAL to the archive. Protected memories hold their
place, and what moved within the cooldown is not asked to leave again: until that ends, a tier may be too full. One that
nothing else would be summed up with goes to the archive without a summary, and so does one whose lifetime has ended.
Working memories end by themselves: they may step down, and never leave, so that no summary outlives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tiering import Tiering, faded_since_s
from kingly_memory.lifecycle.tiers import TierRules, below, decayed_importance
from kingly_memory.lifecycle.verdicts import Archive, Demote, Keep, Promote, Summarise, Verdict
from kingly_memory.models import JsonObject, Memory, MemoryType, Standing, Tier

Heading = tuple[str, str | None, str]
"""Whose memories a summary joins: project, agent and topic."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a run does. `verdicts` are in the order of the passes and hold nothing that is kept.

    `before` and `after` count the live memories of each tier, `after` with the summaries in GLACIAL.
    """

    verdicts: Mapping[MemoryId, Verdict] = field(default_factory=dict)
    before: Mapping[Tier, int] = field(default_factory=dict)
    after: Mapping[Tier, int] = field(default_factory=dict)
    summaries: int = 0

    def ids(self, kind: type[Verdict]) -> tuple[MemoryId, ...]:
        """Those that it promotes, demotes, …"""
        return tuple(memory_id for memory_id, verdict in self.verdicts.items() if isinstance(verdict, kind))

    def to_json(self) -> JsonObject:
        named = {"promoted": Promote, "demoted": Demote, "archived": Archive, "summarised": Summarise}
        ids = {name: list(self.ids(kind)) for name, kind in named.items()}
        return {
            "counts": {name: len(some) for name, some in ids.items()},
            "ids": ids,
            "summaries": self.summaries,
            "tier_counts": {"before": _by_name(self.before), "after": _by_name(self.after)},
        }


def heading(memory: Memory) -> Heading:
    """The summary that a memory would go into. The topic is `metadata["topic"]`, else the first tag, else the type."""
    said = memory.metadata.get("topic")
    topic = said if isinstance(said, str) and said.strip() else next(iter(memory.tags), memory.type.value)
    return memory.scope.project, memory.scope.agent, topic


def consolidate(tiering: Tiering, subjects: Iterable[Subject], now_s: float) -> Consolidation:
    """Decide on a whole population, whose order makes no difference. The sizes of the tiers are those of each project,
    so that no project's memories push out another's."""
    run = Run(tiering, now_s)
    for subject in subjects:
        run.see(subject)
    return run.decided()


class Run:
    """One run, which is shown the memories one by one and holds none of their texts."""

    def __init__(self, tiering: Tiering, now_s: float) -> None:
        self._tiering = tiering
        self._now_s = now_s
        self._moves: dict[MemoryId, _Move] = {}
        self._before: Counter[Tier] = Counter()
        self._projects: defaultdict[str, dict[MemoryId, _Resident]] = defaultdict(dict)
        self._headings: dict[Heading, Heading] = {}

    def see(self, subject: Subject) -> None:
        if subject.standing is not Standing.LIVE:
            return
        tier = self._tiering.placement(subject).tier
        self._before[tier] += 1
        verdict = self._tiering.decide(subject, self._now_s)
        if not isinstance(verdict, Keep):
            self._moves[subject.memory.id] = _Move(subject.memory.id, tier, verdict)
        if not isinstance(verdict, Archive):
            own = heading(subject.memory)
            joins = self._headings.setdefault(own, own)
            resident = _resident(self._tiering, subject, verdict, self._now_s, joins)
            self._projects[subject.memory.scope.project][subject.memory.id] = resident

    def take_back(self, subject: Subject) -> None:
        """As if it had not been seen; it is as it was then."""
        self._before[self._tiering.placement(subject).tier] -= 1
        self._moves.pop(subject.memory.id, None)
        self._projects[subject.memory.scope.project].pop(subject.memory.id, None)

    def decided(self) -> Consolidation:
        crowds = [_Crowd(residents.values(), self._tiering.rules) for residents in self._projects.values()]
        moves = [*self._moves.values(), *(move for crowd in crowds for move in crowd.let_go())]
        return Consolidation(
            verdicts={move.memory_id: move.verdict for move in sorted(moves, key=_turn)},
            before={tier: self._before[tier] for tier in Tier},
            after={tier: sum(crowd.size(tier) for crowd in crowds) for tier in Tier},
            summaries=sum(crowd.summaries for crowd in crowds),
        )


@dataclass(frozen=True, slots=True)
class _Move:
    memory_id: MemoryId
    source: Tier
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Resident:
    """A memory in the tier where the decisions on single memories leave it."""

    memory_id: MemoryId
    heading: Heading
    tier: Tier
    significance: float
    importance: float
    importance_below: float
    is_protected: bool
    may_leave: bool
    may_step_down: bool
    may_be_told: bool


class _Crowd:
    """The residents of one project, of whom some let go, from the nearest tier to the farthest."""

    def __init__(self, residents: Iterable[_Resident], rules: TierRules) -> None:
        self._rules = rules
        self._tiers: dict[Tier, list[_Resident]] = {tier: [] for tier in Tier}
        for resident in residents:
            self._tiers[resident.tier].append(resident)
        self.summaries = 0

    def size(self, tier: Tier) -> int:
        return len(self._tiers[tier]) + (self.summaries if tier is Tier.GLACIAL else 0)

    def let_go(self) -> list[_Move]:
        stepping = [one for one in self._least(Tier.FAST, self._tiers[Tier.FAST]) if one.may_step_down]
        self._tiers[Tier.MEDIUM] += [
            replace(one, tier=Tier.MEDIUM, importance=one.importance_below, may_leave=False) for one in stepping
        ]
        self._leave(Tier.FAST, stepping)
        leaving = {tier: self._overflow(tier) for tier in (Tier.MEDIUM, Tier.SLOW)}
        together = Counter(one.heading for some in leaving.values() for one in some if one.may_be_told)
        self.summaries = sum(count > 1 for count in together.values())
        leaving[Tier.GLACIAL] = self._overflow(Tier.GLACIAL)
        return [
            *(_Move(one.memory_id, Tier.FAST, Demote(Tier.MEDIUM, *self._why(one, Tier.FAST))) for one in stepping),
            *(
                _Move(one.memory_id, tier, self._eviction(one, tier, is_alone=together[one.heading] == 1))
                for tier, some in leaving.items()
                for one in some
            ),
        ]

    def _overflow(self, tier: Tier) -> list[_Resident]:
        unprotected = [one for one in self._tiers[tier] if not one.is_protected]
        leaving = [one for one in self._least(tier, unprotected) if one.may_leave]
        self._leave(tier, leaving)
        return leaving

    def _least(self, tier: Tier, among: Sequence[_Resident]) -> list[_Resident]:
        """As many of the least important as the tier holds too many. Those who may not leave are among them, so that
        a newcomer of little importance does not push out what matters more."""
        excess = self.size(tier) - self._rules.configs[tier].max_items
        return [] if excess <= 0 else nsmallest(excess, among, key=lambda one: (one.importance, one.memory_id))

    def _leave(self, tier: Tier, leaving: Sequence[_Resident]) -> None:
        gone = {one.memory_id for one in leaving}
        self._tiers[tier] = [one for one in self._tiers[tier] if one.memory_id not in gone]

    def _eviction(self, resident: _Resident, tier: Tier, *, is_alone: bool) -> Verdict:
        reason, figures = self._why(resident, tier)
        if tier is Tier.GLACIAL or is_alone or not resident.may_be_told:
            return Archive(reason, figures)
        _, agent, topic = resident.heading
        return Summarise(topic, reason, {**figures, "significance": resident.significance}, agent)

    def _why(self, resident: _Resident, tier: Tier) -> tuple[str, Mapping[str, float]]:
        return _TOO_FULL[tier], {"importance": resident.importance, "max_items": self._rules.configs[tier].max_items}


_TOO_FULL = {tier: f"the {tier.value} tier holds too much, and this is of the least importance there" for tier in Tier}


def _resident(tiering: Tiering, subject: Subject, verdict: Verdict, now_s: float, joins: Heading) -> _Resident:
    memory = subject.memory
    placement = tiering.placement(subject)
    tier = verdict.to if isinstance(verdict, Promote | Demote) else placement.tier
    age_s = now_s - faded_since_s(subject)
    is_settled = isinstance(verdict, Keep) and tiering.enabled and not tiering.is_cooling(placement, now_s)
    return _Resident(
        memory_id=memory.id,
        heading=joins,
        tier=tier,
        significance=memory.significance,
        importance=decayed_importance(memory.significance, age_s, tier, tiering.rules),
        importance_below=decayed_importance(memory.significance, age_s, below(tier) or tier, tiering.rules),
        is_protected=subject.is_protected,
        may_leave=is_settled and memory.type is not MemoryType.WORKING,
        may_step_down=is_settled and not tiering.is_held(placement, now_s, upward=False),
        may_be_told=not is_expired(subject.lifetime, now_s),
    )


_ORDER = {tier: place for place, tier in enumerate(Tier)}


def _turn(move: _Move) -> tuple[bool, int, str]:
    """First downward from FAST, then upward from GLACIAL."""
    is_upward = isinstance(move.verdict, Promote)
    place = _ORDER[move.source]
    return is_upward, -place if is_upward else place, move.memory_id


def _by_name(counts: Mapping[Tier, int]) -> dict[str, int]:
    return {tier.value: counts.get(tier, 0) for tier in Tier}
