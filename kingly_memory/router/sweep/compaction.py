"""A compaction as it is to be carried out: which memories go to the archive, and what is noted beside the threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import (
    ActiveThread,
    ArchiveThread,
    Compaction,
    CompactionStrategy,
    MergeThreads,
    Reason,
    Tally,
    compact,
)
from kingly_memory.lifecycle.decay import DAY_S
from kingly_memory.lifecycle.plan import Decision
from kingly_memory.lifecycle.policies import Archive
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import ATTENTION, THREAD, texts
from kingly_memory.router.threads.reading import active_s, survey
from kingly_memory.router.threads.views import USUAL
from kingly_memory.text import topics

POLICY = "compaction"
"""Who put a memory into the archive, where `archived` says so."""


@dataclass(frozen=True, slots=True)
class FacetChange:
    """A facet to be written, unless it is no longer as it was read."""

    name: str
    owner: str
    was: JsonObject | None
    becomes: JsonObject


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One compaction, and how it comes about."""

    planned: Compaction
    decisions: tuple[Decision, ...] = ()
    notes: tuple[FacetChange, ...] = ()


class Seen(NamedTuple):
    """A memory of a thread as it was read: a sweep may archive it as long as it is still so."""

    memory_id: MemoryId
    revision: int
    mark: int


@dataclass(frozen=True, slots=True)
class ActiveThreads:
    """The active threads, which memories of each may be archived, and the facets of all threads as they were read."""

    active: tuple[ActiveThread, ...]
    memories: Mapping[str, tuple[Seen, ...]]
    facets: Mapping[str, JsonObject]
    attention: Mapping[str, JsonObject]


def active_threads(reader: StoreReader, space: str, now_s: float) -> ActiveThreads:
    """Reads every live memory of the project once, and holds none for longer than it is looked at."""
    found = survey(reader, space, now_s)
    last_s = {name: one.last_s for name, one in found.active.items()}
    words: dict[str, Counter[str]] = {name: Counter() for name in found.active}
    seen: dict[str, list[Seen]] = {name: [] for name in found.active}
    for subject in Subjects(reader, space).live():
        memory = subject.memory
        name = thread_lookup.root(memory.scope.context_id or "", found.facets)
        if name in last_s:
            last_s[name] = max(last_s[name], active_s(subject))
            topics.count(words[name], f"{memory.title or ''} {memory.content}")
            if not subject.is_protected:
                seen[name].append(Seen(memory.id, memory.revision, subject.mark))
    active: list[ActiveThread] = []
    for name, at_s in last_s.items():
        weight, pinned = found.weights.get(name, USUAL)
        active.append(ActiveThread(name, at_s, weight, pinned, topics.topic(words[name])))
    attention = thread_lookup.facets(reader, ATTENTION, space, last_s)
    return ActiveThreads(
        tuple(active), {name: tuple(several) for name, several in seen.items()}, found.facets, attention
    )


def plan(reader: StoreReader, space: str, how: CompactionStrategy, now_s: float) -> CompactionPlan:
    """What the strategy would do with the project's threads."""
    found = active_threads(reader, space, now_s)
    planned = compact(found.active, how, now_s)
    return CompactionPlan(planned, tuple(_decisions(planned, found)), tuple(_notes(planned, found, space)))


def tally(reader: StoreReader, space: str, now_s: float) -> Tally:
    """How many threads are active now, and what they weigh."""
    return Tally.of(active_threads(reader, space, now_s).active)


def _decisions(planned: Compaction, found: ActiveThreads) -> Iterator[Decision]:
    """Every memory of an archived thread, and of the thread that it has just taken in."""
    how, known = planned.strategy, {thread.id: thread for thread in found.active}
    taken_in = {one.threads[0]: one.threads[1] for one in planned.actions if isinstance(one, MergeThreads)}
    for action in planned.actions:
        if not isinstance(action, ArchiveThread):
            continue
        thread = known[action.thread]
        if action.reason is Reason.AGE:
            reason = f"its thread was idle for longer than {how.archive_age_days:g} days"
            verdict = Archive(reason, {"idle_days": (planned.at_s - thread.last_active) / DAY_S})
        else:
            reason = f"more than {how.max_active_threads} threads were active, and its own was among the lightest"
            verdict = Archive(reason, {"weight": thread.weight})
        for thread_id in (action.thread, taken_in.get(action.thread)):
            for seen in () if thread_id is None else found.memories[thread_id]:
                yield Decision(seen.memory_id, seen.revision, seen.mark, POLICY, verdict)


def _notes(planned: Compaction, found: ActiveThreads, space: str) -> Iterator[FacetChange]:
    """One for each facet."""
    facets: dict[str, dict[str, Any]] = {}
    before = {thread.id: thread for thread in found.active}
    for action in planned.actions:
        if isinstance(action, MergeThreads):
            kept, gone = action.threads
            facets[gone] = {"into": kept}
            held = texts(found.facets.get(kept, {}), "holds")
            facets[kept] = {"holds": [*(one for one in held if one != gone), gone]}
        else:
            facets.setdefault(action.thread, {})["archived_at"] = max(planned.at_s, before[action.thread].last_active)
    for thread_id, said in facets.items():
        was = found.facets.get(thread_id) or None
        becomes = {**(was or {}), "context_id": thread_id, **said}
        yield FacetChange(THREAD, owner(space, thread_id), was, becomes)
    for thread in planned.left:
        if thread.weight != before[thread.id].weight:
            was = found.attention.get(thread.id) or None
            yield FacetChange(ATTENTION, owner(space, thread.id), was, {**(was or {}), "weight": thread.weight})
