"""The active threads as a compaction sees them, read from every live memory of the project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import ActiveThread
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import ATTENTION, number
from kingly_memory.router.threads.reading import active_s, survey
from kingly_memory.router.threads.views import USUAL


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


def read(reader: StoreReader, space: str, now_s: float) -> ActiveThreads:
    """No memory is held for longer than it is looked at."""
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
        changed_at = number(found.facets.get(name, {}), "changed_at")
        active.append(ActiveThread(name, at_s, weight, pinned, topics.topic(words[name]), changed_at))
    attention = thread_lookup.facets(reader, ATTENTION, space, last_s)
    return ActiveThreads(
        tuple(active), {name: tuple(several) for name, several in seen.items()}, found.facets, attention
    )
