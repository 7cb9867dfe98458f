"""The active threads as a compaction sees them, read from every live memory of the project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import Thread
from kingly_memory.lifecycle.policies import Subject
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.thread_lookup import ATTENTION, number
from kingly_memory.router.threads.reading import active_s


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


class _Talk:
    """What the memories of one context say of its thread. No memory is held for longer than it is looked at."""

    def __init__(self) -> None:
        self.last_s = self.last_protected_s = float("-inf")
        self.is_pinned = False
        self.words: Counter[str] = Counter()
        self.seen: list[Seen] = []

    def see(self, subject: Subject) -> None:
        memory = subject.memory
        self.last_s = max(self.last_s, active_s(subject))
        self.is_pinned |= subject.pinned
        topics.count(self.words, f"{memory.title or ''} {memory.content}")
        if subject.is_protected:
            self.last_protected_s = max(self.last_protected_s, active_s(subject))
        else:
            self.seen.append(Seen(memory.id, memory.revision, subject.mark))

    def is_active(self, archived_at: float | None) -> bool:
        """See `reading.is_in_use`."""
        return archived_at is None or bool(self.seen) or self.last_protected_s > archived_at


def read(reader: StoreReader, project: str, subjects: Iterable[Subject]) -> Threads:
    talks: dict[str, _Talk] = {}
    for subject in subjects:
        context_id = subject.memory.scope.context_id
        if context_id is not None:
            talks.setdefault(context_id, _Talk()).see(subject)
    facets = thread_lookup.threads(reader, project, talks)
    together: dict[str, list[_Talk]] = {}
    for context_id, talk in talks.items():
        together.setdefault(thread_lookup.root(context_id, facets), []).append(talk)
    attention = thread_lookup.facets(reader, ATTENTION, project, together)
    active: list[Thread] = []
    memories: dict[str, tuple[Seen, ...]] = {}
    for thread_id, several in together.items():
        facet, heavy = facets.get(thread_id, {}), attention.get(thread_id, {})
        if not any(one.is_active(number(facet, "archived_at")) for one in several):
            continue
        weight = number(heavy, "weight")
        words = sum((one.words for one in several), Counter[str]())
        thread = Thread(
            thread_id,
            last_active=max(one.last_s for one in several),
            weight=1.0 if weight is None or weight < 0 else weight,
            pinned=heavy.get("pinned") is True or any(one.is_pinned for one in several),
            topic=topics.topic(words),
            changed_at=number(facet, "changed_at"),
        )
        active.append(thread)
        memories[thread_id] = tuple(seen for one in several for seen in one.seen)
    return Threads(tuple(active), memories, facets, attention)
