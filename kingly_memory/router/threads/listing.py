"""All threads of a project at a glance, from the briefs that are kept of them."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappush, heappushpop, nlargest, nsmallest
from typing import NamedTuple

from kingly_memory.attention import pins
from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import StoreReader
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.threads import courses, roots, telling
from kingly_memory.router.threads.briefs import MOST_NEW, Briefs, Survey, is_active, most_new, weights
from kingly_memory.router.threads.courses import Course
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.pairs import LEAST_READ
from kingly_memory.router.threads.roots import ATTENTION
from kingly_memory.router.threads.telling import MOST_TOPICS, Gathered, Known
from kingly_memory.router.threads.views import ACTIVE, ARCHIVED, MERGED, USUAL, Weighed, moment, weighed

FULL_WEIGHT = 10.0
"""At which the pressure is 1 (seed 002, feature 3)."""
SHOWN = 5
NOTHING: JsonObject = {}


@dataclass(frozen=True, slots=True)
class Glance:
    """A thread in a list. `messages` are those that answer searches; of an archived thread those that lie there, of a
    merged one none: it holds what `into` holds."""

    id: str
    title: str
    topics: tuple[str, ...]
    status: str
    messages: int
    last_active: datetime | None
    weighed: Weighed
    into: str | None = None
    recalls: int = 0

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "title": self.title,
            "topics": list(self.topics),
            "status": self.status,
            **({} if self.into is None else {"into": self.into}),
            "message_count": self.messages,
            "weight": round(self.weighed.weight, 4),
            "pinned": self.weighed.pinned,
            "last_active": None if self.last_active is None else self.last_active.isoformat(),
            "recalls": self.recalls,
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """How many threads are active and what they weigh. `context_pressure` is the seed's, `utilisation` the share of as
    many threads as a normal compaction leaves; both from 0, and only the second goes beyond 1. `unread` threads were
    not looked at yet, and count as active ones of the usual weight."""

    active_threads: int
    total_weight: float
    pinned: int
    archived: int
    most_active: int
    heaviest: tuple[Glance, ...] = ()
    latest: tuple[Glance, ...] = ()
    focus: tuple[JsonObject, ...] = ()
    unread: int = 0

    @property
    def context_pressure(self) -> float:
        return min(1.0, self.total_weight / FULL_WEIGHT)

    @property
    def utilisation(self) -> float:
        return self.active_threads / self.most_active

    @property
    def message(self) -> str:
        threads = f"{self.active_threads:,} active thread{'' if self.active_threads == 1 else 's'}"
        pinned = f", {self.pinned:,} pinned" if self.pinned else ""
        unread = f", {self.unread:,} not looked at yet" if self.unread else ""
        return (
            f"{threads}{pinned}{unread}; pressure {self.context_pressure:.2f}, "
            f"utilisation {self.utilisation:.2f} of {self.most_active}"
        )

    def to_json(self) -> JsonObject:
        return {
            "active_threads": self.active_threads,
            "total_weight": round(self.total_weight, 4),
            "context_pressure": round(self.context_pressure, 4),
            "utilisation": round(self.utilisation, 4),
            "max_active_threads": self.most_active,
            "pinned": self.pinned,
            "archived_memories": self.archived,
            "focus": list(self.focus),
            "heaviest": [one.to_json() for one in self.heaviest],
            "latest": [one.to_json() for one in self.latest],
            "unread": self.unread,
        }


class Seen(NamedTuple):
    """A thread with live memories, before it is written out: there may be very many of them."""

    course: Course
    status: str
    weighed: Weighed

    def latest_first(self) -> tuple[float, str]:
        return -self.course.last_s, self.course.context_id

    def heaviest_first(self) -> tuple[float, float, str]:
        return -self.weighed.weight, *self.latest_first()


def overview(
    briefs: Briefs, reader: StoreReader, project: str, now_s: float, most_active: int, *, within_s: float = math.inf
) -> Overview:
    """Threads of which there is no brief are read for about so many seconds: those that weigh something else than
    usual, then the latest."""
    deadline_s = time.monotonic() + within_s
    found = briefs.survey(now_s, most_new=most_new(MOST_NEW, within_s))
    heavy, reading = weights(reader, project, found), _Reading(briefs, reader, now_s, found)
    by_weight = sorted(found.waiting, key=lambda name: name not in heavy)
    for number, name in enumerate(by_weight):
        if name not in heavy and number >= LEAST_READ and time.monotonic() >= deadline_s:
            break
        reading.read(name)
    active = [one for one in _seen(reading.told, heavy, found) if one.status == ACTIVE]
    unread = found.unmet + reading.left
    return Overview(
        len(active) + unread,
        math.fsum(one.weighed.weight for one in active) + unread,
        sum(one.weighed.pinned for one in active),
        reader.counts(project)["archived"],
        most_active,
        heaviest=tuple(_glance(one, found) for one in nsmallest(SHOWN, active, key=Seen.heaviest_first)),
        latest=tuple(_glance(one, found) for one in nsmallest(SHOWN, active, key=Seen.latest_first)),
        unread=unread,
    )


def of_status(
    briefs: Briefs, reader: StoreReader, project: str, now_s: float, *, status: str | None, limit: int
) -> list[Glance]:
    """The latest ones of that status, or of all for None, the latest first."""
    if status == ACTIVE:
        return _active(briefs, reader, project, now_s, limit)
    found = briefs.survey(now_s)
    reading = _Reading(briefs, reader, now_s, found)
    for name in found.waiting:
        reading.read(name)
    seen = _seen(reading.told, weights(reader, project, found), found)
    wanted = [one for one in seen if status in (None, one.status)]
    glances = [_glance(one, found) for one in nsmallest(limit, wanted, key=Seen.latest_first)]
    known = {one.course.context_id for one in seen}
    ended = (found.current.keys() | found.waiting.keys()) - known
    others = (
        *(_archived(reader, project, now_s, found, known, ended=ended) if status != MERGED else ()),
        *_merged(found),
    )
    glances += (one for one in others if status in (None, one.status))
    return [_titled(one, reader, project) for one in nsmallest(limit, glances, key=_latest_first)]


def _active(briefs: Briefs, reader: StoreReader, project: str, now_s: float, limit: int) -> list[Glance]:
    """Of threads without a brief only those are read that may be among the latest."""
    found = briefs.survey(now_s)
    reading, known = _Reading(briefs, reader, now_s, found), found.current.values()
    latest = nlargest(limit, (one.last_s for one in known if not one.is_over and _status(one, found) == ACTIVE))
    heapify(latest)
    for name, last_s in _by_time(reader, project, found, limit):
        if len(latest) == limit and last_s <= latest[0]:
            break
        if reading.read(name) == ACTIVE:
            (heappush if len(latest) < limit else heappushpop)(latest, reading.told[name].last_s)
    active = [one for one in _seen(reading.told, weights(reader, project, found), found) if one.status == ACTIVE]
    return [_glance(one, found) for one in nsmallest(limit, active, key=Seen.latest_first)]


def _by_time(reader: StoreReader, project: str, found: Survey, limit: int) -> list[tuple[str, float]]:
    """The threads in waiting, the latest first, and when each may have been active last (Unix seconds)."""
    if len(found.waiting) <= limit:
        return [(name, math.inf) for name in found.waiting]
    last_s = reader.threads.talked_last(project)
    times = {
        name: max((last_s.get(token, math.inf) for _, token in one.contexts), default=math.inf)
        for name, one in found.waiting.items()
    }
    return sorted(times.items(), key=lambda pair: (-pair[1], pair[0]))


class _Reading:
    """The briefs that are there, and those that are worked out here."""

    def __init__(self, briefs: Briefs, reader: StoreReader, now_s: float, found: Survey) -> None:
        self.told = dict(found.current)
        self.left = len(found.waiting)
        self._held = briefs.worked_out(found, now_s)
        self._briefs = briefs
        self._reader = reader
        self._now_s = now_s
        self._found = found

    def read(self, name: str) -> str | None:
        """Of a thread that waits. Says its status; None where nothing is left of it."""
        course = self._held.get(name)
        if course is None:
            read = courses.read(self._reader, self._briefs.project, self._found.waiting[name], self._now_s)
            course = None if read is None else read.course
        self.left -= 1
        if course is None or course.is_over:
            return None
        self.told[name] = course
        return _status(course, self._found)


def _seen(told: Mapping[str, Course], heavy: Mapping[str, Sequence[JsonObject]], found: Survey) -> list[Seen]:
    return [
        Seen(course, _status(course, found), weighed(heavy[name]) if name in heavy else USUAL)
        for name, course in told.items()
        if not course.is_over
    ]


def _status(course: Course, found: Survey) -> str:
    return ACTIVE if is_active(course, found.facets.get(course.context_id, NOTHING)) else ARCHIVED


def _glance(one: Seen, found: Survey) -> Glance:
    course = one.course
    facet = found.facets.get(course.context_id, NOTHING)
    return Glance(
        course.context_id,
        roots.text(facet, "title") or course.title,
        (roots.texts(facet, "topics") or tuple(course.topics))[:MOST_TOPICS],
        one.status,
        int(course.made_of.partition(".")[0]),
        moment(course.last_s),
        one.weighed,
        recalls=int(roots.number(facet, "recalls") or 0),
    )


def _archived(
    reader: StoreReader, project: str, now_s: float, found: Survey, known: Collection[str], *, ended: Collection[str]
) -> Iterator[Glance]:
    """Threads of which nothing is left but what lies in the archive, or has `ended` and will."""
    gathered: dict[str, Gathered] = {}
    for name in ended:
        whole = telling.part(reader, project, Named(name, owner(project, name)))
        gathered[name] = telling.gather(reader, project, whole, now_s)
    for subject in Subjects(reader, project).live(standings=(Standing.ARCHIVED,)):
        context_id = subject.memory.scope.context_id
        thread_id = None if context_id is None else roots.root(context_id, found.facets)
        if thread_id is not None and thread_id not in known and thread_id not in ended:
            gathered.setdefault(thread_id, Gathered(thread_id)).see(subject, now_s)
    gathered = {name: one for name, one in gathered.items() if one.archived}
    attention = roots.facets(reader, ATTENTION, project, gathered)
    for name, one in gathered.items():
        view = one.view(Known(found.facets.get(name, NOTHING), attention.get(name, NOTHING)))
        yield Glance(
            name, view.title, view.topics, ARCHIVED, one.archived, view.last_active, view.weighed, recalls=view.recalls
        )


def _merged(found: Survey) -> Iterator[Glance]:
    for name, facet in found.facets.items():
        if (into := roots.into(facet)) is not None:
            title, topics = roots.text(facet, "title") or "", roots.texts(facet, "topics")
            merged_at = moment(roots.number(facet, "at"))
            yield Glance(name, title, topics[:MOST_TOPICS], MERGED, 0, merged_at, Weighed(), into=into)


def _titled(one: Glance, reader: StoreReader, project: str) -> Glance:
    """A merged thread that nobody has called anything goes by its first memory."""
    if one.status != MERGED or one.title:
        return one
    first = reader.page(Query("", project, context_id=one.id), roots.THERE, 1, None, oldest_first=True)
    begins = None if not first else first[0].memory.title or pins.title(first[0].memory.content)
    return replace(one, title=begins or one.id)


def _latest_first(one: Glance) -> tuple[float, str]:
    return math.inf if one.last_active is None else -one.last_active.timestamp(), one.id
