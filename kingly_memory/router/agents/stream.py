"""An agent's stream in the store, and following it: by position, which no clock disturbs, across processes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from math import inf
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakSet

from kingly_memory import validation
from kingly_memory.cognition import stream
from kingly_memory.cognition.stream import MemoryEvent, event_of
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, RouterClosed
from kingly_memory.models import Memory, MemoryType, Query, Receipt, Standing
from kingly_memory.ports import Row
from kingly_memory.router.access import Access
from kingly_memory.router.subjects import PAUSE_S
from kingly_memory.validation import RESULTS_LIMIT

NOW, START = "now", "start"
"""Where a subscription may begin besides behind a memory: with the next one, or with the first."""
MARKS = 64
"""Memories by which a place is known, the last ones before it. Positions change when a damaged store is put together
anew, and those of erased rows are given again: one of these memories is still there to count from."""
BATCH = 2 * MARKS
"""Memories read at a time, which is all that a subscription holds."""
SHOWN = (Standing.LIVE, Standing.ARCHIVED)
READ_AT_ONCE = 16
"""Events, between looks at whether the router is still open."""

T = TypeVar("T")


class Notifier:
    """Tells whoever waits for new memories in this process that one was stored. Belongs to one router and its loop."""

    def __init__(self) -> None:
        self.has_ended = False
        self._listeners: WeakSet[asyncio.Event] = WeakSet()
        """One who stops listening without saying so is no leak."""

    def listener(self) -> asyncio.Event:
        """An event that every notice sets."""
        event = asyncio.Event()
        self._listeners.add(event)
        return event

    def notify(self) -> None:
        for event in self._listeners:
            event.set()

    def end(self) -> None:
        """The last notice: the router closes."""
        self.has_ended = True
        self.notify()


class Subscription:
    """The new memories of an agent, each once, in the order they were stored: `async for event in subscription`.

    It ends when it is closed, or its router is. What has not been asked for stays in the store, so a slow reader holds
    few memories and misses none. Several readers of one subscription share its events among them. It looks when
    something is stored by this process, and every `poll_s` for what others store.
    """

    def __init__(self, query: Query, before: Sequence[Row], access: Access, notifier: Notifier) -> None:
        """`before` are the last memories before the place where it begins, the last of them last."""
        self._query = query
        self._marks = deque(((row.position, row.memory.id) for row in before), MARKS)
        self._access = access
        self._notifier = notifier
        self._stirred = notifier.listener()
        self._unread: deque[Memory] = deque()
        self._turn = asyncio.Lock()
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MemoryEvent:
        async with self._turn:
            while not (self._unread or self._is_closed or self._notifier.has_ended):
                self._stirred.clear()
                try:
                    found = await self._access.read(self._look)
                except RouterClosed:
                    break
                self._marks.extend((row.position, row.memory.id) for row in found)
                self._unread.extend(row.memory for row in found)
                if not found:
                    await self._access.clock.wait(self._stirred, self._access.settings.pace.poll_s)
            if self._is_closed or not self._unread:
                raise StopAsyncIteration
            return event_of(self._unread.popleft())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it, also for who is waiting for the next event. Safe to call twice."""
        self._is_closed = True
        self._stirred.set()

    def _look(self) -> list[Row]:
        known = {memory_id for _, memory_id in self._marks}
        rows = self._access.reader.page(self._query, SHOWN, BATCH, self._place(), oldest_first=True)
        return [row for row in rows if row.memory.id not in known]

    def _place(self) -> int | None:
        """Where the last of the marks lies that is still there; else what lies where the first of them lay is new."""
        for _, memory_id in reversed(self._marks):
            row = self._access.reader.row(memory_id)
            if row is not None:
                return row.position
        return self._marks[0][0] - 1 if self._marks else None


