"""Suggestions for a project's threads as they are now: reads briefs, works out the missing ones, writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kingly_memory.attention import drift
from kingly_memory.attention.suggestions import Digest, Pair, Suggestions, suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.threads import dividing, roots, telling
from kingly_memory.router.threads.briefs import Briefs, is_active, weights
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.courses import Course
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.pairs import Comparing
from kingly_memory.router.threads.views import weighed

RELATED = 30
"""Memories that answer a context, among whose threads hints are looked for."""
MOST_DIVIDED = 20
"""Threads that are divided to see whether they can be."""
LEAST_RELATED = 0.2
SEARCH_S = 0.1


def suggest(briefs: Briefs, reader: StoreReader, project: str, context: Query | None, now_s: float) -> Suggestions:
    """What to suggest of the project's active threads; hints only for a context."""
    found = briefs.survey(now_s)
    comparing = Comparing(reader, project, found, now_s)
    worked_out = briefs.worked_out(found, now_s)
    missing = [outline for name, outline in found.waiting.items() if name not in worked_out]
    worked_out |= comparing.compared(missing)
    briefs.hold(worked_out)
    told = {**found.current, **worked_out}
    attention = weights(reader, project, found)
    threads = {
        name: _digest(course, facet, attention.get(name))
        for name, course in told.items()
        if not course.is_over and ((facet := found.facets.get(name)) is None or is_active(course, facet))
    }
    threads |= {one.id: one._replace(drift=()) for one in _undivided(reader, project, threads, told, found.facets)}
    pairs = [
        Pair(similarity, ends, _shared(*(threads[one] for one in ends)))
        for ends, similarity in comparing.pairs(told).items()
        if all(one in threads for one in ends)
    ]
    related = [] if context is None else _related(reader, context, found.facets, now_s)
    most = COMPACTION_STRATEGIES[NORMAL].max_active_threads
    return suggestions(tuple(threads.values()), pairs, related, now_s, most_active=most)


# --- the threads ------------------------------------------------------------------------------------------------------


def _digest(course: Course, facet: JsonObject | None, attention: Sequence[JsonObject] | None) -> Digest:
    plain = Digest(
        course.context_id, course.title, course.topics, course.drift, 1.0, False, course.first_s, course.last_s
    )
    if not facet and not attention:
        return plain
    facet, heavy = facet or {}, weighed(attention or ())
    return plain._replace(
        title=roots.text(facet, "title") or course.title,
        topics=roots.texts(facet, "topics") or course.topics,
        drift=(*roots.texts(facet, "drift_history"), *course.drift),
        weight=heavy.weight,
        pinned=heavy.pinned,
        recalled=bool(roots.number(facet, "recalls")),
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


def _shared(one: Digest, other: Digest) -> tuple[str, ...]:
    theirs = {topic.casefold() for topic in other.topics}
    return tuple(topic for topic in one.topics if topic.casefold() in theirs)[:3]


# --- hints ------------------------------------------------------------------------------------------------------------


def _related(reader: StoreReader, context: Query, facets: Mapping[str, JsonObject], now_s: float) -> list[str]:
    """The threads of the memories that answer the context, the best first. Nothing counts as used by that."""
    search = LocalSearch(reader)
    answer = search.search(context, now_s=now_s, budget_s=SEARCH_S)
    said_in = [hit.memory.scope.context_id for hit in answer.hits if hit.relevance >= LEAST_RELATED]
    return list(dict.fromkeys(roots.root(one, facets) for one in said_in if one is not None))
