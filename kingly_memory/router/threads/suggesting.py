"""Suggestions for a project's threads as they are now: reads briefs, works out the missing ones, writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import NamedTuple

from kingly_memory.attention import drift
from kingly_memory.attention.suggestions import Digest, Pair, Suggestions, suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router.collector import put_off
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.threads import courses, dividing, roots, telling
from kingly_memory.router.threads.briefs import (
    MOST_NEW,
    MOST_VERSIONS,
    Briefs,
    Survey,
    Version,
    is_active,
    most_new,
    until_s,
    weights,
)
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.courses import Course, Outline
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.pairs import Comparing, WorkedOut
from kingly_memory.router.threads.views import weighed

RELATED = 30
"""Memories that answer a context, among whose threads hints are looked for."""
MOST_DIVIDED = 20
"""Threads that are divided to see whether they can be."""
LEAST_RELATED = 0.2
SEARCH_S = 0.1
MOST_MET = 10
"""Threads that answer a context and were not read yet: they are read for the hints, the best ones."""
WORTH_S = 0.25
"""What has taken so long to work out is written down, so that the next process has it."""


class _Look(NamedTuple):
    """What suggestions are made of, in those `versions` of the store and until `until_s`. `threads`: those of which
    there may be anything to suggest, and those that are `marked`: of which somebody has said anything. `active`: how
    many threads are, of all that are told. `unread`: how many are left for the next look."""

    told: Mapping[str, Course]
    threads: Mapping[str, Digest]
    marked: Collection[str]
    active: int
    pairs: Sequence[Pair]
    facets: Mapping[str, JsonObject]
    until_s: float
    unread: int = 0
    versions: tuple[Version, ...] = ()


class Suggesting:
    """Suggestions for one project. What they are made of is kept for as long as nobody writes to the store, and of each
    thread for as long as that is as it was. Safe from any thread. `unwritten`: briefs that took long to work out, for
    whoever can write them down."""

    def __init__(self, briefs: Briefs, reader: StoreReader) -> None:
        self._briefs = briefs
        self._reader = reader
        self._project = briefs.project
        self._look: _Look | None = None
        self.unwritten: WorkedOut | None = None

    def suggest(self, context: Query | None, now_s: float, within_s: float = math.inf) -> Suggestions:
        """What to suggest of the project's active threads; hints only for a context. Threads of which there is no brief
        are read for about so many seconds, the latest first."""
        is_brief = self._look is None and within_s < math.inf
        with put_off() if is_brief else nullcontext():
            return self._suggested(context, now_s, within_s)

    def _suggested(self, context: Query | None, now_s: float, within_s: float) -> Suggestions:
        deadline_s = time.monotonic() + within_s
        version = self._reader.threads.version()
        look = self._look
        is_whole = look is not None and not look.unread
        if look is None or not is_whole or version is None or version not in look.versions or now_s >= look.until_s:
            look = self._looked(look, now_s, deadline_s)
            self._look = look = _with(look, version)
        threads, related = look.threads, list[str]()
        if context is not None:
            related = _related(self._reader, context, look.facets, now_s)
            met = self._met(related, look, now_s) if look.unread else {}
            threads = {**met, **_answering(related, look, met), **threads}
        told = sum(name in look.told for name in threads)
        return suggestions(
            threads.values(),
            look.pairs,
            related,
            now_s,
            most_active=COMPACTION_STRATEGIES[NORMAL].max_active_threads,
            others=look.active - told,
            unread=max(look.unread - len(threads) + told, 0),
        )

    def _looked(self, before: _Look | None, now_s: float, deadline_s: float) -> _Look:
        reader, project = self._reader, self._project
        found = self._briefs.survey(now_s, most_new=most_new(MOST_NEW, deadline_s - time.monotonic()))
        comparing = Comparing(reader, project, found, now_s, deadline_s=deadline_s, held=self._briefs.topics)
        told = {**found.current, **self._worked_out(comparing, found, now_s, is_patient=deadline_s == math.inf)}
        attention = weights(reader, project, found)
        alike, marked = comparing.pairs(told), found.facets.keys() | attention.keys()
        plain = [name for name, course in told.items() if _is_plain(name, course, marked)]
        paired = {one for ends in alike for one in ends}
        said = _marked(told, found.facets, attention)
        threads = {one: _digest(told[one]) for one in plain if one in paired or drift.is_adrift(told[one].drift)} | said
        threads |= {one.id: one._replace(drift=()) for one in _undivided(reader, project, threads, told, found.facets)}
        pairs = [
            Pair(similarity, ends, _shared(*(threads[one] for one in ends)))
            for ends, similarity in alike.items()
            if all(one in threads for one in ends)
        ]
        unread = found.unmet + len(found.waiting.keys() - told.keys())
        ends_s, active = until_s(told.values()), len(plain) + len(said)
        look = _Look(told, threads, marked, active, pairs, found.facets, ends_s, unread)
        is_same = before is not None and (threads, pairs, found.facets) == (before.threads, before.pairs, before.facets)
        return look._replace(versions=before.versions) if before is not None and is_same else look

    def _worked_out(
        self, comparing: Comparing, found: Survey, now_s: float, *, is_patient: bool
    ) -> Mapping[str, Course]:
        """The briefs of threads in waiting. Only who is patient waits for them to be written down too."""
        known, began = self._briefs.worked_out(found, now_s), time.perf_counter()
        new = comparing.compared([one for name, one in found.waiting.items() if name not in known])
        took_s = time.perf_counter() - began
        if is_patient and took_s > WORTH_S:
            self.unwritten = WorkedOut(found, comparing.read(new), took_s)
        whole = known | new
        self._briefs.hold(whole, comparing.topics(whole))
        return whole

    def _met(self, related: Iterable[str], look: _Look, now_s: float) -> dict[str, Digest]:
        """Those of the threads that nobody has read yet."""
        unread = [one for one in related if one not in look.told][:MOST_MET]
        members: dict[str, list[str]] = {one: [one] for one in unread}
        for name in look.facets if members else ():
            root = roots.root(name, look.facets)
            if root in members and root != name:
                members[root].append(name)
        told: dict[str, Course] = {}
        for name, contexts in members.items():
            outline = Outline(name, tuple((one, "") for one in contexts), "")
            if (read := courses.read(self._reader, self._project, outline, now_s)) is not None:
                told[name] = read.course
        plain = {name: _digest(one) for name, one in told.items() if _is_plain(name, one, look.facets)}
        return plain | _marked(told, look.facets, {})


def _with(look: _Look, version: Version | None) -> _Look:
    return look if version is None else look._replace(versions=(version, *look.versions)[:MOST_VERSIONS])


# --- the threads ------------------------------------------------------------------------------------------------------


def _is_plain(name: str, course: Course, marked: Collection[str]) -> bool:
    """Whether the thread is active, and nothing but its memories tells of it."""
    return not course.is_over and name not in marked


def _marked(
    told: Mapping[str, Course], facets: Mapping[str, JsonObject], attention: Mapping[str, Sequence[JsonObject]]
) -> dict[str, Digest]:
    """Those of which somebody has."""
    found: dict[str, Digest] = {}
    for name in facets.keys() | attention.keys():
        course, facet = told.get(name), facets.get(name, {})
        if course is None or course.is_over or not is_active(course, facet):
            continue
        heavy = weighed(attention.get(name, ()))
        found[name] = _digest(course)._replace(
            title=roots.text(facet, "title") or course.title,
            topics=roots.texts(facet, "topics") or course.topics,
            drift=(*roots.texts(facet, "drift_history"), *course.drift),
            weight=heavy.weight,
            pinned=heavy.pinned,
            recalled=bool(roots.number(facet, "recalls")),
        )
    return found


def _digest(course: Course) -> Digest:
    return Digest(
        course.context_id, course.title, course.topics, course.drift, 1.0, False, course.first_s, course.last_s
    )


def _undivided(
    reader: StoreReader,
    project: str,
    threads: Mapping[str, Digest],
    told: Mapping[str, Course],
    facets: Mapping[str, JsonObject],
) -> Iterator[Digest]:
    """Those that drifted and that a split would refuse all the same. What only a file says of a thread's topics need
    not show in its messages: the latest such threads are read, and the others taken for those."""
    read = 0
    adrift = [one for one in threads.values() if one.drift and drift.is_adrift(one.drift)]
    for one in sorted(adrift, key=lambda one: -one.last_s):
        course = told[one.id]
        if len(course.contexts) > 1:  # what was merged is parted
            continue
        is_divided = 1 < int(course.made_of.partition(".")[0]) <= MOST_MOVED
        if is_divided and not drift.is_adrift(course.drift):
            read += 1
            is_divided = read <= MOST_DIVIDED and _is_divided(reader, project, one.id, facets)
        if not is_divided:
            yield one


def _is_divided(reader: StoreReader, project: str, name: str, facets: Mapping[str, JsonObject]) -> bool:
    whole = telling.part(reader, project, Named(name, owner(project, name)))
    messages = [telling.saying(row.memory) for row in islice(telling.rows(reader, project, whole), MOST_MOVED + 1)]
    earlier = roots.texts(facets.get(name, {}), "drift_history")
    return len(messages) <= MOST_MOVED and len(dividing.by_drift(messages, earlier)) > 1


def _answering(related: Sequence[str], look: _Look, met: Mapping[str, Digest]) -> dict[str, Digest]:
    """The threads about the same as one of those that answer a context: they are counted. Without those that somebody
    has said anything of, which are there already."""
    told = {name: _digest(look.told[name]) for name in related if name in look.told}
    known = {**told, **met, **look.threads}
    names = {known[name].name.casefold() for name in related if name in known}
    return {
        name: _digest(course)
        for name, course in (look.told.items() if names else ())
        if not names.isdisjoint(map(str.casefold, course.topics or (course.title, name)))
        and _is_plain(name, course, look.marked)
    }


def _shared(one: Digest, other: Digest) -> tuple[str, ...]:
    theirs = {topic.casefold() for topic in other.topics}
    return tuple(topic for topic in one.topics if topic.casefold() in theirs)[:3]


# --- hints ------------------------------------------------------------------------------------------------------------


def _related(reader: StoreReader, context: Query, facets: Mapping[str, JsonObject], now_s: float) -> list[str]:
    """The threads of the memories that answer the context, the best first. Nothing counts as used by that."""
    search = LocalSearch(reader, likeness=False)
    answer = search.search(context, now_s=now_s, budget_s=SEARCH_S)
    said_in = [hit.memory.scope.context_id for hit in answer.hits if hit.relevance >= LEAST_RELATED]
    return list(dict.fromkeys(roots.root(one, facets) for one in said_in if one is not None))
