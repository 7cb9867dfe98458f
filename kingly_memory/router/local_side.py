"""The local side of a search: by words, and by meaning where there are vectors, as one answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import nlargest

from kingly_memory.models import Memory, Query
from kingly_memory.ports import Row, StoreReader
from kingly_memory.retrieval.blending import VECTORS, WORDS, blended
from kingly_memory.retrieval.fusion import NAMED
from kingly_memory.router.local_search import LastUse, LocalAnswer, LocalHit, LocalSearch
from kingly_memory.router.vector_search import Near, VectorSearch
from kingly_memory.router.wording import Wording

POOL = 50
"""Fewest candidates by words and by meaning that are held against each other."""
FILTERED_POOL = 200
"""By meaning, when what the query filters by may leave few of the nearest."""
READ_SHARE = 0.9
"""Of the time for the local side: no row is read after it."""


class LocalSide(LocalSearch):
    """LocalSearch whose answers have what the vectors find as well. Without vectors they are LocalSearch's own."""

    def __init__(
        self,
        reader: StoreReader,
        last_use: LastUse,
        vectors: VectorSearch | None,
        *,
        words_weight: float,
        outdated: Callable[[Sequence[str]], None],
    ) -> None:
        """`outdated` hears which memories have changed since their vectors were made, or are gone."""
        super().__init__(reader, last_use)
        self._rows = reader
        self._vectors = vectors
        self._words_weight = words_weight
        self._outdated = outdated

    def search(
        self, query: Query, *, now_s: float, budget_s: float, wording: Wording | None = None, most: int | None = None
    ) -> LocalAnswer:
        """See LocalSearch."""
        vectors = self._vectors
        wanted = most or query.limit
        if vectors is None or not len(vectors) or query.project != vectors.project:
            return super().search(query, now_s=now_s, budget_s=budget_s, wording=wording, most=most)
        began = time.monotonic()
        deadline_s = began + budget_s * READ_SHARE
        pool = max(wanted, POOL)
        words = super().search(query, now_s=now_s, budget_s=budget_s, wording=wording, most=pool)
        size = FILTERED_POOL if _is_narrow(query) else pool
        near = vectors.nearest(query.text, size, [hit.memory.id for hit in words.hits], deadline_s)
        if near is None:
            return replace(words, hits=words.hits[:wanted], cut=True)
        hits, cut = self._joined(query, words.hits, near, wanted=wanted, now_s=now_s, deadline_s=deadline_s)
        took_ms = (time.monotonic() - began) * 1000
        return LocalAnswer(tuple(hits[:wanted]), took_ms, words.cut or cut, words.repaired)

    def _joined(
        self, query: Query, words: Sequence[LocalHit], near: Near, *, wanted: int, now_s: float, deadline_s: float
    ) -> tuple[list[LocalHit], bool]:
        """Both lists as one, best first, and whether there was no time to read all that the vectors found.

        Of what only they found, what cannot come among the first `wanted` is not read.
        """
        named = [hit for hit in words if NAMED in hit.scores]
        worded = {hit.memory.id: hit for hit in words if NAMED not in hit.scores}
        without_vector = frozenset(one for one, hit in worded.items() if not _is_of(near, hit.memory))
        worth = blended(
            {one: hit.relevance for one, hit in worded.items()},
            {one: similarity for one, similarity in near.similarities.items() if one not in without_vector},
            without_vector,
            words_weight=self._words_weight,
        )
        self._note_outdated([one for one in without_vector if one in near.revisions])
        known = {one.memory.id for one in named} | worded.keys()
        best_worded = nlargest(wanted, (worth[one] for one in worded))
        least = best_worded[-1] if len(best_worded) == wanted else 0.0
        promising = [one for one in worth if one not in known and worth[one] >= least]
        alone, cut = self._alone(query, promising, near, now_s, deadline_s)
        found = [_hit(hit, worth[one], near) for one, hit in worded.items()]
        found += [_alone_hit(row, worth[row.memory.id], near) for row in alone]
        found.sort(key=lambda hit: (hit.relevance, hit.memory.id), reverse=True)
        return [*named, *found], cut

    def _alone(
        self, query: Query, ids: Sequence[str], near: Near, now_s: float, deadline_s: float
    ) -> tuple[list[Row], bool]:
        """What only the vectors found and may be shown. What is gone or revised waits for another vector."""
        rows: list[Row] = []
        outdated: list[str] = []
        cut = False
        for memory_id in sorted(ids, key=lambda one: near.similarities[one], reverse=True):
            if time.monotonic() >= deadline_s:
                cut = True
                break
            row = self._rows.row(memory_id)
            if row is None or not _is_of(near, row.memory):
                outdated.append(memory_id)
            else:
                rows.append(row)
        self._note_outdated(outdated)
        return self._shown(rows, query, now_s), cut

    def _note_outdated(self, memory_ids: Sequence[str]) -> None:
        if memory_ids and self._vectors is not None:
            self._vectors.drop(memory_ids)
            self._outdated(memory_ids)


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
