"""Suggestions for a project's threads as they are now: reads memories, writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kingly_memory import topics
from kingly_memory.attention import drift
from kingly_memory.attention.suggestions import ALIKE, Digest, Pair, Suggestions, suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.threads import dividing, roots, summaries, telling
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.summaries import Summary
from kingly_memory.router.threads.survey import Present, Survey, survey, weights
from kingly_memory.router.threads.views import weighed

MOST_LOOKED_AT = 1_000
"""Threads that are looked at: those that answer the context, then the latest. The others only count in `health`."""
AT_ONCE = 20
"""Threads that are read between two looks at the time."""
RELATED = 30
"""Memories that answer a context, among whose threads hints are looked for."""
MOST_DIVIDED = 20
"""Threads that are divided to see whether they can be."""
FEW = 10
"""Threads that are held against each of the others one by one; when more are new, all pairs are looked for at once."""
LEAST_RELATED = 0.2
SEARCH_S = 0.1
_Alike = tuple[float, str, str]
"""How alike two threads are, and their ids."""


class Suggesting:
    """Suggestions for one project. Safe from any thread.

    To read 1,000 threads of ten memories takes some seconds, ten times as long as all the rest. So the summaries of the
    threads that were looked at last are held in memory, a few kilobytes each, as long as these stay as they are.
    """

    def __init__(self, reader: StoreReader, project: str) -> None:
        self._reader = reader
        self._project = project
        self._look: tuple[Mapping[Present, Summary], Sequence[_Alike]] = ({}, ())

    def suggest(self, context: Query | None, now_s: float, within_s: float = math.inf) -> Suggestions:
        """What to suggest of the project's active threads; hints only for a context. New threads are read for about so
        many seconds."""
        reader, project, deadline_s = self._reader, self._project, time.monotonic() + within_s
        found = survey(reader, project, now_s)
        related = [] if context is None else _related(reader, context, found.facets, now_s)
        first = {one: found.active[one] for one in related if one in found.active}
        looked_at = list(islice({**first, **found.active}.values(), MOST_LOOKED_AT))
        told, alike = self._looked(looked_at, now_s, deadline_s)
        threads = _digests(told, found, weights(reader, project, found))
        pairs = [
            Pair(round(similarity, 4), (one, other), _shared(threads[one], threads[other]))
            for similarity, one, other in alike
        ]
        undivided = {one.id: one._replace(drift=()) for one in self._undivided(threads, told, found)}
        unread = len(found.active) - len(threads)
        return suggestions(
            {**threads, **undivided}.values(),
            pairs,
            related,
            now_s,
            most_active=COMPACTION_STRATEGIES[NORMAL].max_active_threads,
            unread=unread,
        )

    def _looked(
        self, threads: Sequence[Present], now_s: float, deadline_s: float
    ) -> tuple[dict[str, Summary], Sequence[_Alike]]:
        """The summaries by thread, and which are alike. Some are read even when the time is over."""
        before, alike = self._look
        known = {one: before[one] for one in threads if one in before}
        missing = [one for one in threads if one not in known]
        for at in range(0, len(missing), AT_ONCE):
            some = missing[at : at + AT_ONCE]
            read = summaries.read(self._reader, self._project, some, now_s)
            known |= {one: read[one.id] for one in some if one.id in read}
            if time.monotonic() >= deadline_s:
                break
        told = {one.id: known[one] for one in threads if one in known}
        new = [one.id for one in known if one not in before]
        if new or len(known) < len(before):
            alike = _alike(told, new, alike)
            self._look = known, alike
        return told, alike

    def _undivided(self, threads: Mapping[str, Digest], told: Mapping[str, Summary], found: Survey) -> Iterator[Digest]:
        """Threads that drifted and that a split would refuse all the same. What only a file says of a thread's topics
        need not show in its messages: the latest such threads are read, and the others taken for those."""
        read = 0
        adrift = [one for one in threads.values() if one.drift and drift.is_adrift(one.drift)]
        for one in sorted(adrift, key=lambda one: -one.last_s):
            present = found.active[one.id]
            if len(present.talks) > 1:  # what was merged is parted
                continue
            is_divided = 1 < present.memories <= MOST_MOVED
            if is_divided and not drift.is_adrift(told[one.id].drift):
                read += 1
                is_divided = read <= MOST_DIVIDED and self._is_divided(one.id, found.facets)
            if not is_divided:
                yield one

    def _is_divided(self, name: str, facets: Mapping[str, JsonObject]) -> bool:
        reader, project = self._reader, self._project
        whole = telling.part(reader, project, Named(name, owner(project, name)))
        messages = [telling.saying(row.memory) for row in islice(telling.rows(reader, project, whole), MOST_MOVED + 1)]
        earlier = roots.texts(facets.get(name, {}), "drift_history")
        return len(messages) <= MOST_MOVED and len(dividing.by_drift(messages, earlier)) > 1


def _alike(told: Mapping[str, Summary], new: Sequence[str], known: Sequence[_Alike]) -> list[_Alike]:
    """Every pair above the threshold. Where few threads are `new`, only these are held against all others."""
    if len(new) > FEW:
        return list(topics.alike([(name, one.topic) for name, one in told.items()], ALIKE))
    left = told.keys() - set(new)
    pairs = [pair for pair in known if pair[1] in left and pair[2] in left]
    for name in new:
        topic = told[name].topic
        pairs += ((value, name, one) for one in left if (value := topics.dot(topic, told[one].topic)) > ALIKE)
        left.add(name)
    return pairs


def _digests(
    told: Mapping[str, Summary], found: Survey, attention: Mapping[str, Sequence[JsonObject]]
) -> dict[str, Digest]:
    digests: dict[str, Digest] = {}
    for name, one in told.items():
        present, facet, heavy = found.active[name], found.facets.get(name, {}), weighed(attention.get(name, ()))
        digests[name] = Digest(
            name,
            title=roots.text(facet, "title") or one.title,
            topics=roots.texts(facet, "topics") or one.topics,
            drift=(*roots.texts(facet, "drift_history"), *one.drift),
            weight=heavy.weight,
            pinned=heavy.pinned,
            first_s=present.first_s,
            last_s=present.last_s,
            recalled=bool(roots.number(facet, "recalls")),
        )
    return digests


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
