"""Sweeping: plan with what can be read, then carry out that plan and nothing else, a few memories at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kingly_memory.errors import SweepUnderWay
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.lifecycle import steward
from kingly_memory.lifecycle.steward import Census, Plan, Policies
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Promote, Summarise
from kingly_memory.models import JsonObject
from kingly_memory.ports import LocalStore, Transaction
from kingly_memory.router import sweeps
from kingly_memory.router.landing import Landing
from kingly_memory.router.records import Desk
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.sweeps import Sweep

T = TypeVar("T")
SHOWN = 100
"""Actions that a report lists; the counts are of all."""
AT_ONCE = 64
"""Decisions offered to one change, which takes as many as the time allows."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did, or with `dry_run` would do. `waiting` are ended ones a remote has yet to acknowledge, `spared`
    the last of their categories, `skipped` those that were touched after the plan was made. `ended` are what was to be
    erased."""

    archived: int = 0
    erased: int = 0
    waiting: int = 0
    dry_run: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)
    promoted: int = 0
    demoted: int = 0
    spared: int = 0
    skipped: int = 0
    policies: tuple[str, ...] = ()
    before: Census = field(default_factory=Census)
    after: Census = field(default_factory=Census)
    actions: tuple[JsonObject, ...] = ()
    ended: tuple[MemoryId, ...] = field(default=(), repr=False)

    def to_json(self) -> JsonObject:
        return {
            "archived": self.archived,
            "erased": self.erased,
            "promoted": self.promoted,
            "demoted": self.demoted,
            "waiting": self.waiting,
            "spared": self.spared,
            "skipped": self.skipped,
            "dry_run": self.dry_run,
            "policies": list(self.policies),
            "reasons": dict(self.reasons),
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "actions": list(self.actions),
        }


@dataclass(frozen=True, slots=True)
class Lock:
    """What one process at a time holds: `take` says whether it is ours now."""

    take: Callable[[], bool] = lambda: True
    give_up: Callable[[], None] = lambda: None


class Sweeper:
    """Sweeps for one router."""

    def __init__(self, *, store: LocalStore, landing: Landing, lock: Lock) -> None:
        self._store = store
        self._landing = landing
        self._lock = lock
        self._is_busy = False

    async def sweep(self, policies: Policies, desk: Desk, *, dry_run: bool) -> SweepReport:
        """Raises SweepUnderWay, StoreError."""
        if dry_run:
            return report(await self._plan(policies, desk), Counter(), dry_run=True)
        with self._alone():
            plan = await self._plan(policies, desk)
            sweep = Sweep(new_id(desk.now), desk.project, plan.at_s, policies)
            return report(plan, await self._carry_out(plan, sweep), dry_run=False)

    def last_s(self) -> float | None:
        """When the last sweep of this home began, in Unix seconds."""
        last = self._last()
        return None if last is None else last["at"]

    async def undo(self, desk: Desk) -> int:
        """Bring back what the last sweep archived, and put back what it moved, but for what was touched since. Says how
        many. Raises SweepUnderWay, StoreError."""
        with self._alone():
            last = self._last() or {"id": "", "pages": 0}
            count = 0
            for page in reversed(range(last["pages"])):
                count += await self._write(sweeps.take_back(last["id"], page, desk))
            return count

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

    def _last(self) -> JsonObject | None:
        return self._store.reader.facets(sweeps.FACET, [sweeps.LAST]).get(sweeps.LAST)

    async def _plan(self, policies: Policies, desk: Desk) -> Plan:
        """On a thread of its own: those that searches read on are for searches."""
        remotes = await self._write(lambda transaction: transaction.owners("remote"))
        subjects = Subjects(self._store.reader, desk.project, remotes)

        def make() -> Plan:
            archived = self._store.reader.counts(desk.project)["archived"]
            return steward.plan(policies, subjects.ended(desk.now_s), subjects.live(), desk.now_s, archived)

        return await asyncio.to_thread(make)

    async def _carry_out(self, plan: Plan, sweep: Sweep) -> Counter[str]:
        before = await self._write(sweeps.begin(sweep))
        if before is not None:
            for first in range(0, before["pages"], AT_ONCE):
                await self._write(sweeps.drop_pages(before["id"], first, min(first + AT_ONCE, before["pages"])))
        outcomes: Counter[str] = Counter()
        begun, page = 0, 0
        while begun < len(plan.decisions):
            done = await self._write(sweeps.carry_out(sweep, plan.decisions[begun : begun + AT_ONCE], page))
            outcomes.update(done.outcomes)
            begun += len(done.outcomes)
            page += any(one != sweeps.SKIPPED for one in done.outcomes)
        return outcomes

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        return await self._landing.of(self._store.write(change))


def report(plan: Plan, outcomes: Counter[str], *, dry_run: bool) -> SweepReport:
    """What was planned, with what could not be carried out. Actions are listed as far as a reader may want them."""
    kinds = Counter(type(one.verdict) for one in plan.decisions)
    planned = {
        sweeps.ARCHIVING: kinds[Archive] + kinds[Summarise],
        sweeps.ERASING: kinds[Expire],
        sweeps.PROMOTING: kinds[Promote],
        sweeps.DEMOTING: kinds[Demote],
    }
    done: Mapping[str, int] = planned if dry_run else outcomes
    return SweepReport(
        archived=done.get(sweeps.ARCHIVING, 0),
        erased=done.get(sweeps.ERASING, 0),
        promoted=done.get(sweeps.PROMOTING, 0),
        demoted=done.get(sweeps.DEMOTING, 0),
        skipped=0 if dry_run else outcomes[sweeps.SKIPPED],
        waiting=plan.waiting,
        spared=plan.spared,
        dry_run=dry_run,
        policies=plan.policies,
        reasons=dict(Counter(one.verdict.reason for one in plan.decisions)),
        before=plan.before,
        after=plan.after,
        actions=tuple(one.to_json() for one in plan.decisions[:SHOWN]),
        ended=tuple(one.memory_id for one in plan.those(Expire)),
    )
