"""An agent's stream: what it lived through, in the order of time (seed 003, MemoryStream).

An event is an episodic memory of its agent whose `created_at` is when it happened. Whatever else the agent stored as
episodic is in the stream too: there is one record and one store. Archived memories belong to it, forgotten ones don't.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import RESULTS_LIMIT, Draft
from kingly_memory.models import JsonObject, Memory, MemoryType, Receipt
from kingly_memory.ports import Searcher, Writer

RECORD = "event"
"""What `metadata.record` of a recorded event says."""

NOW, START = "now", "start"
"""Where a subscription may begin besides behind a memory: with the next one, or with the first."""

MOST_TOLD = 20
"""Events that a summary has a line for, the most significant; the others are counted."""
LINE = 300
"""Characters of an event that a summary shows."""
READ = 8_000
"""Characters of an event in which a summary looks for what is most important: one may hold a million."""

T = TypeVar("T")
Gist = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """Something that happened to an agent. `timestamp`: naive is UTC, None is when it is recorded.

    Whoever records leaves out `id` and `agent`. Memories that were stored otherwise have the `kind` that their
    `metadata.record` names, else `memory`.
    """

    content: str
    timestamp: datetime | None = None
    kind: str = RECORD
    tags: Sequence[str] = ()
    significance: float = 0.5
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: MemoryId | None = None
    agent: str | None = None

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "agent": self.agent,
            "timestamp": None if self.timestamp is None else self.timestamp.isoformat(),
            "kind": self.kind,
            "content": self.content,
            "tags": list(self.tags),
            "significance": self.significance,
            "metadata": dict(self.metadata),
        }


class Timeline(Protocol):
    """One agent's episodic memories, archived ones included."""

    async def look(
        self,
        see: Callable[[Iterable[Memory]], T],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        most: int | None = None,
    ) -> T:
        """What a function makes of those that happened from a time to another, both included, or of the latest so many
        of them, shown in the order they were stored. Raises RouterClosed, StoreError."""
        ...

    def follow(self, after: str, types: Sequence[MemoryType] | None) -> Tail:
        """What comes behind a place, of those types, or of all. Raises InvalidInput, RouterClosed."""
        ...


class Tail(Protocol):
    """The end of a timeline, where the new ones come."""

    async def further(self) -> Sequence[Memory]:
        """Those that have come, in the order they were stored, as soon as there is one; none when it has ended. A
        cancelled call loses nothing. Raises StoreError, and can then be called again."""
        ...

    def end(self) -> None: ...


