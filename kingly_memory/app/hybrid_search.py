"""Search by meaning and by words as the design document of tiers has it: two rankings, fused by their ranks alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kingly_memory.api.memories import MemoryVerbs
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Results
from kingly_memory.router.agents.continuum import ContinuumMemory


class HybridMemorySearch:
    """The search of one memory. It keeps nothing of its own: what is stored, changed or forgotten shows at once."""

    def __init__(self, search: Callable[..., Awaitable[Results]]) -> None:
        self._search = search

    async def search(self, query: str, limit: int = 10, **how: Any) -> Results:
        """The memories that answer the query, in the order of reciprocal rank fusion (`retrieval.fusion.rrf`) where a
        ranking by meaning is there, else by words; `how` is what `MemoryRouter.search` takes besides. Any text but an
        empty one is a query.
        """
        return await self._search(query, limit=limit, by_ranks=True, **how)


def get_hybrid_memory_search(memory: Any) -> HybridMemorySearch:
    """A hybrid search over that memory: a `MemoryRouter`, a `SyncMemoryRouter`, or the `continuum` of
    either. Raises InvalidInput."""
    awaiting = getattr(memory, "_awaiting", memory)  # of the blocking API
    if not isinstance(awaiting, MemoryVerbs | ContinuumMemory):
        raise InvalidInput("memory", f"expected a MemoryRouter, not {type(memory).__name__}")
    return HybridMemorySearch(memory.search if memory is awaiting else _in_a_thread(memory.search))


def _in_a_thread(search: Callable[..., Results]) -> Callable[..., Awaitable[Results]]:
    async def awaited(query: str, **how: Any) -> Results:
        return await asyncio.to_thread(search, query, **how)

    return awaited
