"""The local side of a search: by words, and by meaning where there are vectors, as one answer."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from kingly_memory.models import Memory, Query
from kingly_memory.ports import Row, VectorRows
from kingly_memory.retrieval.blending import VECTORS, WORDS, blended
from kingly_memory.retrieval.fusion import NAMED
from kingly_memory.router.searching.local_search import LocalAnswer, LocalHit, LocalSearch
from kingly_memory.router.searching.vector_search import Near, Nearest, VectorSearch
from kingly_memory.router.searching.wording import Wording, spelt

POOL = 50
"""Fewest candidates by words and by meaning that are held against each other."""
FILTERED_POOL = 200
"""By meaning, when what the query filters by may leave few of the nearest."""
READ_SHARE = 0.9
"""Of the time for the local side: no row is read after it."""
WAIT_SHARE = 0.6
"""Of the same: how long a process' first searches wait for its vectors to be read."""
ROWS_AT_ONCE = 8
NO_TIME = "there was no time to ask them"


class LocalSide:
    """LocalSearch whose answers have what the vectors find as well. Without vectors they are LocalSearch's own."""

    def __init__(
        self,
        words: LocalSearch,
        vectors: VectorSearch,
        rows: VectorRows,
        *,
        words_weight: float,
        outdated: Callable[[Sequence[str]], None],
        hurry: Callable[[], None],
    ) -> None:
        """`outdated` hears which memories have changed since their vectors were made, or are gone; `hurry` that a
        search waits for the vectors to be read."""
        self._words = words
        self._vectors = vectors
        self._rows = rows
        self._words_weight = words_weight
        self._outdated = outdated
        self._hurry = hurry

    def word(self, query: Query, *, budget_s: float) -> Wording:
        """See LocalSearch."""
        return self._words.word(query, budget_s=budget_s)

    def is_alive(self, row: Row, now_s: float) -> bool:
        """See LocalSearch."""
        return self._words.is_alive(row, now_s)

    def search(
        self, query: Query, *, now_s: float, budget_s: float, wording: Wording | None = None, most: int | None = None
    ) -> LocalAnswer:
        """See LocalSearch. `without` says why the vectors had no part in the answer, or not their whole part."""
        if not query.by_meaning or query.project != self._vectors.project:
            return self._words.search(query, now_s=now_s, budget_s=budget_s, wording=wording, most=most)
        return self._by_both(query, now_s, budget_s, wording, most or query.limit)

    def _by_both(
        self, query: Query, now_s: float, budget_s: float, wording: Wording | None, wanted: int
    ) -> LocalAnswer:
        began = time.monotonic()
        wording = wording or self._words.word(query, budget_s=budget_s)
        left_s = max(began + budget_s - time.monotonic(), 0.0)
        words = self._words.search(query, now_s=now_s, budget_s=left_s, wording=wording, most=max(wanted, POOL))
        if not self._vectors.is_loaded:
            self._hurry()  # not before: what is read for it would take the time of the words
        nearest, why = self._nearest(spelt(query, wording.repaired), wanted, began, budget_s)
        if nearest is None:
            return words._replace(hits=words.hits[:wanted], cut=words.cut or why is NO_TIME, without=why)
        near = self._vectors.among(nearest, [hit.memory.id for hit in words.hits])
        deadline_s = began + budget_s * READ_SHARE
        hits, cut = self._joined(query, words.hits, near, wanted=wanted, now_s=now_s, deadline_s=deadline_s)
        took_ms = (time.monotonic() - began) * 1000
        return LocalAnswer(tuple(hits[:wanted]), took_ms, words.cut or cut, words.repaired, self._vectors.remark)

    def _nearest(self, query: Query, wanted: int, began: float, budget_s: float) -> tuple[Nearest | None, str | None]:
        """What the vectors say, else why they say nothing, if there is anything to say about that."""
        why = self._vectors.await_loaded(began + budget_s * WAIT_SHARE)
        if why is not None or not len(self._vectors):
            return None, why
        size = FILTERED_POOL if _is_narrow(query) else max(wanted, POOL)
        nearest = self._vectors.nearest(query.text, size, began + budget_s * READ_SHARE)
        return nearest, NO_TIME if nearest is None else None

    def _joined(
        self, query: Query, words: Sequence[LocalHit], near: Near, *, wanted: int, now_s: float, deadline_s: float
    ) -> tuple[list[LocalHit], bool]:
        """Both lists as one, best first, and whether there was no time to read all that the vectors found."""
        named = [hit for hit in words if NAMED in hit.scores]
        worded = {hit.memory.id: hit for hit in words if NAMED not in hit.scores}
        without_vector = frozenset(one for one, hit in worded.items() if not _is_of(near, hit.memory))
        worth = blended(
            {one: hit.relevance for one, hit in worded.items()},
            {one: similarity for one, similarity in near.similarities.items() if one not in without_vector},
            without_vector,
            words_weight=self._words_weight,
        )
        self._note_outdated(near, [one for one in without_vector if one in near.revisions])
        known = {one.memory.id for one in named} | worded.keys()
        better = sorted(-worth[one] for one in worded)
        others = sorted(worth.keys() - known, key=lambda one: (-worth[one], one))
        room = {one: wanted - bisect_right(better, -worth[one]) for one in others}
        alone, cut = self._alone(query, near, room, now_s, deadline_s)
        found = [_hit(hit, worth[one], near) for one, hit in worded.items()]
        found += [_alone_hit(row, worth[row.memory.id], near) for row in alone]
        found.sort(key=lambda hit: (hit.relevance, hit.memory.id), reverse=True)
        return [*named, *found], cut

    def _alone(
        self, query: Query, near: Near, room: Mapping[str, int], now_s: float, deadline_s: float
    ) -> tuple[list[Row], bool]:
        """What only the vectors found and may be shown, and whether there was no time to read it. What is gone or
        revised waits for another vector.

        `room` has the best first, each with how many of them may be shown up to it: what cannot come among the hits
        that are wanted is not read.
        """
        shown: list[Row] = []
        for some in _batches(list(room), ROWS_AT_ONCE):
            if len(shown) >= room[some[0]]:
                break
            rows = self._rows.rows(some, deadline_s)
            current = {one: row for one, row in rows.items() if row is not None and _is_of(near, row.memory)}
            self._note_outdated(near, [one for one in rows if one not in current])
            shown += self._words.shown(current.values(), query, now_s)
            if len(rows) < len(some):
                return shown, True
        return shown, False

    def _note_outdated(self, near: Near, memory_ids: Sequence[str]) -> None:
        if memory_ids:
            self._vectors.drop({one: near.revisions[one] for one in memory_ids})
            self._outdated(memory_ids)


def _batches(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _is_of(near: Near, memory: Memory) -> bool:
    """Whether there is a vector of the memory as it is now."""
    return near.revisions.get(memory.id) == memory.revision


def _hit(hit: LocalHit, relevance: float, near: Near) -> LocalHit:
    told = {WORDS: hit.relevance}
    if _is_of(near, hit.memory):
        told[VECTORS] = near.similarities[hit.memory.id]
    return LocalHit(hit.memory, hit.standing, relevance, {**hit.scores, **told})


def _alone_hit(row: Row, relevance: float, near: Near) -> LocalHit:
    return LocalHit(row.memory, row.standing, relevance, {VECTORS: near.similarities[row.memory.id]})


def _is_narrow(query: Query) -> bool:
    """Whether more than the project has to fit."""
    filters = (query.types, query.tags, query.agent, query.context_id, query.since, query.until)
    return any(one is not None for one in filters) or query.min_confidence > 0
