"""An agent's stream in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from math import inf
from typing import TypeVar

from kingly_memory import validation
from kingly_memory.cognition import stream
from kingly_memory.cognition.stream import MemoryEvent, event_of
from kingly_memory.dataclass import replace
from kingly_memory.models import KEPT, Memory, MemoryType, Query, Receipt
from kingly_memory.router.engine import Engine
from kingly_memory.validation import RESULTS_LIMIT

READ_AT_ONCE = 64

T = TypeVar("T")


class MemoryStream:
    """The stream of one agent."""

    def __init__(self, agent: str, engine: Engine) -> None:
        self.agent = agent
        self._engine = engine

    async def record(self, event: MemoryEvent) -> Receipt:
        """Store what happened; durable and searchable when this returns. An event of the past takes
        its place in time. Raises InvalidInput, StoreError."""
        return await self._engine.put(stream.draft(event, self.agent))

    async def recall(self, query: str, limit: int = 10) -> list[MemoryEvent]:
        """The events that answer the query, best first; then, as far as there is room, the latest others, latest first.

        All that ever happened is searched. An empty query asks for the latest. Raises InvalidInput.
        """
        request = validation.query(
            query,
            space=self._engine.space,
            limit=limit,
            types=[MemoryType.EPISODIC.value],
            agent=self.agent,
            include_archived=True,
        )
        memories: list[Memory] = []
        if request.text.strip():  # who asks for nothing has not searched in vain
            wanted = replace(request, neighbours=False, include_semantic=False)
            results = await self._engine.find(wanted, is_search=True)
            memories += [hit.memory for hit in results]
        room = request.limit - len(memories)
        if room > 0:
            latest = partial(stream.latest, limit=room, but_for={memory.id for memory in memories})
            memories += await self._events(latest, most=request.limit)  # what is known may be among those
        return [event_of(memory) for memory in memories]

    async def events(self, limit: int = 100) -> list[MemoryEvent]:
        """The latest events in the order of time, the latest last; of one instant, in the order they were recorded.
        Raises InvalidInput."""
        most = validation.count("limit", limit, most=RESULTS_LIMIT)
        latest = await self._events(partial(stream.latest, limit=most), most=most)
        return [event_of(memory) for memory in reversed(latest)]

    async def summarize(self, time_range: tuple[datetime | str | None, datetime | str | None]) -> str:
        """What happened from a time to another, both included, as text: how many events of which kind, and a line for
        each of the most significant. None leaves an end open. Raises InvalidInput."""
        from kingly_memory.lifecycle.compression import CompressionLevel, compress

        def gist(text: str) -> str:
            return compress(text, CompressionLevel.AGGRESSIVE).summary

        since, until = stream.bounds(time_range)
        tell = partial(stream.recounted, self.agent, since=since, until=until, gist=gist)
        return await self._events(tell, since, until)

    async def _events(
        self,
        see: Callable[[Iterable[Memory]], T],
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        most: int | None = None,
    ) -> T:
        """What `see` makes of the events from a time to another, or of the latest so many, in the order they were
        stored. The index knows no time, so the store looks up that of every event; only those wanted are read."""
        types, reader = (MemoryType.EPISODIC,), self._engine.reader
        query = Query("", self._engine.space, types=types, agent=self.agent, since=since, until=until)

        def memories() -> Iterator[Memory]:
            positions = sorted(reader.in_time(query, KEPT, most))
            for first in range(0, len(positions), READ_AT_ONCE):
                for row in reader.rows_at(positions[first : first + READ_AT_ONCE], inf):
                    if row.status in KEPT and query.admits(row.memory):
                        yield row.memory

        return await self._engine.read(lambda: see(memories()))
