"""Strands Agents: `MemoryManager(stores=[KinglyMemoryStore(memory)])`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, asked, either, found

with needed("the memory store for Strands", "strands"):
    from strands.memory.types import MemoryEntry, MemoryStore

if TYPE_CHECKING:
    from strands.memory.extraction.types import ExtractionConfig
    from strands.memory.types import AddMessagesContext, Metadata, SearchOptions
    from strands.types.content import Messages

    from kingly_memory.models import Receipt

USUALLY = 10


class KinglyMemoryStore(MemoryStore):
    """The memories of a router, or of its `scoped` view, found by words and meaning. Writing the same again changes
    nothing. With `extraction=True` what users prefer, decide and correct is kept by rules, without a model call.

    An agent that is called and not awaited takes a new event loop each time: give it a `SyncMemoryRouter`. Raises
    InvalidInput, StoreError, RouterClosed; then nothing was stored.
    """

    def __init__(
        self,
        memory: Router,
        *,
        name: str = "kingly",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
    ) -> None:
        self._memory = either(memory)
        self.name = validation.required("name", name)
        self.description = description
        self.max_search_results = _limit(max_search_results)
        self.writable = writable
        self.extraction = extraction

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """The memories that fit, best first; their metadata have `id` and `relevance` too."""
        limit = _limit((options or {}).get("max_search_results")) or self.max_search_results or USUALLY
        hits = await asked(self._memory, partial(found, query=query, limit=limit))
        return [
            MemoryEntry(
                hit.memory.content, metadata={**hit.memory.metadata, "id": hit.memory.id, "relevance": hit.relevance}
            )
            for hit in hits
        ]

    async def add(self, content: str, metadata: Metadata | None = None) -> Receipt:
        self._check_writable()
        return await asked(self._memory, lambda memory: memory.store(content, metadata=metadata))

    async def add_messages(self, messages: Messages, context: AddMessagesContext | None = None) -> None:
        """Keep what the messages state; `context` is not needed, since the same statement is the same memory."""
        self._check_writable()
        await asked(self._memory, lambda memory: memory.capture(messages))

    def _check_writable(self) -> None:
        if not self.writable:
            raise InvalidInput("writable", "is False for this store; make one with writable=True")


def _limit(limit: Any) -> int | None:
    return None if limit is None else validation.count("max_search_results", limit, most=validation.RESULTS_LIMIT)
