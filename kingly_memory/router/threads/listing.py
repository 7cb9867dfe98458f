"""All threads of a project at a glance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nsmallest
from itertools import islice

from kingly_memory.attention import pins
from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import StoreReader
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.threads import roots, summaries, telling
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.roots import ATTENTION
from kingly_memory.router.threads.summaries import MOST_TOPICS
from kingly_memory.router.threads.survey import Present, all_facets, survey, weights
from kingly_memory.router.threads.telling import Gathered, Known
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
    many threads as a normal compaction leaves; both from 0, and only the second goes beyond 1."""

    active_threads: int
    total_weight: float
    pinned: int
    archived: int
    most_active: int
    heaviest: tuple[Glance, ...] = ()
    latest: tuple[Glance, ...] = ()
    focus: tuple[JsonObject, ...] = ()

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
        return (
            f"{threads}{pinned}; pressure {self.context_pressure:.2f}, "
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
        }


class Listing:
    """Looks at the threads of a project as they are by `now_s`."""

    def __init__(self, reader: StoreReader, project: str, now_s: float) -> None:
        self._reader = reader
        self._project = project
        self._now_s = now_s
        self._found = survey(reader, project, now_s)
        weighty = weights(reader, project, self._found).items()
        self._weights = {name: weighed(facets) for name, facets in weighty}

    def overview(self, most_active: int) -> Overview:
        active = self._found.active
        heavy = [self._weights[name] for name in self._weights if name in active]
        by_weight = sorted(active.values(), key=lambda one: (-self._weight(one).weight, one.latest_first))
        heaviest, latest = by_weight[:SHOWN], list(islice(active.values(), SHOWN))
        glances = self._glances({one.id: one for one in (*heaviest, *latest)})
        return Overview(
            len(active),
            math.fsum(one.weight for one in heavy) + len(active) - len(heavy),
            sum(one.pinned for one in heavy),
            self._reader.counts(self._project)["archived"],
            most_active,
            heaviest=tuple(glances[one.id] for one in heaviest if one.id in glances),
            latest=tuple(glances[one.id] for one in latest if one.id in glances),
        )

    def of_status(self, status: str | None, limit: int) -> list[Glance]:
        """The latest ones of that status, or of all for None, the latest first."""
        active, archived = self._found.active, self._found.archived
        present = {ACTIVE: active, ARCHIVED: archived, MERGED: {}, None: {**active, **archived}}[status]
        wanted = nsmallest(limit, present.values(), key=lambda one: one.latest_first)
        glances = list(self._glances({one.id: one for one in wanted}).values())
        if status in (None, ARCHIVED):
            glances += self._put_away()
        if status in (None, MERGED):
            glances += self._merged()
        return [self._titled(one) for one in nsmallest(limit, glances, key=_latest_first)]

    def _weight(self, one: Present) -> Weighed:
        return self._weights.get(one.id, USUAL)

    def _glances(self, threads: Mapping[str, Present]) -> dict[str, Glance]:
        """Reads the memories of those threads."""
        contexts = {name: [talk.context_id for talk in one.talks] for name, one in threads.items()}
        glances: dict[str, Glance] = {}
        for name, said in summaries.lines(self._reader, self._project, contexts, self._now_s).items():
            facet, one = self._found.facets.get(name, NOTHING), threads[name]
            glances[name] = Glance(
                name,
                roots.text(facet, "title") or summaries.title(name, said),
                (roots.texts(facet, "topics") or summaries.about(said))[:MOST_TOPICS],
                ACTIVE if name in self._found.active else ARCHIVED,
                one.memories,
                moment(one.last_s),
                self._weight(one),
                recalls=int(roots.number(facet, "recalls") or 0),
            )
        return glances

    def _put_away(self) -> Iterator[Glance]:
        """Threads of which nothing is left but what lies in the archive, or has ended and will."""
        reader, project, known = self._reader, self._project, {*self._found.active, *self._found.archived}
        contexts = [one.context_id for one in reader.threads.talks(project, -math.inf)]
        facets = roots.threads(reader, project, contexts)
        gathered: dict[str, Gathered] = {}
        for name in {roots.root(one, facets) for one in contexts} - known:
            whole = telling.part(reader, project, Named(name, owner(project, name)))
            gathered[name] = telling.gather(reader, project, whole, self._now_s)
        ended = {*gathered}
        for subject in Subjects(reader, project).live(standings=(Standing.ARCHIVED,)):
            context_id = subject.memory.scope.context_id
            if context_id is None:
                continue
            if context_id not in facets:
                facets |= roots.threads(reader, project, [context_id])
            thread_id = roots.root(context_id, facets)
            if thread_id not in known and thread_id not in ended:
                gathered.setdefault(thread_id, Gathered(thread_id)).see(subject, self._now_s)
        gathered = {name: one for name, one in gathered.items() if one.archived}
        attention = roots.facets(reader, ATTENTION, project, gathered)
        for name, one in gathered.items():
            view = one.view(Known(facets.get(name, NOTHING), attention.get(name, NOTHING)))
            active = view.last_active
            yield Glance(
                name, view.title, view.topics, ARCHIVED, one.archived, active, view.weighed, recalls=view.recalls
            )

    def _merged(self) -> Iterator[Glance]:
        for whose, facet in all_facets(self._reader, roots.THREAD):
            name, into = roots.text(facet, "context_id"), roots.into(facet)
            if name is not None and into is not None and owner(self._project, name) == whose:
                title, topics = roots.text(facet, "title") or "", roots.texts(facet, "topics")
                merged_at = moment(roots.number(facet, "at"))
                yield Glance(name, title, topics[:MOST_TOPICS], MERGED, 0, merged_at, Weighed(), into=into)

    def _titled(self, one: Glance) -> Glance:
        """A merged thread that nobody has called anything goes by its first memory."""
        if one.status != MERGED or one.title:
            return one
        query = Query("", self._project, context_id=one.id)
        first = self._reader.page(query, roots.THERE, 1, None, oldest_first=True)
        begins = None if not first else first[0].memory.title or pins.title(first[0].memory.content)
        return replace(one, title=begins or one.id)


def _latest_first(one: Glance) -> tuple[float, str]:
    return math.inf if one.last_active is None else -one.last_active.timestamp(), one.id
