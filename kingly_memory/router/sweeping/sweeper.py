"""Sweeping: plan with what can be read, then carry out that plan and nothing else, a few memories at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Self, TypeVar

from kingly_memory.errors import SweepUnderWay
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.lifecycle import steward
from kingly_memory.lifecycle.compaction import Strategy
from kingly_memory.lifecycle.steward import Census, Decision, Plan, Policies
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Merge, Promote, Summarise, Verdict
from kingly_memory.models import JsonObject, MemoryType, Tier
from kingly_memory.ports import LocalStore, Transaction
from kingly_memory.router.landing import Landing
from kingly_memory.router.lock import Lock
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.sweeping import compacting, summaries, sweeps
from kingly_memory.router.sweeping.compacting import Compacting, Note
from kingly_memory.router.sweeping.duplicates import Lookout
from kingly_memory.router.sweeping.summaries import Behind
from kingly_memory.router.sweeping.sweeps import Sweep, Undone
from kingly_memory.router.write import WriteContext

T = TypeVar("T")
SHOWN = 100
"""Actions that a report lists; the counts are of all."""
AT_ONCE = 64
"""Decisions offered to one change, which takes as many as the time allows."""
PAUSE_S = 0.001
"""Between two changes, for searches and stores that wait."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did, or with `dry_run` would do. Of `archived`, `summarised` went behind one of the `summaries` that
    were written; `merged` are archived besides, and joined to those that are `standing` for them. `waiting` are ended
    ones a remote has yet to acknowledge, `spared` the last of their categories, `skipped` those that were touched after
    the plan was made. `kept_for_keys` say the same as others and are not merged because they have keys; `twins` names
    them with those others. All of that is the project's own; `elsewhere` counts those of other projects that had ended
    and went too, erased or archived. `ended` are what was erased, wherever it was. What was done lies under `id` until
    the next sweep."""

    archived: int = 0
    erased: int = 0
    waiting: int = 0
    dry_run: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)
    promoted: int = 0
    demoted: int = 0
    summarised: int = 0
    summaries: int = 0
    spared: int = 0
    skipped: int = 0
    policies: tuple[str, ...] = ()
    before: Census = field(default_factory=Census)
    after: Census = field(default_factory=Census)
    actions: tuple[JsonObject, ...] = ()
    ended: tuple[MemoryId, ...] = field(default=(), repr=False)
    merged: int = 0
    standing: tuple[MemoryId, ...] = field(default=(), repr=False)
    id: str = field(default="", repr=False)
    kept_for_keys: int = 0
    twins: tuple[tuple[MemoryId, MemoryId], ...] = field(default=(), repr=False)
    elsewhere: int = 0

    @property
    def can_be_undone(self) -> bool:
        return not self.dry_run and bool(self.archived or self.merged or self.promoted or self.demoted)

    def to_json(self) -> JsonObject:
        return {
            "archived": self.archived,
            "erased": self.erased,
            "promoted": self.promoted,
            "demoted": self.demoted,
            "summarised": self.summarised,
            "summaries": self.summaries,
            "merged": self.merged,
            "waiting": self.waiting,
            "spared": self.spared,
            "skipped": self.skipped,
            "kept_for_keys": self.kept_for_keys,
            "elsewhere": self.elsewhere,
            "dry_run": self.dry_run,
            "policies": list(self.policies),
            "reasons": dict(self.reasons),
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "actions": list(self.actions),
            "twins": [{"memory_id": one, "like": other} for one, other in self.twins],
        }


_WOULD: Mapping[type[Verdict], str] = {
    Archive: sweeps.ARCHIVING,
    Summarise: sweeps.SUMMARISING,
    Merge: sweeps.MERGING,
    Expire: sweeps.ERASING,
    Promote: sweeps.PROMOTING,
    Demote: sweeps.DEMOTING,
}


@dataclass(slots=True)
class Deeds:
    """What has become of a plan so far: `done` has decisions that were carried out, and how."""

    done: list[tuple[Decision, str]] = field(default_factory=list)
    summaries: int = 0
    skipped: int = 0

    @classmethod
    def planned(cls, plan: Plan) -> Self:
        return cls([(one, _WOULD[type(one.verdict)]) for one in plan.decisions], plan.summaries)

    def note(self, decisions: Sequence[Decision], outcomes: Sequence[str]) -> None:
        """`outcomes` are those of the first decisions, in their order."""
        for decision, outcome in zip(decisions, outcomes, strict=False):
            if outcome == sweeps.SKIPPED:
                self.skipped += 1
            else:
                self.done.append((decision, outcome))

    def are_all_of(self, plan: Plan) -> bool:
        return len(self.done) == len(plan.decisions) and self.summaries == plan.summaries


class Sweeper:
    """Sweeps for one router."""

    def __init__(self, *, store: LocalStore, landing: Landing, lock: Lock) -> None:
        self._store = store
        self._landing = landing
        self._lock = lock
        self._is_busy = False

    async def sweep(self, policies: Policies, desk: WriteContext, *, dry_run: bool) -> SweepReport:
        """Raises SweepUnderWay, StoreError."""
        if dry_run:
            return report(await self._plan(policies, desk))
        with self._alone():
            plan = await self._plan(policies, desk)
            sweep = Sweep(new_id(desk.now), desk.project, plan.at_s, policies)
            if not plan.decisions:
                await self._write(sweeps.note_time(sweep))
                return report(plan, Deeds())
            deeds = await self._carry_out(plan, sweep, desk)
            if deeds.are_all_of(plan):
                return replace(report(plan, deeds), id=sweep.id)
            census = await asyncio.to_thread(self._census, policies, desk)
            return replace(report(plan, deeds, census), id=sweep.id)

    async def compact(self, how: Strategy, desk: WriteContext, *, dry_run: bool) -> JsonObject:
        """Compact the project's threads, and report. Raises SweepUnderWay, StoreError."""
        if dry_run:
            return (await self._compacting(how, desk)).planned.to_json(dry_run=True)
        with self._alone():
            found = await self._compacting(how, desk)
            if not found.decisions and not found.notes:
                return found.planned.to_json(dry_run=False)
            plan = Plan(desk.now_s, (compacting.POLICY,), found.decisions)
            sweep = Sweep(new_id(desk.now), desk.project, desk.now_s, Policies(lifetimes=False))
            deeds = await self._carry_out(plan, sweep, desk, found.notes)
            if not deeds.skipped:
                return found.planned.to_json(dry_run=False)
            left = await asyncio.to_thread(compacting.tally, self._store.reader, desk.project)
            return found.planned.to_json(dry_run=False, after=left)

    async def _compacting(self, how: Strategy, desk: WriteContext) -> Compacting:
        return await asyncio.to_thread(compacting.plan, self._store.reader, desk.project, how, desk.now_s)

    def last_s(self, project: str) -> float | None:
        """When the last sweep of that project began, in Unix seconds."""
        last = self._last(project)
        return None if last is None else last["at"]

    async def undo(self, desk: WriteContext) -> Undone:
        """Bring back what the project's last sweep archived, and put back what it moved, but for what was touched
        since. Says how many. Raises SweepUnderWay, StoreError."""
        with self._alone():
            last = self._last(desk.project) or {"id": "", "pages": 0}
            undone = Undone()
            for page in reversed(range(last["pages"])):
                undone = undone.and_(await self._write(sweeps.take_back(last["id"], page, desk)))
            return undone

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock keeps out other processes, but not another task of this one."""
        if self._is_busy or not self._lock.take():
            raise SweepUnderWay
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            self._lock.give_up()

    def _last(self, project: str) -> JsonObject | None:
        owner = sweeps.last(project)
        return self._store.reader.facets(sweeps.FACET, [owner]).get(owner)

    async def _plan(self, policies: Policies, desk: WriteContext) -> Plan:
        """On a thread of its own: those that searches read on are for searches."""
        remotes = await self._write(lambda transaction: transaction.owners("remote"))
        subjects = Subjects(self._store.reader, desk.project, remotes)

        lookout = Lookout(self._store.reader, subjects)

        def live() -> Iterator[Subject]:
            for one in subjects.live():
                if policies.merging is not None:
                    lookout.see(one.memory)
                yield one

        def make() -> Plan:
            archived = self._store.reader.counts(desk.project)["archived"]
            ended = subjects.ended(desk.now_s)
            return steward.plan(
                policies, ended, live(), desk.now_s, archived, project=desk.project, alike=lookout.alike
            )

        return await asyncio.to_thread(make)

    def _census(self, policies: Policies, desk: WriteContext) -> Census:
        """How it is now, where it is not what was planned."""
        reader = self._store.reader
        counts, tiers = reader.counts(desk.project), Counter[Tier]()
        if policies.tiers is not None:
            for one in Subjects(reader, desk.project).live():
                tiers[policies.tiers.placement(one).tier] += 1
        live = sum(counts[kind.value] for kind in MemoryType)
        named = {} if policies.tiers is None else {tier: tiers[tier] for tier in Tier}
        return Census(live, counts["archived"], named)

    async def _carry_out(self, plan: Plan, sweep: Sweep, desk: WriteContext, notes: Sequence[Note] = ()) -> Deeds:
        before = await self._write(sweeps.begin(sweep))
        if before is not None:
            for first in range(0, before["pages"], AT_ONCE):
                await self._write(sweeps.drop_pages(before["id"], first, min(first + AT_ONCE, before["pages"])))
        deeds = Deeds()
        page = 0
        for _, some in groupby(plan.decisions, key=_summary_of):
            page = await self._carry_out_some(list(some), sweep, desk, page, deeds)
        for first in range(0, len(notes), AT_ONCE):
            await asyncio.sleep(PAUSE_S)
            deeds.skipped += await self._write(sweeps.write_notes(sweep, notes[first : first + AT_ONCE], page))
            page += 1
        return deeds

    async def _carry_out_some(
        self, decisions: Sequence[Decision], sweep: Sweep, desk: WriteContext, page: int, deeds: Deeds
    ) -> int:
        """Those of one summary, or of none; from that page on, and up to which."""
        behind = await self._write_summary(decisions, sweep, desk, page)
        written_at, page = page, page + (behind is not None)
        is_behind = False
        begun = 0
        while begun < len(decisions):
            await asyncio.sleep(PAUSE_S)
            some = decisions[begun : begun + AT_ONCE]
            step = await self._write(sweeps.carry_out(sweep, some, page, behind))
            deeds.note(some, step.outcomes)
            begun += len(step.outcomes)
            page += any(one != sweeps.SKIPPED for one in step.outcomes)
            is_behind = is_behind or sweeps.SUMMARISING in step.outcomes
        deeds.summaries += is_behind
        if behind is not None and not is_behind:
            await self._write(sweeps.drop_summary(sweep, written_at, desk))
        return page

    async def _write_summary(
        self, decisions: Sequence[Decision], sweep: Sweep, desk: WriteContext, page: int
    ) -> Behind | None:
        group = summaries.group(decisions)
        if group is None:
            return None
        told = await asyncio.to_thread(summaries.gists, self._store.reader, decisions)
        return await self._write(sweeps.write_summary(sweep, group, told, page, desk))

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        return await self._landing.of(self._store.write(change))


def _summary_of(decision: Decision) -> tuple[str | None, str] | None:
    """Those with the same answer are carried out together; None for those without a summary."""
    verdict = decision.verdict
    return (verdict.agent, verdict.topic) if isinstance(verdict, Summarise) else None


def report(plan: Plan, deeds: Deeds | None = None, after: Census | None = None) -> SweepReport:
    """What was planned (a dry run), or with `deeds` what has become of it, and how it is `after` where that is not as
    it was planned. Actions are listed as far as a reader may want them."""
    all_done = Deeds.planned(plan) if deeds is None else deeds
    own = [(decision, outcome) for decision, outcome in all_done.done if not decision.elsewhere]
    done = Counter(outcome for _, outcome in own)
    return SweepReport(
        archived=done[sweeps.ARCHIVING] + done[sweeps.SUMMARISING],
        erased=done[sweeps.ERASING],
        promoted=done[sweeps.PROMOTING],
        demoted=done[sweeps.DEMOTING],
        summarised=done[sweeps.SUMMARISING],
        summaries=all_done.summaries,
        merged=done[sweeps.MERGING],
        standing=tuple({one.verdict.into: None for one, _ in own if isinstance(one.verdict, Merge)}),
        skipped=all_done.skipped,
        waiting=plan.waiting,
        spared=plan.spared,
        kept_for_keys=len(plan.twins),
        twins=plan.twins[:SHOWN],
        dry_run=deeds is None,
        policies=plan.policies,
        reasons=dict(Counter(one.verdict.reason for one, _ in own)),
        before=plan.before,
        after=plan.after if after is None else after,
        actions=tuple(_action(one, outcome) for one, outcome in own[:SHOWN]),
        ended=tuple(one.memory_id for one, outcome in all_done.done if outcome == sweeps.ERASING),
        elsewhere=len(all_done.done) - len(own),
    )


def _action(decision: Decision, outcome: str) -> JsonObject:
    """Where no summary could be written, what was to go behind it went without."""
    told = decision.to_json()
    return {**told, "does": "archive"} if outcome == sweeps.ARCHIVING else told
