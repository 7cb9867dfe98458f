"""The threads of a project, read from the memories that belong to them.

A thread is what was said in one context: its id is the context's. When it was active last, and what it is about, its
memories say; how much it weighs and whether it is pinned, its facet `attention:<owner>`; a pinned memory pins its
thread. The facet `thread:<owner>` says what compaction did with it: `into` names the thread that it goes on as, and
`archived_at` when it was laid in the archive, from where any later memory or use brings it back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compaction import Thread
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.roots import number
from kingly_memory.topics import Topic

FACET, ATTENTION = roots.THREAD, roots.ATTENTION


class Seen(NamedTuple):
    """A memory of a thread as it was read: what a sweep may archive, as long as it is so."""

    memory_id: MemoryId
    revision: int
    mark: int


@dataclass(slots=True)
class Course:
    """What the memories of one context say of its thread."""

    last_s: float = -math.inf
    last_protected_s: float = -math.inf
    is_pinned: bool = False
    words: Counter[str] = field(default_factory=Counter)
    seen: list[Seen] = field(default_factory=list)

    def see(self, subject: Subject) -> None:
        memory, used_s = subject.memory, subject.usage.last_used
        active_s = max(memory.created_at.timestamp(), memory.updated_at.timestamp(), used_s or -math.inf)
        self.last_s = max(self.last_s, active_s)
        self.is_pinned |= subject.pinned
        topics.count(self.words, f"{memory.title or ''} {memory.content}")
        if subject.is_protected:
            self.last_protected_s = max(self.last_protected_s, active_s)
        else:
            self.seen.append(Seen(memory.id, memory.revision, subject.mark))

    def is_active(self, archived_at: float | None) -> bool:
        """What compaction archived holds nothing any more but protected memories that were there then."""
        return archived_at is None or bool(self.seen) or self.last_protected_s > archived_at


@dataclass(frozen=True, slots=True)
class Threads:
    """The active threads, which memories of each may be laid in the archive, and the facets of threads as they were
    read."""

    active: tuple[Thread, ...]
    memories: Mapping[str, tuple[Seen, ...]]
    facets: Mapping[str, JsonObject]
    attention: Mapping[str, JsonObject]


def read(reader: StoreReader, project: str, subjects: Iterable[Subject]) -> Threads:
    """All of the project's, from its live memories."""
    courses: dict[str, Course] = {}
    for subject in subjects:
        context_id = subject.memory.scope.context_id
        if context_id is not None:
            courses.setdefault(context_id, Course()).see(subject)
    facets = roots.threads(reader, project, courses)
    together: dict[str, list[str]] = {}
    for context_id in courses:
        together.setdefault(roots.root(context_id, facets), []).append(context_id)
    attention = roots.facets(reader, ATTENTION, project, together)
    active: list[Thread] = []
    memories: dict[str, tuple[Seen, ...]] = {}
    for thread_id, context_ids in together.items():
        several = [courses[one] for one in context_ids]
        if not any(one.is_active(number(facets.get(thread_id, {}), "archived_at")) for one in several):
            continue
        active.append(_thread(thread_id, several, facets.get(thread_id, {}), attention.get(thread_id, {})))
        memories[thread_id] = tuple(seen for one in several for seen in one.seen)
    return Threads(tuple(active), memories, facets, attention)


def _thread(thread_id: str, several: list[Course], facet: JsonObject, attention: JsonObject) -> Thread:
    weight = number(attention, "weight")
    return Thread(
        thread_id,
        last_active=max(one.last_s for one in several),
        weight=1.0 if weight is None or weight < 0 else weight,
        pinned=attention.get("pinned") is True or any(one.is_pinned for one in several),
        topic=_topic(several),
        changed_at=number(facet, "changed_at"),
    )


def _topic(several: Iterable[Course]) -> Topic:
    said: Counter[str] = Counter()
    for one in several:
        said.update(one.words)
    return topics.topic(said)
