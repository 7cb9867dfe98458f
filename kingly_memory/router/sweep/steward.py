"""Sweeping: plan with what can be read, then carry out that plan and nothing else, a few memories at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from heapq import nlargest
from itertools import groupby

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import SweepUnderWay
from kingly_memory.ids import new_id
from kingly_memory.lifecycle.compaction import CompactionStrategy
from kingly_memory.lifecycle.plan import Decision, Plan, Policies, plan
from kingly_memory.lifecycle.policies import (
    Archive,
    Demote,
    Expire,
    Promote,
    Summarise,
    Verdict,
)
from kingly_memory.models import JsonObject
from kingly_memory.plain import Plain
from kingly_memory.ports import StoreReader
from kingly_memory.router.services import Services
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.sweep import changes as sweep_changes
from kingly_memory.router.sweep import compaction
from kingly_memory.router.sweep.changes import Behind, Sweep, Undone
from kingly_memory.router.sweep.compaction import FacetChange
from kingly_memory.router.write import WriteContext

SHOWN = 100
"""Actions that a report lists; the counts are of all."""
AT_ONCE = 16
"""Decisions that one change carries out, so that nobody waits long for the writer. What changes its status together
is indexed together, at less than half the cost."""
PAUSE_S = 0.001
"""Between two changes, for searches and stores that wait."""


@dataclass(frozen=True, slots=True)
class Lock:
    """What one process at a time holds: `take` says whether it is ours now."""

    take: Callable[[], bool]
    give_up: Callable[[], None]


@dataclass(frozen=True, slots=True)
class SweepReport(Plain):
    """What a sweep did, or with `dry_run` would do. Of `archived`, `summarised` went behind one of the `summaries` that
    were written. `waiting` are ended ones a remote has yet to acknowledge, `spared` the last of their categories,
    `skipped` those that were touched after the plan was made. All of that is the project's own; `elsewhere` counts
    those of other projects that had ended and went too, erased or archived, and `revisions` the earlier revisions of
    any project that were let go. What was done lies under `id` until the
    next sweep."""

    archived: int = 0
    erased: int = 0
    promoted: int = 0
    demoted: int = 0
    summarised: int = 0
    summaries: int = 0
    waiting: int = 0
    spared: int = 0
    skipped: int = 0
    elsewhere: int = 0
    revisions: int = 0
    dry_run: bool = False
    policies: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    actions: tuple[JsonObject, ...] = ()
    id: str = field(default="", repr=False)

    @property
    def can_be_undone(self) -> bool:
        return not self.dry_run and bool(self.archived or self.promoted or self.demoted)


@dataclass(slots=True)
class Done:
    """What has become of a plan so far: the decisions that were carried out, and how."""

    decisions: list[tuple[Decision, str]] = field(default_factory=list)
    summaries: int = 0
    skipped: int = 0


class Sweeper:
    """Sweeps for one router."""

    def __init__(self, services: Services, lock: Lock) -> None:
        self._reader = services.reader
        self._write = services.write
        self._lock = lock
        self._is_busy = False

    async def sweep(self, policies: Policies, context: WriteContext, *, dry_run: bool) -> SweepReport:
        """Raises SweepUnderWay, StoreError."""
        if dry_run:
            return report(await self._plan(policies, context))
        with self._alone():
            planned = await self._plan(policies, context)
            sweep = Sweep(new_id(context.now), policies, context)
            if not planned.decisions:
                await self._write(partial(sweep_changes.note_time, sweep=sweep))
                return report(planned, Done())
            done = await self._carry_out(sweep, planned.decisions)
            return replace(report(planned, done), id=sweep.id)

    async def compact(self, how: CompactionStrategy, context: WriteContext, *, dry_run: bool) -> JsonObject:
        """Compact the project's threads, and report. Raises SweepUnderWay, StoreError."""
        plan_now = partial(compaction.plan, self._reader, context.space, how, context.now_s)
        if dry_run:
            planned, *_ = await asyncio.to_thread(plan_now)
            return planned.to_json(dry_run=True)
        with self._alone():
            planned, decisions, notes = await asyncio.to_thread(plan_now)
            if not decisions and not notes:
                return planned.to_json(dry_run=False)
            sweep = Sweep(new_id(context.now), Policies(names=()), context)
            done = await self._carry_out(sweep, decisions, notes)
            if not done.skipped:
                return planned.to_json(dry_run=False)
            left, *_ = await asyncio.to_thread(plan_now)
            return planned.to_json(dry_run=False, after=left.before)

    async def undo(self, context: WriteContext) -> Undone:
        """Bring back what the project's last sweep archived, and put back what it moved, but for what was touched
        since. Raises SweepUnderWay, StoreError."""
        with self._alone():
            last = self._last(context.space) or {"id": "", "pages": 0}
            memories, threads = 0, set[str]()
            for page in reversed(range(last["pages"])):
                change = partial(sweep_changes.take_back, sweep_id=last["id"], page=page, context=context)
                back, beside = await self._write(change)
                memories, threads = memories + back, threads | beside
            return Undone(memories, len(threads))

    def last_s(self, space: str) -> float | None:
        """When the last sweep of that project began, in Unix seconds."""
        last = self._last(space)
        return None if last is None else last["at"]

    def _last(self, space: str) -> JsonObject | None:
        return self._reader.facet(sweep_changes.FACET, sweep_changes.last(space))

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

    # --- planning: on a thread of its own, since those that searches read on are for searches -------------------------

    async def _plan(self, policies: Policies, context: WriteContext) -> Plan:
        remotes = await self._write(lambda transaction: transaction.owners("remote"))
        reader, space = self._reader, context.space
        subjects = Subjects(reader, space, remotes)

        def make() -> Plan:
            ended, live = subjects.ended(context.now_s), subjects.live()
            return plan(policies, context.now_s, space, ended=ended, live=live)

        return await asyncio.to_thread(make)

    # --- carrying out -------------------------------------------------------------------------------------------------

    async def _carry_out(self, sweep: Sweep, decisions: Sequence[Decision], notes: Sequence[FacetChange] = ()) -> Done:
        earlier = await self._write(partial(sweep_changes.begin, sweep=sweep))
        for first in range(0, earlier["pages"], AT_ONCE):
            pages = range(first, min(first + AT_ONCE, earlier["pages"]))
            await self._write(partial(sweep_changes.drop_pages, sweep_id=earlier["id"], pages=pages))
        done = Done()
        page = 0
        for _, some in groupby(decisions, key=_summary_of):
            page = await self._carry_out_some(sweep, list(some), page, done)
        for first in range(0, len(notes), AT_ONCE):
            await asyncio.sleep(PAUSE_S)
            some_notes = notes[first : first + AT_ONCE]
            change = partial(sweep_changes.write_notes, sweep=sweep, notes=some_notes, page=page)
            done.skipped += await self._write(change)
            page += 1
        return done

    async def _carry_out_some(self, sweep: Sweep, decisions: Sequence[Decision], page: int, done: Done) -> int:
        """Those of one summary, or of none; from that page on, and up to which."""
        behind = await asyncio.to_thread(_behind, self._reader, decisions)
        for first in range(0, len(decisions), AT_ONCE):
            await asyncio.sleep(PAUSE_S)
            some = decisions[first : first + AT_ONCE]
            change = partial(sweep_changes.carry_out, sweep=sweep, decisions=some, page=page, behind=behind)
            outcomes, behind = await self._write(change)
            carried_out = [pair for pair in zip(some, outcomes, strict=True) if pair[1] != sweep_changes.SKIPPED]
            done.decisions += carried_out
            done.skipped += len(some) - len(carried_out)
            page += bool(carried_out)
        done.summaries += behind is not None and behind.summary_id is not None
        return page


