"""A compaction as it is to be carried out: which memories go to the archive, and what is noted beside the threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import (
    ActiveThread,
    Compaction,
    CompactionStrategy,
    MergeThreads,
    Reason,
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


def plan(
    reader: StoreReader, space: str, how: CompactionStrategy, now_s: float
) -> tuple[Compaction, list[Decision], list[FacetChange]]:
    """What the strategy would do with the project's threads, and how that comes about. Reads every live memory of the
    project once, and holds none for longer than it is looked at."""
    surveyed = survey(reader, space, now_s)
    last_s = {name: one.last_s for name, one in surveyed.active.items()}
    words: dict[str, Counter[str]] = {name: Counter() for name in surveyed.active}
    # What may be archived of each thread, as it was read: a sweep archives it as long as it is still so.
    seen: dict[str, list[tuple[MemoryId, int, int]]] = {name: [] for name in surveyed.active}
    for subject in Subjects(reader, space).live():
        memory = subject.memory
        name = thread_lookup.root(memory.scope.context_id or "", surveyed.facets)
        if name in last_s:
            last_s[name] = max(last_s[name], active_s(subject))
            topics.count(words[name], f"{memory.title or ''} {memory.content}")
            if not subject.is_protected:
                seen[name].append((memory.id, memory.revision, subject.mark))
    threads = {
        name: ActiveThread(name, at_s, *surveyed.weights.get(name, USUAL), topics.topic(words[name]))
        for name, at_s in last_s.items()
    }
    planned = compact(threads.values(), how, now_s)
    attention = thread_lookup.facets(reader, ATTENTION, space, threads)
    notes = []
    for name, thread_id, fields in _notes(planned, threads, surveyed.facets):
        was = (surveyed.facets if name == THREAD else attention).get(thread_id) or None
        notes.append(FacetChange(name, owner(space, thread_id), was, {**(was or {}), **fields}))
    return planned, list(_decisions(planned, threads, seen)), notes


def _decisions(
    planned: Compaction, threads: Mapping[str, ActiveThread], seen: Mapping[str, Sequence[tuple[MemoryId, int, int]]]
) -> Iterator[Decision]:
    """Every memory of an archived thread, and of the thread that it has just taken in."""
    how, taken_in = planned.strategy, dict[str, str]()
    for action in planned.actions:
        if isinstance(action, MergeThreads):
            taken_in[action.threads[0]] = action.threads[1]
            continue
        thread = threads[action.thread]
        if action.reason is Reason.AGE:
            reason = f"its thread was idle for longer than {how.archive_age_days:g} days"
            verdict = Archive(reason, {"idle_days": (planned.at_s - thread.last_active) / DAY_S})
        else:
            reason = f"more than {how.max_active_threads} threads were active, and its own was among the lightest"
            verdict = Archive(reason, {"weight": thread.weight})
        for thread_id in (action.thread, taken_in.get(action.thread)):
            for one in () if thread_id is None else seen[thread_id]:
                yield Decision(*one, POLICY, verdict)


def _notes(
    planned: Compaction, threads: Mapping[str, ActiveThread], facets: Mapping[str, JsonObject]
) -> Iterator[tuple[str, str, JsonObject]]:
    """The fields to write beside threads: the name of the facet, the thread, and the fields. One for each facet."""
    by_thread: dict[str, JsonObject] = {}
    for action in planned.actions:
        if isinstance(action, MergeThreads):
            kept, gone = action.threads
            by_thread[gone] = {"into": kept}
            held = texts(facets.get(kept, {}), "holds")
            by_thread[kept] = {"holds": [*(one for one in held if one != gone), gone]}
        else:
            by_thread.setdefault(action.thread, {})["archived_at"] = max(
                planned.at_s, threads[action.thread].last_active
            )
    for thread_id, more in by_thread.items():
        yield THREAD, thread_id, {"context_id": thread_id, **more}
    for thread in planned.left:
        if thread.weight != threads[thread.id].weight:
            yield ATTENTION, thread.id, {"weight": thread.weight}
