"""An agent's timeline in the store, and following it: by position, which no clock disturbs, across processes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from math import inf
from typing import TypeVar

from kingly_memory import intake
from kingly_memory.cognition.stream import NOW, START
from kingly_memory.errors import InvalidInput, RouterClosed
from kingly_memory.models import Memory, MemoryType, Query, Standing
from kingly_memory.ports import Clock, MemoryReader, Row
from kingly_memory.router.access import Access
from kingly_memory.router.minds.bell import Bell
from kingly_memory.router.subjects import PAUSE_S, STEP

MARKS = 64
"""Memories by which a place is known, the last ones before it. Positions change when a damaged store is put together
anew, and those of erased rows are given again: one of these memories is still there to count from."""
BATCH = 2 * MARKS
"""Memories read at a time, which is all that a subscription holds."""
SHOWN = (Standing.LIVE, Standing.ARCHIVED)

T = TypeVar("T")


class AgentTimeline:
    """Implements cognition.stream.Timeline for one agent of a router's project."""

    def __init__(self, project: str, agent: str, *, access: Access, clock: Clock, poll_s: float, bell: Bell) -> None:
        self._project = project
        self._agent = agent
        self._access = access
        self._clock = clock
        self._poll_s = poll_s
        self._bell = bell

    async def look(
        self,
        see: Callable[[Iterable[Memory]], T],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        most: int | None = None,
    ) -> T:
        """On a thread of its own: those that searches read on are for searches."""
        if self._bell.has_ended:
            raise RouterClosed
        query = Query("", self._project, types=(MemoryType.EPISODIC,), agent=self._agent, since=since, until=until)
        return await asyncio.to_thread(lambda: see(self._memories(query, most)))

    def follow(self, after: str, types: Sequence[MemoryType] | None) -> StoreTail:
        if self._bell.has_ended:
            raise RouterClosed
        query = Query("", self._project, types=None if types is None else tuple(types), agent=self._agent)
        marks = self._marks(after, query)
        return StoreTail(query, marks, access=self._access, clock=self._clock, poll_s=self._poll_s, bell=self._bell)

    def _memories(self, query: Query, most: int | None) -> Iterator[Memory]:
        """The index knows no time, so the store looks up that of every event; only those wanted are read."""
        reader = self._access.reader
        positions = sorted(reader.in_time(query, SHOWN, most))
        for first in range(0, len(positions), STEP):
            time.sleep(PAUSE_S)
            if self._bell.has_ended:
                raise RouterClosed
            for row in reader.rows_at(positions[first : first + STEP], inf):
                if row.standing in SHOWN and query.admits(row.memory):
                    yield row.memory

    def _marks(self, after: str, query: Query) -> list[Row]:
        """The last memories before the place, the last of them last. Read at once: a moment later is too late."""
        reader = self._access.reader
        if after == START:
            return []
        if after == NOW:
            return reader.page(query, tuple(Standing), MARKS, None)[::-1]
        row = reader.row(after)
        if row is None or row.memory.scope.project != self._project:
            raise InvalidInput(
                "after",
                f"nothing is stored under {intake.shown(after)!r} in this project; name an id, 'now' or 'start'",
            )
        return [row]


class StoreTail:
    """Implements cognition.stream.Tail: looks when something is stored here, and every `poll_s` for others'."""

    def __init__(
        self, query: Query, marks: Sequence[Row], *, access: Access, clock: Clock, poll_s: float, bell: Bell
    ) -> None:
        self._query = query
        self._marks = deque(((row.position, row.memory.id) for row in marks), MARKS)
        self._access = access
        self._clock = clock
        self._poll_s = poll_s
        self._bell = bell
        self._stirred = bell.listener()
        self._has_ended = False

    async def further(self) -> Sequence[Memory]:
        while not self._has_ended and not self._bell.has_ended:
            self._stirred.clear()
            try:
                found = await self._access.read(self._look)
            except RouterClosed:
                break
            if found:
                self._marks.extend((row.position, row.memory.id) for row in found)
                return [row.memory for row in found]
            await self._clock.wait(self._stirred, self._poll_s)
        return []

    def end(self) -> None:
        self._has_ended = True
        self._stirred.set()

    def _look(self) -> list[Row]:
        known = {memory_id for _, memory_id in self._marks}
        rows = self._access.reader.page(self._query, SHOWN, BATCH, self._place(), oldest_first=True)
        return [row for row in rows if row.memory.id not in known]

    def _place(self) -> int | None:
        """Where the last of the marks lies that is still there; else what lies where the first of them lay is new."""
        reader: MemoryReader = self._access.reader
        for _, memory_id in reversed(self._marks):
            row = reader.row(memory_id)
            if row is not None:
                return row.position
        return self._marks[0][0] - 1 if self._marks else None
