"""Reading threads: what they are about, which ones a project has, and one of them whole.

Nothing of this is stored: it is worked out from the memories whenever somebody asks.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from kingly_memory.attention import drift, pins
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.imported import FROM_FILE, ExportedThread
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.policies import Subject
from kingly_memory.models import KEPT, JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Line, Row, StoreReader, Talk
from kingly_memory.router import thread_lookup
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import (
    ATTENTION,
    RATINGS,
    THREAD,
    Named,
    Weighed,
    combined,
    number,
    text,
    texts,
    weighed,
)
from kingly_memory.router.threads.views import (
    ACTIVE,
    ARCHIVED,
    LONG_AGO,
    USUAL,
    Glance,
    ThreadMessage,
    ThreadView,
)
from kingly_memory.router.view import pages
from kingly_memory.text import topics
from kingly_memory.text.topics import Topic

READ_MOST = 128
"""Memories that say what a thread is about, the latest."""
DRIFT_MOST, DRIFT_KEPT = 64, 12
"""Of these, the ones in which a summary looks for drift, and the past topics that it keeps."""
VIEW_DRIFT_MOST = 2_000
"""Messages in which drift is looked for when a thread is read whole, the latest."""
MOST_TOPICS = 5
_PAGE = 64


# --- what a thread is about -------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """`topics` are words for people, `topic` weighs the words by which threads are compared, as a vector of length
    1."""

    title: str = ""
    topics: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    topic: Topic = MappingProxyType({})


def lines(
    reader: StoreReader, space: str, contexts: Mapping[str, Iterable[str]], now_s: float, most: int = READ_MOST
) -> dict[str, list[Line]]:
    """What each thread's contexts say: of each the first memory and the last `most`, in the order of storing."""
    thread_of = {context_id: name for name, context_ids in contexts.items() for context_id in context_ids}
    by_thread: dict[str, list[Line]] = {}
    for line in reader.lines(space, list(thread_of), now_s, most):
        by_thread.setdefault(thread_of[line.context_id], []).append(line)
    return by_thread


def line(memory: Memory, thread_id: str) -> Line:
    context_id = memory.scope.context_id or thread_id
    return Line(context_id, memory.title or "", memory.content[: topics.READ], memory.tags)


def summary(thread_id: str, thread_lines: Sequence[Line]) -> Summary:
    past = drift.history(thread_lines[-DRIFT_MOST:])[-DRIFT_KEPT:]
    return Summary(
        title(thread_id, thread_lines), topics_of(thread_lines), past, topics.unit(topics.topic(_words(thread_lines)))
    )


def title(thread_id: str, thread_lines: Sequence[Line]) -> str:
    """The title of the first memory in the thread's own context, or how that begins."""
    first = next((one for one in thread_lines if one.context_id == thread_id), thread_lines[0])
    return first.title or pins.title(first.text) or thread_id


def topics_of(thread_lines: Sequence[Line]) -> tuple[str, ...]:
    """The most frequent tags, else the words that tell best what was said."""
    tags = Counter(tag for one in thread_lines for tag in one.tags if tag != pins.TAG)
    if tags:
        return tuple(tag for tag, _ in tags.most_common(MOST_TOPICS))
    return drift.telling_of(_words(thread_lines), MOST_TOPICS)


def _words(thread_lines: Iterable[Line]) -> Counter[str]:
    spoken: Counter[str] = Counter()
    for one in thread_lines:
        topics.count(spoken, f"{one.title} {one.text}")
    return spoken


def moment(seconds: float | None) -> datetime | None:
    """A time in a facet; None for one that cannot be."""
    try:
        return None if not seconds else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


# --- which threads a project has --------------------------------------------------------------------------------------


class Present(NamedTuple):
    """A thread with live memories: `talks` are its contexts that have any."""

    id: str
    talks: tuple[Talk, ...]

    @property
    def contexts(self) -> list[str]:
        return [one.context_id for one in self.talks]

    @property
    def memories(self) -> int:
        return sum(one.memories for one in self.talks)

    @property
    def first_s(self) -> float:
        return min(one.first_s for one in self.talks)

    @property
    def last_s(self) -> float:
        return max(one.last_s for one in self.talks)


@dataclass(frozen=True, slots=True)
class Survey:
    """The active threads of a project, by id, the latest first: those with live memories, but for those that a
    compaction has archived and of which only protected memories are live. `facets` are the facets `thread` of the
    contexts; `weights` has the threads that have a weight of their own."""

    active: Mapping[str, Present]
    facets: Mapping[str, JsonObject]
    weights: Mapping[str, Weighed]