def _summary_of(decision: Decision) -> tuple[str | None, str] | None:
    """Those with the same answer are carried out together; None for those without a summary."""
    verdict = decision.verdict
    return (verdict.agent, verdict.topic) if isinstance(verdict, Summarise) else None


def _behind(reader: StoreReader, decisions: Sequence[Decision]) -> Behind | None:
    """What they go behind, which tells of the most important of them that are as the plan saw them."""
    verdicts = [one.verdict for one in decisions if isinstance(one.verdict, Summarise)]
    if not verdicts:
        return None
    from kingly_memory.lifecycle.summaries import MOST_SENTENCES, Summarised, gist  # few sweeps need it

    chosen = nlargest(MOST_SENTENCES, decisions, key=lambda one: (one.verdict.figures["importance"], one.memory_id))
    rows = [(one, reader.row(one.memory_id)) for one in chosen]
    of = Summarised(
        verdicts[0].agent,
        verdicts[0].topic,
        ids=tuple(one.memory_id for one in decisions),
        significances=tuple(one.figures["significance"] for one in verdicts),
    )
    return Behind(of, [gist(row.memory) for one, row in rows if row and row.memory.revision == one.revision])


# --- the report -----------------------------------------------------------------------------------------------------

_WOULD: Mapping[type[Verdict], str] = {
    Archive: sweep_changes.ARCHIVED,
    Summarise: sweep_changes.SUMMARISED,
    Expire: sweep_changes.ERASED,
    Promote: sweep_changes.PROMOTED,
    Demote: sweep_changes.DEMOTED,
}


def report(planned: Plan, done: Done | None = None) -> SweepReport:
    """What was planned (a dry run), or with `done` what has become of it. Actions are listed as far as a reader may
    want them."""
    if done is None:
        would = [(one, _WOULD[type(one.verdict)]) for one in planned.decisions]
        return replace(report(planned, Done(would, planned.summaries)), dry_run=True)
    own = [(decision, outcome) for decision, outcome in done.decisions if not decision.elsewhere]
    counts = Counter(outcome for _, outcome in own)
    # Where no summary could be written, what was to go behind it went without.
    actions = (
        {**decision.to_json(), **({"does": "archive"} if outcome == sweep_changes.ARCHIVED else {})}
        for decision, outcome in own[:SHOWN]
    )
    return SweepReport(
        archived=counts[sweep_changes.ARCHIVED] + counts[sweep_changes.SUMMARISED],
        erased=counts[sweep_changes.ERASED],
        promoted=counts[sweep_changes.PROMOTED],
        demoted=counts[sweep_changes.DEMOTED],
        summarised=counts[sweep_changes.SUMMARISED],
        summaries=done.summaries,
        waiting=planned.waiting,
        spared=planned.spared,
        skipped=done.skipped,
        elsewhere=len(done.decisions) - len(own),
        policies=planned.policies,
        reasons=dict(Counter(one.verdict.reason for one, _ in own)),
        actions=tuple(actions),
    )
