"""Suggestions for a project's threads as they are now: reads memories, writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import islice

from kingly_memory.attention.suggestions import ALIKE, Digest, Pair, Suggestions, suggestions
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.search.local import LocalSearch
from kingly_memory.router.thread_lookup import number, text, texts
from kingly_memory.router.threads import reading
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.reading import Present, Summary
from kingly_memory.router.threads.views import USUAL
from kingly_memory.text import topics

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

    def __init__(self, reader: StoreReader, space: str) -> None:
        self._reader = reader
        self._space = space
        self._known: Mapping[Present, Summary] = {}
        self._alike: Sequence[tuple[float, str, str]] = ()

    def suggest(self, context: Query | None, now_s: float, within_s: float = math.inf) -> Suggestions:
        """What to suggest for the project's active threads; hints only for a context. Threads that have changed are
        read for about so many seconds, the first few in any case."""
        reader, space, deadline_s = self._reader, self._space, time.monotonic() + within_s
        survey = reading.survey(reader, space, now_s)
        related = [] if context is None else _related(reader, context, survey.facets, now_s)
        first = {thread_id: survey.active[thread_id] for thread_id in related if thread_id in survey.active}
        looked_at = list(islice({**first, **survey.active}.values(), MOST_LOOKED_AT))
        summaries = {thread: self._known[thread] for thread in looked_at if thread in self._known}
        missing = [one for one in looked_at if one not in summaries]
        for at in range(0, len(missing), AT_ONCE):
            by_id = {one.id: one for one in missing[at : at + AT_ONCE]}
            contexts = {name: one.contexts for name, one in by_id.items()}
            for name, thread_lines in reading.lines(reader, space, contexts, now_s).items():
                summaries[by_id[name]] = reading.summary(name, thread_lines)
            if time.monotonic() >= deadline_s:
                break
        if summaries.keys() != self._known.keys():
            self._alike = list(topics.alike(((one.id, summary.topic) for one, summary in summaries.items()), ALIKE))
            self._known = summaries
        threads: dict[str, Digest] = {}
        for thread, summary in summaries.items():
            facet = reading.thread_facet(reader, space, thread.id, survey.facets)
            weighed = survey.weights.get(thread.id, USUAL)
            threads[thread.id] = Digest(
                thread.id,
                title=text(facet, "title") or summary.title,
                topics=texts(facet, "topics") or summary.topics,
                drift=summary.drift
                if len(thread.talks) > 1 or thread.memories <= MOST_MOVED
                else (),  # more is not split
                weight=weighed.weight,
                pinned=weighed.pinned,
                first_s=thread.first_s,
                last_s=thread.last_s,
                recalled=bool(number(facet, "recalls")),
            )
        pairs = []
        for similarity, a, b in self._alike:
            theirs = {topic.casefold() for topic in threads[b].topics}
            shared = tuple(topic for topic in threads[a].topics if topic.casefold() in theirs)
            pairs.append(Pair(round(similarity, 4), (a, b), shared[:3]))
        most_active = COMPACTION_STRATEGIES[NORMAL].max_active_threads
        unread = len(survey.active) - len(threads)
        return suggestions(threads.values(), pairs, related, now_s, most_active=most_active, unread=unread)


def _related(reader: StoreReader, context: Query, facets: Mapping[str, JsonObject], now_s: float) -> list[str]:
    """The threads of the memories that answer the context, the best first. Nothing counts as used by that."""
    answer = LocalSearch(reader).search(context, now_s=now_s, budget_s=_SEARCH_S)
    context_ids = [hit.memory.scope.context_id for hit in answer.hits if hit.relevance >= _LEAST_RELATED]
    return list(dict.fromkeys(thread_lookup.root(one, facets) for one in context_ids if one is not None))
