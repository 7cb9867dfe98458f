"""The steward asks every policy about every memory and makes one plan of what they say. Nothing else forgets. Pure.

What wins when policies differ, the first line first:

1. The end of a memory: erased (working memories below 0.8, and copies) or archived.
2. Another memory that says the same: archived, and joined to it. What follows sees the two as one.
3. Too little strength: archived.
4. A tier that a memory has outlived, or that holds too much: archived, or archived behind a summary.
5. A move to another tier: down, or up for what has earned it.

Nothing of this takes away what is pinned or of a significance of 0.8 and more (which ends only where its owner named an
end or it is a working memory), nor the last memory of its category: only its end does, which was said when it was
stored and hides it from that instant, whoever sweeps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import ending, merging
from kingly_memory.lifecycle.consolidation import Consolidation, Run
from kingly_memory.lifecycle.forgetting import Category, Forgetting, category, those_that_may_go, weakest_that_may_go
from kingly_memory.lifecycle.lifetimes import LIFETIMES, is_expired
from kingly_memory.lifecycle.merging import Merging
from kingly_memory.lifecycle.restating import Saying
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Keep, Merge, Promote, Summarise, Verdict
from kingly_memory.models import JsonObject, Tier

MERGING, STRENGTH, TIERS = "merging", "strength", "tiers"
POLICIES = (LIFETIMES, MERGING, STRENGTH, TIERS)
"""In the order of precedence."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What a sweep asks; None leaves a policy out."""

    lifetimes: bool = True
    strength: Forgetting | None = None
    tiers: Tiering | None = None
    merging: Merging | None = None

    @property
    def names(self) -> tuple[str, ...]:
        asked = (self.lifetimes, *(one is not None for one in (self.merging, self.strength, self.tiers)))
        return tuple(name for name, is_asked in zip(POLICIES, asked, strict=True) if is_asked)


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
            **({"to": self.verdict.to.value} if isinstance(self.verdict, Promote | Demote) else {}),
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
    written. All counts are of the sweeping project.
    Those that go behind the same summary come one after the other, at the end. `twins` say the same as others and are
    not joined to them because they have keys: each with the other one."""

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


def chosen(names: Iterable[str] | None, available: Policies, usual: Sequence[str]) -> Policies:
    """The policies of those names, or of that one, or the usual ones. Raises InvalidInput."""
    wanted = tuple(usual) if names is None else intake.texts("policies", names)
    for name in wanted:
        if name not in POLICIES:
            raise InvalidInput("policies", f"{intake.shown(name)!r} is unknown; choose of {', '.join(POLICIES)}")
    return Policies(
        lifetimes=LIFETIMES in wanted,
        strength=available.strength if STRENGTH in wanted else None,
        tiers=available.tiers if TIERS in wanted else None,
        merging=available.merging if MERGING in wanted else None,
    )


def plan(
    policies: Policies,
    ended: Iterable[Subject],
    subjects: Iterable[Subject],
    now_s: float,
    archived: int = 0,
    *,
    project: str | None = None,
    alike: Callable[[], Iterable[tuple[Subject, Saying]]] = tuple,
) -> Plan:
    """What a sweep of the project (None for any) would do: with what has ended anywhere in the store, and with the live
    memories.

    Reads both to their ends, once, and holds little of each. `archived` is how many of the project are so already.
    `alike` is asked after that, for those that are not alone in what they say.
    """
    survey = _Survey(policies, now_s, project)
    for subject in ended:
        survey.see_ended(subject)
    for subject in subjects:
        survey.see(subject)
    for subject, saying in alike():
        survey.see_alike(subject, saying)
    return survey.plan(archived)


class _Survey:
    """One planning: shown what has ended, then the live memories, each one by one."""

    def __init__(self, policies: Policies, now_s: float, project: str | None) -> None:
        self._policies = policies
        self._project = project
        self._sayings: dict[MemoryId, Saying] = {}
        self._alike: list[Subject] = []
        self._now_s = now_s
        self._run = None if policies.tiers is None else Run(policies.tiers, now_s)
        self._waiting = 0
        self._spared: set[MemoryId] = set()
        self._live = 0
        self._left: Counter[type[Verdict]] = Counter()
        self._left_tiers: Counter[Tier] = Counter()
        self._categories: Counter[Category] = Counter()
        self._places: dict[MemoryId, _Place] = {}
        self._kinds: dict[_Place, _Place] = {}
        self._seen: dict[MemoryId, tuple[int, int]] = {}
        self._over: dict[MemoryId, Decision] = {}
        self._fading: dict[MemoryId, tuple[Subject, Archive]] = {}
        self._twins: list[tuple[MemoryId, MemoryId]] = []

    def see_ended(self, subject: Subject) -> None:
        if not self._policies.lifetimes:
            return
        verdict = ending.decide(subject, self._now_s)
        is_elsewhere = self._project not in (None, subject.memory.scope.project)
        if isinstance(verdict, Keep):
            self._waiting += subject.awaited and not is_elsewhere
            return
        memory_id = subject.memory.id
        self._seen[memory_id] = subject.memory.revision, subject.mark
        self._over[memory_id] = replace(self._decision(memory_id, LIFETIMES, verdict), elsewhere=is_elsewhere)

    def see(self, subject: Subject) -> None:
        """A live memory. Whether one that has faded may go is known once all have been seen."""
        self._live += 1
        decision = self._over.get(subject.memory.id)
        if decision is not None:
            self._leaves(subject, decision)
        else:
            self._see_staying(subject)

    def see_alike(self, subject: Subject, saying: Saying) -> None:
        """One that was seen before, and others say it too: what becomes of it is known once all have been seen. What
        was touched in between stands for itself."""
        is_as_seen = self._seen.get(subject.memory.id) == (subject.memory.revision, subject.mark)
        is_over = subject.memory.id in self._over or is_expired(subject.lifetime, self._now_s)
        if self._policies.merging is None or is_over or not is_as_seen:
            return
        self._take_back(subject)
        self._sayings[subject.memory.id] = saying
        self._alike.append(replace(subject, memory=replace(subject.memory, content="", title=None)))

    def _take_back(self, subject: Subject) -> None:
        """As if it had not been seen staying."""
        self._categories[category(subject.memory)] -= 1
        if self._fading.pop(subject.memory.id, None) is None and self._run is not None:
            self._run.take_back(subject)

    def _see_staying(self, subject: Subject) -> None:
        self._categories[category(subject.memory)] += 1
        self._seen[subject.memory.id] = subject.memory.revision, subject.mark
        verdict = self._faded(subject)
        if isinstance(verdict, Archive):
            self._fading[subject.memory.id] = _light(subject), verdict
        else:
            self._show_tiers(subject)

    def _show_tiers(self, subject: Subject) -> None:
        if self._run is None or self._policies.tiers is None:
            return
        self._run.see(subject)
        place = category(subject.memory), self._policies.tiers.placement(subject).tier
        self._places[subject.memory.id] = self._kinds.setdefault(place, place)

    def plan(self, archived: int) -> Plan:
        merged = self._merged()
        faded = self._leaving_for_strength()
        run = Consolidation() if self._run is None else self._sparing(self._run.decided())
        moved = [self._decision(memory_id, TIERS, verdict) for memory_id, verdict in run.verdicts.items()]
        self._left.update(type(one.verdict) for one in moved)
        into_archive = self._left[Archive] + self._left[Summarise] + self._left[Merge]
        left = self._live - into_archive - self._left[Expire] + run.summaries
        tiers = {tier: count + self._left_tiers[tier] for tier, count in run.before.items()}
        return Plan(
            at_s=self._now_s,
            policies=self._policies.names,
            decisions=(*self._over.values(), *merged, *faded, *_summarised_last(moved)),
            waiting=self._waiting,
            spared=len(self._spared),
            summaries=run.summaries,
            twins=tuple(self._twins),
            before=Census(self._live, archived, tiers),
            after=Census(left, archived + into_archive, run.after),
        )

    def _merged(self) -> list[Decision]:
        """Those that others say as well; what stands for them goes on as it will be then."""
        decisions: list[Decision] = []
        how = self._policies.merging
        for group in () if how is None else merging.groups(self._alike, self._sayings, how):
            for subject, verdict in group.joined:
                self._seen[subject.memory.id] = subject.memory.revision, subject.mark
                decisions.append(self._decision(subject.memory.id, MERGING, verdict))
                self._leaves(subject, decisions[-1])
            if group.twin is not None:
                self._twins.append((group.was.memory.id, group.twin))
            self._settles(group.was, group.stands)
            self._see_staying(group.stands)
        return decisions

    def _settles(self, was: Subject, stands: Subject) -> None:
        """What has gained significance may belong to another tier than it was counted in."""
        tiers = self._policies.tiers
        if tiers is not None:
            self._left_tiers[tiers.placement(was).tier] += 1
            self._left_tiers[tiers.placement(stands).tier] -= 1

    def _faded(self, subject: Subject) -> Verdict | None:
        strength = self._policies.strength
        if strength is None or strength.spares(subject, self._now_s):
            return None
        return strength.decide(subject, self._now_s)

    def _leaving_for_strength(self) -> list[Decision]:
        """Weakest first. The last of each category stays, and the tiers are asked about it."""
        decisions: list[Decision] = []
        fading = dict(self._fading)
        for memory_id in weakest_that_may_go(list(fading.values()), self._categories):
            subject, verdict = fading.pop(memory_id)
            decision = self._decision(memory_id, STRENGTH, verdict)
            self._leaves(subject, decision)
            self._categories[category(subject.memory)] -= 1
            decisions.append(decision)
        self._spared |= fading.keys()
        for subject, _ in fading.values():
            self._show_tiers(subject)
        return decisions

    def _sparing(self, run: Consolidation) -> Consolidation:
        """The run without what would take the last of a category: of several that leave, the most important stays
        where it is, and the tier may be too full for it. A summary of one is none."""
        leaving = [(one, verdict) for one, verdict in run.verdicts.items() if isinstance(verdict, Archive | Summarise)]
        least_first = sorted((verdict.figures["importance"], memory_id) for memory_id, verdict in leaving)
        named = ((memory_id, self._places[memory_id][0]) for _, memory_id in least_first)
        staying = {memory_id for memory_id, _ in leaving} - set(those_that_may_go(named, self._categories))
        if not staying:
            return run
        self._spared |= staying
        verdicts = {memory_id: verdict for memory_id, verdict in run.verdicts.items() if memory_id not in staying}
        together = Counter(_heading(verdict) for verdict in verdicts.values() if isinstance(verdict, Summarise))
        for memory_id, verdict in verdicts.items():
            if isinstance(verdict, Summarise) and together[_heading(verdict)] == 1:
                verdicts[memory_id] = Archive(verdict.reason, verdict.figures)
        summaries = sum(count > 1 for count in together.values())
        after = Counter(run.after)
        after.update(self._places[memory_id][1] for memory_id in staying)
        after[Tier.GLACIAL] -= run.summaries - summaries
        return replace(run, verdicts=verdicts, after=dict(after), summaries=summaries)

    def _leaves(self, subject: Subject, decision: Decision) -> None:
        self._left[type(decision.verdict)] += 1
        if self._policies.tiers is not None:
            self._left_tiers[self._policies.tiers.placement(subject).tier] += 1

    def _decision(self, memory_id: MemoryId, policy: str, verdict: Verdict) -> Decision:
        return Decision(memory_id, *self._seen[memory_id], policy, verdict)


_Place = tuple[Category, Tier]


def _heading(verdict: Summarise) -> tuple[str | None, str]:
    return verdict.agent, verdict.topic


def _light(subject: Subject) -> Subject:
    """Without what may be long: a plan for many memories must not hold their texts."""
    return replace(subject, memory=replace(subject.memory, content="", title=None, tags=subject.memory.tags[:1]))


def _summarised_last(decisions: Sequence[Decision]) -> list[Decision]:
    """So that a summary is written and used before the next one is."""
    others = [one for one in decisions if not isinstance(one.verdict, Summarise)]
    behind: defaultdict[tuple[str | None, str], list[Decision]] = defaultdict(list)
    for one in decisions:
        if isinstance(one.verdict, Summarise):
            behind[_heading(one.verdict)].append(one)
    return [*others, *chain.from_iterable(behind.values())]