class Subscription:
    """The new memories of an agent, each once, in the order they were stored: `async for event in subscription`.

    It ends when it is closed, or its router is. What has not been asked for stays in the store, so a slow reader holds
    few memories and misses none. Several readers of one subscription share its events among them.
    """

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._waiting: deque[Memory] = deque()
        self._turn = asyncio.Lock()
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MemoryEvent:
        async with self._turn:
            if not self._waiting and not self._is_closed:
                self._waiting.extend(await self._tail.further())
            if self._is_closed or not self._waiting:
                raise StopAsyncIteration
            return event_of(self._waiting.popleft())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it, also for who is waiting for the next event. Safe to call twice."""
        self._is_closed = True
        self._tail.end()


class MemoryStream:
    """The stream of one agent."""

    def __init__(
        self,
        agent: str,
        *,
        project: str,
        searcher: Searcher,
        writer: Writer,
        timeline: Timeline,
        content_limit_bytes: int,
        gist: Gist = lambda text: text,
    ) -> None:
        """`gist` says the most important of a text in one sentence."""
        self.agent = agent
        self._project = project
        self._searcher = searcher
        self._writer = writer
        self._timeline = timeline
        self._content_limit_bytes = content_limit_bytes
        self._gist = gist

    async def record(self, event: MemoryEvent) -> Receipt:
        """Store what happened; durable and searchable when this returns. An event of the past takes
        its place in time. Raises InvalidInput, StoreError."""
        return await self._writer.put(draft(event, self.agent, content_limit_bytes=self._content_limit_bytes))

    async def recall(self, query: str, limit: int = 10) -> list[MemoryEvent]:
        """The events that answer the query, best first; then, as far as there is room, the latest others, latest first.

        All that ever happened is searched. An empty query asks for the latest. Raises InvalidInput.
        """
        asked = intake.query(
            query,
            project=self._project,
            limit=limit,
            types=[MemoryType.EPISODIC.value],
            agent=self.agent,
            include_archived=True,
        )
        found: list[Memory] = []
        if asked.text.strip():  # who asks for nothing has not searched in vain
            results = await self._searcher.find(replace(asked, neighbours=False), include_semantic=False)
            found += [hit.memory for hit in results]
        room = asked.limit - len(found)
        if room > 0:
            known = {memory.id for memory in found}
            others = partial(latest, limit=room, known=known)
            found += await self._timeline.look(others, most=asked.limit)  # what is known may be among those
        return [event_of(memory) for memory in found]

    async def events(self, limit: int = 100) -> list[MemoryEvent]:
        """The latest events in the order of time, the latest last; of one instant, in the order they were recorded.
        Raises InvalidInput."""
        most = intake.count("limit", limit, most=RESULTS_LIMIT)
        found = await self._timeline.look(partial(latest, limit=most), most=most)
        return [event_of(memory) for memory in reversed(found)]

    async def summarize(self, time_range: tuple[datetime | str | None, datetime | str | None]) -> str:
        """What happened from a time to another, both included, as text: how many events of which kind, and a line for
        each of the most significant. None leaves an end open. Raises InvalidInput."""
        since, until = bounds(time_range)
        tell = partial(told, self.agent, since=since, until=until, gist=self._gist)
        return await self._timeline.look(tell, since=since, until=until)

    def subscribe(self, after: str = NOW, *, types: Sequence[str] | None = ("episodic",)) -> Subscription:
        """The agent's memories as they are stored, by any process: those from this call on, from the `start`, or behind
        the memory whose id is given. `types` are those of memories; None is all of them. Raises InvalidInput."""
        named = intake.query("", project=self._project, types=types).types
        return Subscription(self._timeline.follow(intake.required("after", after), named))


def draft(event: MemoryEvent, agent: str, *, content_limit_bytes: int) -> Draft:
    """The memory that an event is stored as. Raises InvalidInput."""
    if not isinstance(event, MemoryEvent):
        raise InvalidInput("event", f"expected a MemoryEvent, not {type(event).__name__}")
    said = intake.checked_metadata(event.metadata)
    return intake.draft(
        event.content,
        content_limit_bytes=content_limit_bytes,
        type=MemoryType.EPISODIC.value,
        significance=event.significance,
        tags=event.tags,
        agent=agent,
        metadata={
            "record": RECORD,
            "kind": intake.required("kind", event.kind),
            **({"metadata": said} if said else {}),
        },
        created_at=intake.moment("timestamp", event.timestamp),
    )


def event_of(memory: Memory) -> MemoryEvent:
    """A memory as something that happened, whoever stored it."""
    said = memory.metadata
    kind, within = said.get("kind"), said.get("metadata", {})
    is_recorded = said.get("record") == RECORD and isinstance(kind, str) and isinstance(within, dict)
    named = str(kind) if is_recorded else said.get("record")
    return MemoryEvent(
        content=memory.content,
        timestamp=memory.created_at,
        kind=named if isinstance(named, str) else "memory",
        tags=memory.tags,
        significance=memory.significance,
        metadata=within if is_recorded else said,
        id=memory.id,
        agent=memory.scope.agent,
    )


def latest(memories: Iterable[Memory], limit: int, known: Collection[str] = ()) -> list[Memory]:
    """Those that happened last, the last first, without the known ones; of one instant, what was stored later."""
    others = ((one.created_at, order, one) for order, one in enumerate(memories) if one.id not in known)
    return [one for _, _, one in heapq.nlargest(limit, others, key=lambda each: each[:2])]


def bounds(time_range: object) -> tuple[datetime | None, datetime | None]:
    """A range of time, both ends included. Raises InvalidInput."""
    if isinstance(time_range, str) or not isinstance(time_range, Sequence) or len(time_range) != len(("from", "to")):
        raise InvalidInput("time_range", "expected two times, (start, end); None leaves an end open")
    since, until = intake.moment("time_range", time_range[0]), intake.until_moment("time_range", time_range[1])
    if since is not None and until is not None and until < since:
        raise InvalidInput("time_range", "ends before it begins; give the start first")
    return since, until


def told(agent: str, memories: Iterable[Memory], since: datetime | None, until: datetime | None, gist: Gist) -> str:
    """A text about what happened to an agent from one time to another: these memories."""
    kinds: Counter[str] = Counter()

    def counted() -> Iterable[tuple[datetime, int, MemoryEvent]]:
        for order, memory in enumerate(memories):
            event = event_of(memory)
            kinds[event.kind] += 1
            yield memory.created_at, order, event

    weightiest = heapq.nlargest(MOST_TOLD, counted(), key=lambda one: (one[2].significance, *one[:2]))
    count = kinds.total()
    if not count:
        return f"Nothing is known of {agent}{_span(since, until)}."
    by_kind = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda one: (-one[1], one[0])))
    lines = [f"{count} event{'s' * (count != 1)} of {agent}{_span(since, until)}: {by_kind}."]
    lines += [_line(at, event, gist) for at, _, event in sorted(weightiest, key=lambda one: one[:2])]
    left = count - len(weightiest)
    return "\n".join([*lines, *([f"- and {left} more that mattered less"] if left else [])])


def _line(at: datetime, event: MemoryEvent, gist: Gist) -> str:
    said = " ".join(gist(event.content[:READ]).split())
    shown = said if len(said) <= LINE else f"{said[: LINE - 1].rstrip()}…"
    return f"- {_moment(at)} {event.kind}: {shown}"


def _span(since: datetime | None, until: datetime | None) -> str:
    start = "" if since is None else f" from {_moment(since)}"
    return start + ("" if until is None else f" until {_moment(until)}") + (" UTC" if since or until else "")


def _moment(at: datetime) -> str:
    return at.isoformat(" ", "seconds")[:19].removesuffix(":00")