def survey(reader: StoreReader, space: str, now_s: float) -> Survey:
    """One look over the rows of the store, without reading what they say."""
    talks = reader.talks(space, now_s)
    facets = thread_lookup.threads(reader, space, [one.context_id for one in talks])
    together: dict[str, list[Talk]] = {}
    for talk in talks:
        together.setdefault(thread_lookup.root(talk.context_id, facets), []).append(talk)
    active: dict[str, Present] = {}
    present = [Present(name, tuple(own)) for name, own in together.items()]
    for thread in sorted(present, key=lambda thread: (-thread.last_s, thread.id)):
        archived_at = number(facets.get(thread.id, {}), "archived_at")
        rows = (
            thread_lookup.rows(reader, space, Named(thread.id, ""), thread.contexts)
            if archived_at is not None
            else iter(())
        )
        live = (subject for subject in _subjects(reader, space, rows) if _is_live(subject, now_s))
        if archived_at is None or any(is_in_use(subject, archived_at) for subject in live):
            active[thread.id] = thread
    return Survey(active, facets, _weights(reader, space, active, facets))


def is_in_use(live: Subject, archived_at: float | None) -> bool:
    """Whether a live memory makes its thread active. Where a compaction archived the thread, a protected memory, which
    it left live, does so only when it was active since."""
    return archived_at is None or not live.is_protected or active_s(live) > archived_at


def active_s(subject: Subject) -> float:
    memory = subject.memory
    return max(memory.created_at.timestamp(), memory.updated_at.timestamp(), subject.usage.last_used or -math.inf)


def _weights(
    reader: StoreReader, space: str, names: Iterable[str], facets_of_contexts: Mapping[str, JsonObject]
) -> dict[str, Weighed]:
    """A pinned memory pins its thread."""
    facets = dict(thread_lookup.all_facets(reader, ATTENTION))
    by_thread = (
        {name: [facets.pop(whose)] for name in names if (whose := owner(space, name)) in facets} if facets else {}
    )
    for memory_id, facet in facets.items():
        row = reader.row(memory_id) if facet.get("pinned") is True else None
        if row is None or row.status is not MemoryStatus.LIVE or row.memory.scope.space != space:
            continue
        if (context_id := row.memory.scope.context_id) is not None:
            by_thread.setdefault(thread_lookup.root(context_id, facets_of_contexts), []).append(facet)
    return {name: weighed(of_thread) for name, of_thread in by_thread.items()}


def thread_facet(reader: StoreReader, space: str, thread_id: str, facets: Mapping[str, JsonObject]) -> JsonObject:
    """The facet `thread` of a thread, combined with those of the threads merged into it. `facets` has its own one."""
    facet = facets.get(thread_id, {})
    return combined(thread_lookup.members(reader, space, thread_id)) if texts(facet, "holds") else facet


# --- lists of threads -------------------------------------------------------------------------------------------------


def listed(reader: StoreReader, space: str, now_s: float, limit: int) -> list[Glance]:
    """The active threads, the latest first. Reads their memories."""
    surveyed = survey(reader, space, now_s)
    wanted = dict(islice(surveyed.active.items(), limit))
    glances = []
    for name, thread_lines in lines(reader, space, {name: one.contexts for name, one in wanted.items()}, now_s).items():
        facet, thread = thread_facet(reader, space, name, surveyed.facets), wanted[name]
        glance = Glance(
            name,
            text(facet, "title") or title(name, thread_lines),
            (texts(facet, "topics") or topics_of(thread_lines))[:MOST_TOPICS],
            ACTIVE,
            thread.memories,
            moment(thread.last_s) or LONG_AGO,
            *surveyed.weights.get(name, USUAL),
            recalls=int(number(facet, "recalls") or 0),
        )
        glances.append(glance)
    return sorted(glances, key=lambda one: (-one.last_active.timestamp(), one.id))


# --- one thread whole -------------------------------------------------------------------------------------------------


