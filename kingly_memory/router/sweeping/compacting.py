"""A compaction as it is to be carried out: which memories go to the archive, and what is noted beside the threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kingly_memory.cognition.working import owner
from kingly_memory.lifecycle.compaction import (
    ArchiveThread,
    Compaction,
    MergeThreads,
    Reason,
    Strategy,
    Tally,
    Thread,
    compact,
)
from kingly_memory.lifecycle.steward import Decision
from kingly_memory.lifecycle.verdicts import Archive
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.threads import active
from kingly_memory.router.threads.active import Threads
from kingly_memory.router.threads.lookup import ATTENTION, THREAD, texts

POLICY = "compaction"
"""Who put a memory into the archive, where `archived` says so."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Note:
    """A facet to be written, unless it is no longer as it was read."""

    name: str
    owner: str
    was: JsonObject | None
    becomes: JsonObject


@dataclass(frozen=True, slots=True)
class Compacting:
    """One compaction, and how it comes about."""

    planned: Compaction
    decisions: tuple[Decision, ...] = ()
    notes: tuple[Note, ...] = ()


def plan(reader: StoreReader, project: str, how: Strategy, now_s: float) -> Compacting:
    """What the strategy would do with the project's threads. Reads every live memory once."""
    found = active.read(reader, project, Subjects(reader, project).live())
    planned = compact(found.active, how, now_s)
    return Compacting(planned, tuple(_decisions(planned, found)), tuple(_notes(planned, found, project)))


def tally(reader: StoreReader, project: str) -> Tally:
    """How many threads are active now, and what they weigh."""
    return Tally.of(active.read(reader, project, Subjects(reader, project).live()).active)


def _decisions(planned: Compaction, found: Threads) -> Iterator[Decision]:
    taken_in = {action.threads[0]: action.threads[1] for action in planned.actions if isinstance(action, MergeThreads)}
    known = {thread.id: thread for thread in found.active}
    for action in planned.actions:
        if not isinstance(action, ArchiveThread):
            continue
        verdict = _verdict(known[action.thread], action.reason, planned)
        for thread_id in (action.thread, taken_in.get(action.thread)):
            for seen in () if thread_id is None else found.memories[thread_id]:
                yield Decision(seen.memory_id, seen.revision, seen.mark, POLICY, verdict)


def _verdict(thread: Thread, reason: Reason, planned: Compaction) -> Archive:
    how = planned.strategy
    if reason is Reason.AGE:
        idle_days = (planned.at_s - thread.last_active) / DAY_S
        return Archive(f"its thread was idle for longer than {how.archive_age_days:g} days", {"idle_days": idle_days})
    return Archive(
        f"more than {how.max_active_threads} threads were active, and its own was among the lightest",
        {"weight": thread.weight},
    )


def _notes(planned: Compaction, found: Threads, project: str) -> Iterator[Note]:
    """One for each facet."""
    facets: dict[str, dict[str, Any]] = {}
    weights: dict[str, float] = {}
    before = {thread.id: thread for thread in found.active}
    for action in planned.actions:
        if isinstance(action, MergeThreads):
            kept, gone = action.threads
            facets[gone] = {"into": kept, "at": planned.at_s}
            held = texts(found.facets.get(kept, {}), "holds")
            facets[kept] = {"holds": [*(one for one in held if one != gone), gone]}
        else:
            facets.setdefault(action.thread, {})["archived_at"] = max(planned.at_s, before[action.thread].last_active)
    for thread in planned.left:
        if thread.changed_at != before[thread.id].changed_at:
            facets.setdefault(thread.id, {})["changed_at"] = thread.changed_at
        if thread.weight != before[thread.id].weight:
            weights[thread.id] = thread.weight
    for thread_id, said in facets.items():
        yield _note(THREAD, thread_id, found.facets, {"context_id": thread_id, **said}, project)
    for thread_id, weight in weights.items():
        yield _note(ATTENTION, thread_id, found.attention, {"weight": weight}, project)


def _note(name: str, thread_id: str, read: Mapping[str, JsonObject], said: JsonObject, project: str) -> Note:
    was = read.get(thread_id) or None
    return Note(name, owner(project, thread_id), was, {**(was or {}), **said})
