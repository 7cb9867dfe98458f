"""Reading a thread whole: everything that was said in its contexts, and what follows from it."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from kingly_memory import topics
from kingly_memory.attention import drift, pins
from kingly_memory.attention.drift import Said
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.subjects import PAGE, Subjects
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.ratings import unused
from kingly_memory.router.threads.reading import Course
from kingly_memory.router.threads.summaries import MOST_TOPICS
from kingly_memory.router.threads.views import (
    ACTIVE,
    ARCHIVED,
    INJECTED,
    RATINGS,
    UNRATED,
    Message,
    Rated,
    ThreadView,
    moment,
    weighed,
)

MOST_DRIFT = 2_000
"""Messages that are looked at for drift, the latest."""
AT_ONCE = 500
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Gathered:
    """What the memories of one thread say of it, as they are seen one by one."""

    id: str
    course: Course = field(default_factory=Course)
    begins: Memory | None = None
    is_own_beginning: bool = False
    created_at: datetime = _NEVER
    last_active_s: float = 0.0
    live: int = 0
    archived: int = 0
    pinned_weight: float | None = None
    tags: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)

    def see(self, subject: Subject, now_s: float) -> bool:
        """False for an ended working memory, which the next sweep erases."""
        if _is_gone(subject, now_s):
            return False
        memory = subject.memory
        is_over = subject.lifetime is not None and is_expired(subject.lifetime, now_s)
        if subject.standing is Standing.LIVE and not is_over:
            self.live += 1
            self.course.see(subject)
        else:
            self.archived += 1
            topics.count(self.words, f"{memory.title or ''} {memory.content}")
        used_s = subject.usage.last_used or 0.0
        self.last_active_s = max(
            self.last_active_s, memory.created_at.timestamp(), memory.updated_at.timestamp(), used_s
        )
        self.created_at = min(self.created_at, memory.created_at)
        self.tags.update(memory.tags)
        if subject.pinned:
            self.pinned_weight = max(self.pinned_weight or 0.0, subject.weight)
        if self.begins is None or (not self.is_own_beginning and memory.scope.context_id == self.id):
            self.begins, self.is_own_beginning = memory, memory.scope.context_id in (self.id, None)
        return True

    def is_active(self, facet: JsonObject) -> bool:
        return bool(self.live) and self.course.is_active(roots.number(facet, "archived_at"))

    def title(self, facet: JsonObject) -> str:
        begins = None if self.begins is None else self.begins.title or pins.title(self.begins.content)
        return roots.text(facet, "title") or begins or self.id

    def topics(self, facet: JsonObject) -> tuple[str, ...]:
        """What was said of them, else the tags borne most often, else the words."""
        said = roots.texts(facet, "topics") or tuple(self.borne())
        return said[:MOST_TOPICS] or drift.telling_of(self.course.words + self.words, MOST_TOPICS)

    def borne(self) -> list[str]:
        """The tags that say what it is about, the most frequent first."""
        return [tag for tag, _ in self.tags.most_common() if tag != pins.TAG]

    def view(self, known: Known, history: tuple[str, ...] = ()) -> ThreadView:
        own_pin = {} if self.pinned_weight is None else {"weight": self.pinned_weight, "pinned": True}
        return ThreadView(
            self.id,
            self.title(known.facet),
            self.topics(known.facet),
            self.live + self.archived,
            self.created_at,
            datetime.fromtimestamp(self.last_active_s, UTC),
            status=ACTIVE if self.is_active(known.facet) else ARCHIVED,
            weighed=weighed([known.attention, own_pin]),
            rated=known.rated,
            drift_history=history,
            recalls=int(roots.number(known.facet, "recalls") or 0),
            recalled_at=moment(roots.number(known.facet, "recalled_at")),
            tags=tuple(tag for tag, _ in self.tags.most_common()),
            archived_count=self.archived,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """What lies beside a thread."""

    facet: JsonObject = field(default_factory=dict)
    attention: JsonObject = field(default_factory=dict)
    rated: Rated = UNRATED


@dataclass(frozen=True, slots=True)
class Part:
    """A thread's contexts, each with its facet `thread`; none for a memory that was said in no context."""

    id: str
    owner: str
    contexts: Mapping[str, JsonObject]


def part(reader: StoreReader, project: str, name: Named) -> Part:
    return Part(name.id, name.owner, {} if name.is_alone else roots.members(reader, project, name.id))


