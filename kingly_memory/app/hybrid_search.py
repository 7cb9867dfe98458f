"""Search by meaning and by words as the design document of tiers has it: two rankings, fused by their ranks alone."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Results
from kingly_memory.retrieval import rrf

POOL = 3
"""Candidates of the two rankings per hit wanted."""

_RANKINGS = (("remote", "local"), ("vectors", "words"))
"""By meaning and by words: the figures of a hit that rank it, from both layers, else from this machine's two lists."""


class HybridMemorySearch:
    """The search of one memory. It keeps nothing of its own: what is stored, changed or forgotten shows at once."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    async def search(self, query: str, limit: int = 10, **how: Any) -> Results:
        """The memories that answer the query, in the order of reciprocal rank fusion (`retrieval.rrf`) where a ranking
        by meaning is there, else by words; `how` is what `MemoryRouter.search` takes besides. Any text is a query.
        """
        wanted = intake.count("limit", limit, most=intake.RESULTS_LIMIT)
        pool = min(wanted * POOL, max(wanted, intake.RESULTS_LIMIT))
        found = await self._found(query, pool, how)
        return replace(found, hits=_by_ranks(found.hits)[:wanted])

    async def _found(self, query: str, limit: int, how: dict[str, Any]) -> Results:
        search = self._memory.search
        if inspect.iscoroutinefunction(search):
            found: Results = await search(query, limit=limit, **how)
            return found
        return await asyncio.to_thread(search, query, limit=limit, **how)


def get_hybrid_memory_search(memory: Any) -> HybridMemorySearch:
    """A hybrid search over that memory: a `MemoryRouter`, or a `SyncMemoryRouter`. Raises InvalidInput."""
    if not callable(getattr(memory, "search", None)):
        raise InvalidInput("memory", f"expected a MemoryRouter, not {type(memory).__name__}")
    return HybridMemorySearch(memory)


def _by_ranks(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Each hit with its `rrf` score, the best first; as they are where nothing ranked them by meaning."""
    named = (pair for pair in _RANKINGS if any(pair[0] in hit.scores for hit in hits))
    meaning, words = next(named, (None, None))
    if meaning is None or words is None:
        return tuple(hits)
    known: dict[str, Hit] = {hit.memory.id: hit for hit in hits}
    fused = rrf.fused(_ranking(hits, meaning), _ranking(hits, words))
    ranked = [replace(known[one], scores={**known[one].scores, "rrf": score}) for one, score in fused]
    others = (hit for one, hit in known.items() if one not in dict(fused))
    return (*ranked, *others)


def _ranking(hits: Sequence[Hit], name: str) -> list[str]:
    ranked = [hit for hit in hits if name in hit.scores]
    return [hit.memory.id for hit in sorted(ranked, key=lambda hit: -hit.scores[name])]