class MemoryStream:
    """The stream of one agent."""

    def __init__(self, agent: str, access: Access, notifier: Notifier) -> None:
        self.agent = agent
        self._access = access
        self._notifier = notifier

    async def record(self, event: MemoryEvent) -> Receipt:
        """Store what happened; durable and searchable when this returns. An event of the past takes
        its place in time. Raises InvalidInput, StoreError."""
        limit_bytes = self._access.settings.content_limit_bytes
        return await self._access.put(stream.draft(event, self.agent, content_limit_bytes=limit_bytes))

    async def recall(self, query: str, limit: int = 10) -> list[MemoryEvent]:
        """The events that answer the query, best first; then, as far as there is room, the latest others, latest first.

        All that ever happened is searched. An empty query asks for the latest. Raises InvalidInput.
        """
        asked = validation.query(
            query,
            project=self._access.project,
            limit=limit,
            types=[MemoryType.EPISODIC.value],
            agent=self.agent,
            include_archived=True,
        )
        found: list[Memory] = []
        if asked.text.strip():  # who asks for nothing has not searched in vain
            results = await self._access.find(replace(asked, neighbours=False), include_semantic=False)
            found += [hit.memory for hit in results]
        room = asked.limit - len(found)
        if room > 0:
            others = partial(stream.latest, limit=room, known={memory.id for memory in found})
            found += await self._events(others, most=asked.limit)  # what is known may be among those
        return [event_of(memory) for memory in found]

    async def events(self, limit: int = 100) -> list[MemoryEvent]:
        """The latest events in the order of time, the latest last; of one instant, in the order they were recorded.
        Raises InvalidInput."""
        most = validation.count("limit", limit, most=RESULTS_LIMIT)
        found = await self._events(partial(stream.latest, limit=most), most=most)
        return [event_of(memory) for memory in reversed(found)]

    async def summarize(self, time_range: tuple[datetime | str | None, datetime | str | None]) -> str:
        """What happened from a time to another, both included, as text: how many events of which kind, and a line for
        each of the most significant. None leaves an end open. Raises InvalidInput."""
        since, until = stream.bounds(time_range)
        tell = partial(stream.told, self.agent, since=since, until=until, gist=_gist)
        return await self._events(tell, since, until)

    def subscribe(self, after: str = NOW, *, types: Sequence[str] | None = ("episodic",)) -> Subscription:
        """The agent's memories as they are stored, by any process: those from this call on, from the `start`, or behind
        the memory whose id is given. `types` are those of memories; None is all of them. Raises InvalidInput."""
        query = validation.query("", project=self._access.project, types=types, agent=self.agent)
        before = self._before(validation.required("after", after), query)
        return Subscription(query, before, self._access, self._notifier)

    async def _events(
        self,
        see: Callable[[Iterable[Memory]], T],
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        most: int | None = None,
    ) -> T:
        """What `see` makes of the events from a time to another, or of the latest so many, in the order they were
        stored. On a thread of its own: those that searches read on are for searches."""
        if self._notifier.has_ended:
            raise RouterClosed
        query = Query(
            "", self._access.project, types=(MemoryType.EPISODIC,), agent=self.agent, since=since, until=until
        )
        return await asyncio.to_thread(lambda: see(self._memories(query, most)))

    def _memories(self, query: Query, most: int | None) -> Iterator[Memory]:
        """The index knows no time, so the store looks up that of every event; only those wanted are read."""
        reader = self._access.reader
        positions = sorted(reader.in_time(query, SHOWN, most))
        for first in range(0, len(positions), READ_AT_ONCE):
            time.sleep(PAUSE_S)
            if self._notifier.has_ended:
                raise RouterClosed
            for row in reader.rows_at(positions[first : first + READ_AT_ONCE], inf):
                if row.standing in SHOWN and query.admits(row.memory):
                    yield row.memory

    def _before(self, after: str, query: Query) -> list[Row]:
        """The last memories before a place, the last of them last. Read at once: a moment later is too late."""
        if self._notifier.has_ended:
            raise RouterClosed
        if after == START:
            return []
        reader = self._access.reader
        if after == NOW:
            return reader.page(query, tuple(Standing), MARKS, None)[::-1]
        row = reader.row(after)
        if row is None or row.memory.scope.project != self._access.project:
            problem = (
                f"nothing is stored under {validation.shown(after)!r} in this project; name an id, 'now' or 'start'"
            )
            raise InvalidInput("after", problem)
        return [row]


def _gist(text: str) -> str:
    """The most important of a text in one sentence."""
    from kingly_memory.lifecycle.compression import CompressionLevel, compress

    return compress(text, CompressionLevel.AGGRESSIVE).summary