def rows(reader: StoreReader, project: str, whole: Part) -> Iterator[Row]:
    """All that was said in it, in the order in which it was stored."""
    if not whole.contexts:
        row = reader.row(whole.id)
        yield from () if row is None else (row,)
        return
    yield from heapq.merge(*(_said_in(reader, project, one) for one in whole.contexts), key=lambda row: row.position)


def left(reader: StoreReader, project: str, whole: Part, now_s: float) -> Iterator[Memory]:
    """All that is there of it, as `tell` sees it: without ended working memories."""
    found = _subjects(reader, project, rows(reader, project, whole))
    return (subject.memory for subject in found if not _is_gone(subject, now_s))


def gather(reader: StoreReader, project: str, whole: Part, now_s: float) -> Gathered:
    """What its memories say of it."""
    gathered = Gathered(whole.id)
    for subject in _subjects(reader, project, rows(reader, project, whole)):
        gathered.see(subject, now_s)
    return gathered


def tell(
    reader: StoreReader, project: str, whole: Part, now_s: float, *, first: int = 0, limit: int = 0
) -> ThreadView | None:
    """The thread with a page of its messages; None when nothing of it is left."""
    gathered = Gathered(whole.id)
    said: deque[Said] = deque(maxlen=MOST_DRIFT)
    ids: list[str] = []
    page: list[Message] = []
    for subject in _subjects(reader, project, rows(reader, project, whole)):
        if not gathered.see(subject, now_s):
            continue
        memory = subject.memory
        if first <= len(ids) < first + limit:
            is_over = subject.lifetime is not None and is_expired(subject.lifetime, now_s)
            page.append(Message(memory, subject.standing is not Standing.LIVE or is_over))
        ids.append(memory.id)
        said.append(saying(memory))
    if not ids:
        return None
    facet = _facet(reader, whole)
    known = Known(facet, _one(reader, roots.ATTENTION, whole.owner), rated(reader, whole.owner, ids))
    view = gathered.view(known, drift.history(tuple(said), roots.texts(facet, "drift_history")))
    return _with_page(view, whole, page, first)


def messages(reader: StoreReader, memories: Sequence[Memory]) -> tuple[Message, ...]:
    """Those of the memories that are there, in the order in which they were stored."""
    found = [row for one in memories if (row := reader.row(one.id)) is not None and row.standing in roots.THERE]
    ordered = sorted(found, key=lambda row: row.position)
    return tuple(Message(row.memory, row.standing is not Standing.LIVE) for row in ordered)


def rated(reader: StoreReader, name: str, memory_ids: Sequence[str]) -> Rated:
    pages = (memory_ids[at : at + AT_ONCE] for at in range(0, len(memory_ids), AT_ONCE))
    injected = [facet for some in pages for facet in reader.facets(INJECTED, some).values()]
    return _rated(_one(reader, RATINGS, name), unused(injected))


def saying(memory: Memory) -> Said:
    """A memory as a message of its thread."""
    return Said(f"{memory.title or ''} {memory.content}"[: drift.READ].strip(), memory.tags)


def _rated(facet: JsonObject | None, times_unused: int) -> Rated:
    ratings = Ratings.from_json(facet)
    return Rated(relevance(ratings, times_unused), ratings.raw, tuple(one.to_json() for one in ratings.latest))


def _is_gone(subject: Subject, now_s: float) -> bool:
    """An ended working memory, which the next sweep erases."""
    return subject.memory.type is MemoryType.WORKING and is_expired(subject.lifetime, now_s)


def _with_page(view: ThreadView, whole: Part, page: Sequence[Message], first: int) -> ThreadView:
    merged = tuple(one for one in whole.contexts if one != whole.id)
    return replace(view, merged=merged, messages=tuple(page), first=first)


def _subjects(reader: StoreReader, project: str, found: Iterator[Row]) -> Iterator[Subject]:
    subjects = Subjects(reader, project)
    while some := list(islice(found, PAGE)):
        yield from subjects.of(some)


def _said_in(reader: StoreReader, project: str, context_id: str) -> Iterator[Row]:
    query, start = Query("", project, context_id=context_id), None
    while found := reader.page(query, roots.THERE, PAGE, start, oldest_first=True):
        yield from found
        start = found[-1].position


def _facet(reader: StoreReader, whole: Part) -> JsonObject:
    return whole.contexts[whole.id] if whole.contexts else _one(reader, roots.THREAD, whole.id)


def _one(reader: StoreReader, name: str, whose: str) -> JsonObject:
    return reader.facets(name, [whose]).get(whose, {})