def read(
    reader: StoreReader,
    space: str,
    thread: Named,
    now_s: float,
    *,
    first: int = 0,
    limit: int = 0,
) -> ThreadView | None:
    """The thread with a page of its messages; None when nothing of it is left."""
    contexts = thread_lookup.contexts_of(reader, space, thread)
    facet = combined(contexts) if contexts else reader.facet(THREAD, thread.id) or {}
    ids: list[str] = []
    page: list[ThreadMessage] = []
    recent: deque[Line] = deque(maxlen=VIEW_DRIFT_MOST)
    begins: Line | None = None
    tags: Counter[str] = Counter()
    pin_weights: list[float] = []
    created_at, last_s, archived, is_active = None, 0.0, 0, False
    for subject in left(reader, space, thread, contexts, now_s):
        memory, is_live = subject.memory, _is_live(subject, now_s)
        if first <= len(ids) < first + limit:
            page.append(ThreadMessage(memory, archived=not is_live))
        ids.append(memory.id)
        archived += not is_live
        is_active = is_active or (is_live and is_in_use(subject, number(facet, "archived_at")))
        recent.append(line(memory, thread.id))
        if begins is None or begins.context_id != thread.id == recent[-1].context_id:
            begins = recent[-1]
        tags.update(memory.tags)
        created_at = memory.created_at if created_at is None else min(created_at, memory.created_at)
        last_s = max(last_s, active_s(subject))
        if subject.pinned:
            pin_weights.append(subject.weight)
    if begins is None or created_at is None:
        return None
    pin = {"weight": max(pin_weights), "pinned": True} if pin_weights else {}
    latest = [*recent][-READ_MOST:]
    owners = [owner(space, one) for one in contexts] or [thread.owner]
    ratings = Ratings.together(reader.facets(RATINGS, owners).values())
    return ThreadView(
        thread.id,
        text(facet, "title") or title(thread.id, [begins]),
        (texts(facet, "topics") or topics_of(latest))[:MOST_TOPICS],
        ACTIVE if is_active else ARCHIVED,
        len(ids),
        datetime.fromtimestamp(last_s, UTC),
        *weighed([reader.facet(ATTENTION, thread.owner) or {}, pin]),
        created_at=created_at,
        relevance=relevance(ratings),
        relevance_raw=ratings.raw,
        ratings=tuple(one.to_json() for one in ratings.latest),
        drift_history=drift.history(list(recent)),
        recalls=int(number(facet, "recalls") or 0),
        recalled_at=moment(number(facet, "recalled_at")),
        tags=tuple(tag for tag, _ in tags.most_common()),
        merged=tuple(one for one in contexts if one != thread.id),
        archived_count=archived,
        messages=tuple(page),
        first=first,
    )


def left(reader: StoreReader, space: str, thread: Named, contexts: Iterable[str], now_s: float) -> Iterator[Subject]:
    """The memories that are there in those contexts of a thread, in the order of storing. Ended working memories, which
    the next sweep erases, count as gone."""
    for subject in _subjects(reader, space, thread_lookup.rows(reader, space, thread, contexts)):
        if subject.memory.type is not MemoryType.WORKING or not is_expired(subject.lifetime, now_s):
            yield subject


def messages(reader: StoreReader, memories: Sequence[Memory]) -> tuple[ThreadMessage, ...]:
    """Those of the memories that are there, in the order in which they were stored."""
    rows = [row for one in memories if (row := reader.row(one.id)) is not None and row.status in KEPT]
    ordered = sorted(rows, key=lambda row: row.position)
    return tuple(ThreadMessage(row.memory, row.status is not MemoryStatus.LIVE) for row in ordered)


def _is_live(subject: Subject, now_s: float) -> bool:
    return subject.status is MemoryStatus.LIVE and not is_expired(subject.lifetime, now_s)


def _subjects(reader: StoreReader, space: str, rows: Iterator[Row]) -> Iterator[Subject]:
    subjects = Subjects(reader, space)
    while some := list(islice(rows, _PAGE)):
        yield from subjects.of(some)


# --- threads and the focus as an export to files has them -------------------------------------------------------------


def exported_threads(reader: StoreReader, space: str) -> Iterator[ExportedThread]:
    """Every thread of contexts, archived and merged ones too: each with what was said in its own context, in the order
    in which they were begun here."""
    contexts: dict[str, list[MemoryId]] = {}
    for row in pages(reader, Query("", space)):
        if row.memory.scope.context_id is not None:
            contexts.setdefault(row.memory.scope.context_id, []).append(row.memory.id)
    for thread_id, memory_ids in contexts.items():
        rows = (reader.row(one) for one in memory_ids)
        yield _exported(reader, space, thread_id, [row for row in rows if row is not None and row.status in KEPT])


def exported_focus(reader: StoreReader, space: str) -> JsonObject | None:
    """What the project has in focus; None when it never had a focus."""
    return reader.facet("focus", whose_focus(space))


def _exported(reader: StoreReader, space: str, thread_id: str, rows: Sequence[Row]) -> ExportedThread:
    whose = owner(space, thread_id)
    by_kind = reader.facets_of({name: [whose] for name in FROM_FILE})
    facets = {name: by_owner[whose] for name, by_owner in by_kind.items() if whose in by_owner}
    thread_lines = [line(row.memory, thread_id) for row in rows]
    archived_at = number(facets.get(THREAD, {}), "archived_at")
    # What has ended is live until a sweep sees to it.
    live = (one for one in Subjects(reader, space).of(rows) if one.status is MemoryStatus.LIVE)
    return ExportedThread(
        thread_id,
        tuple((row.memory, row.status) for row in rows),
        facets,
        title(thread_id, thread_lines) if thread_lines else thread_id,
        topics_of(thread_lines[-READ_MOST:])[:MOST_TOPICS],
        drift.history(thread_lines[-VIEW_DRIFT_MOST:]),
        relevance(Ratings.from_json(facets.get(RATINGS))),
        any(is_in_use(one, archived_at) for one in live),
    )
