"""The active threads as a compaction sees them, read from every live memory of the project."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.dataclass import dataclass, field
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import Thread
from kingly_memory.lifecycle.policies import Subject
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.thread_lookup import ATTENTION, number, weighed
from kingly_memory.router.threads.reading import active_s, is_in_use


class Seen(NamedTuple):
    """A memory of a thread as it was read: a sweep may archive it as long as it is still so."""

    memory_id: MemoryId
    revision: int
    mark: int


@dataclass(frozen=True, slots=True)
class Threads:
    """The active threads, which memories of each may be archived, and the facets of all threads as they were read."""

    active: tuple[Thread, ...]
    memories: Mapping[str, tuple[Seen, ...]]
    facets: Mapping[str, JsonObject]
    attention: Mapping[str, JsonObject]


@dataclass(slots=True)
class _Thread:
    """What the memories of a thread say of it. No memory is held for longer than it is looked at."""

    last_s: float = -math.inf
    is_active: bool = False
    is_pinned: bool = False
    words: Counter[str] = field(default_factory=Counter)
    seen: list[Seen] = field(default_factory=list)


def read(reader: StoreReader, project: str, subjects: Iterable[Subject]) -> Threads:
    facets = thread_lookup.threads(
        reader, project, [one.context_id for one in reader.threads.talks(project, -math.inf)]
    )
    found: dict[str, _Thread] = {}
    for subject in subjects:
        memory = subject.memory
        if memory.scope.context_id is None:
            continue
        thread_id = thread_lookup.root(memory.scope.context_id, facets)
        thread = found.setdefault(thread_id, _Thread())
        thread.last_s = max(thread.last_s, active_s(subject))
        thread.is_active |= is_in_use(subject, number(facets.get(thread_id, {}), "archived_at"))
        thread.is_pinned |= subject.pinned
        topics.count(thread.words, f"{memory.title or ''} {memory.content}")
        if not subject.is_protected:
            thread.seen.append(Seen(memory.id, memory.revision, subject.mark))
    attention = thread_lookup.facets(reader, ATTENTION, project, found)
    active: list[Thread] = []
    for thread_id, thread in found.items():
        heavy = weighed([attention.get(thread_id, {})])
        if thread.is_active:
            pinned, changed_at = heavy.pinned or thread.is_pinned, number(facets.get(thread_id, {}), "changed_at")
            topic = topics.topic(thread.words)
            active.append(Thread(thread_id, thread.last_s, heavy.weight, pinned, topic, changed_at))
    memories = {one.id: tuple(found[one.id].seen) for one in active}
    return Threads(tuple(active), memories, facets, attention)
