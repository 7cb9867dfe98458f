"""Suggestions for a project's threads as they are now: reads memories, writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import islice

from kingly_memory import topics
from kingly_memory.attention.suggestions import ALIKE, Digest, Pair, Suggestions, suggestions
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.search.local import LocalSearch
from kingly_memory.router.thread_lookup import Weighed, number, text, texts
from kingly_memory.router.threads import reading
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.reading import Present, Summary
from kingly_memory.router.threads.views import USUAL

MOST_LOOKED_AT = 1_000
"""Threads that are looked at: those that answer the context, then the latest. The others only count in `health`."""
AT_ONCE = 20
"""Threads that are read between two looks at the time."""
RELATED = 30
"""Memories that answer a context: hints come from their threads."""
_LEAST_RELATED = 0.2
_SEARCH_S = 0.1


class Suggesting:
    """Suggestions for one project. Safe from any thread.

    To read 1,000 threads of ten memories takes seconds, ten times as long as all the rest. So the summaries of the
    threads that were looked at last are kept in memory, a few kilobytes each, as long as these stay as they are.
    """

    def __init__(self, reader: StoreReader, project: str) -> None:
        self._reader = reader
        self._project = project
        self._known: Mapping[Present, Summary] = {}
        self._pairs: Sequence[tuple[float, str, str]] = ()

    def suggest(self, context: Query | None, now_s: float, within_s: float = math.inf) -> Suggestions:
        """What to suggest for the project's active threads; hints only for a context. Threads that have changed are
        read for about so many seconds."""
        reader, project, deadline_s = self._reader, self._project, time.monotonic() + within_s
        found = reading.survey(reader, project, now_s)
        related = [] if context is None else _related(reader, context, found.facets, now_s)
        first = {one: found.active[one] for one in related if one in found.active}
        looked_at = list(islice({**first, **found.active}.values(), MOST_LOOKED_AT))
        summaries, alike = self._summaries(looked_at, now_s, deadline_s)
        threads = {}
        for name, one in summaries.items():
            facet = reading.said_of(reader, project, name, found.facets)
            threads[name] = _digest(found.active[name], one, facet, found.weights.get(name, USUAL))
        pairs = [
            Pair(round(similarity, 4), (one, other), _shared(threads[one], threads[other]))
            for similarity, one, other in alike
        ]
        most_active = COMPACTION_STRATEGIES[NORMAL].max_active_threads
        unread = len(found.active) - len(threads)
        return suggestions(threads.values(), pairs, related, now_s, most_active=most_active, unread=unread)

    def _summaries(
        self, threads: Sequence[Present], now_s: float, deadline_s: float
    ) -> tuple[dict[str, Summary], Sequence[tuple[float, str, str]]]:
        """By thread, and which of them are alike. The first few are read even when the time is over."""
        known, pairs = dict(self._known), self._pairs
        missing = [one for one in threads if one not in known]
        for at in range(0, len(missing), AT_ONCE):
            self._read(missing[at : at + AT_ONCE], known, now_s)
            if time.monotonic() >= deadline_s:
                break
        known = {one: known[one] for one in threads if one in known}
        summaries = {one.id: summary for one, summary in known.items()}
        if known.keys() != self._known.keys():
            pairs = list(topics.alike([(name, one.topic) for name, one in summaries.items()], ALIKE))
            self._known, self._pairs = known, pairs
        return summaries, pairs

    def _read(self, threads: Sequence[Present], known: dict[Present, Summary], now_s: float) -> None:
        by_id = {one.id: one for one in threads}
        contexts = {one.id: one.contexts for one in threads}
        for name, said in reading.lines(self._reader, self._project, contexts, now_s).items():
            known[by_id[name]] = reading.summary(name, said)


def _digest(present: Present, one: Summary, facet: JsonObject, weighed: Weighed) -> Digest:
    return Digest(
        present.id,
        title=text(facet, "title") or one.title,
        topics=texts(facet, "topics") or one.topics,
        drift=one.drift if len(present.talks) > 1 or present.memories <= MOST_MOVED else (),  # more cannot be split
        weight=weighed.weight,
        pinned=weighed.pinned,
        first_s=present.first_s,
        last_s=present.last_s,
        recalled=bool(number(facet, "recalls")),
    )


def _shared(one: Digest, other: Digest) -> tuple[str, ...]:
    theirs = {topic.casefold() for topic in other.topics}
    return tuple(topic for topic in one.topics if topic.casefold() in theirs)[:3]


def _related(reader: StoreReader, context: Query, facets: Mapping[str, JsonObject], now_s: float) -> list[str]:
    """The threads of the memories that answer the context, the best first. Nothing counts as used by that."""
    answer = LocalSearch(reader, likeness=False).search(context, now_s=now_s, budget_s=_SEARCH_S)
    said_in = [hit.memory.scope.context_id for hit in answer.hits if hit.relevance >= _LEAST_RELATED]
    return list(dict.fromkeys(thread_lookup.root(one, facets) for one in said_in if one is not None))
