"""Events: what an agent lived through, in the order of time (seed 003, MemoryStream). Pure.

An event is an episodic memory of its agent whose `created_at` is when it happened. Whatever else the agent stored as
episodic is in its stream too: there is one record and one store. Archived memories belong to it, forgotten ones don't.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType
from kingly_memory.plain import Plain
from kingly_memory.text.writing import counted, shortened
from kingly_memory.validation import Draft

RECORD = "event"
"""What `metadata.record` of a recorded event says."""
MOST_RECOUNTED = 20
"""Events that a summary has a line for, the most significant; the others are counted."""
LINE = 300
"""Characters of an event that a summary shows."""
READ = 8_000
"""Characters of an event in which a summary looks for what is most important: one may hold a million."""


@dataclass(frozen=True, slots=True)
class MemoryEvent(Plain):
    """Something that happened to an agent. `timestamp`: naive is UTC, None is when it is recorded.

    Whoever records leaves out `id` and `agent`. Memories that were stored otherwise have the `kind` that their
    `metadata.record` names, else `memory`.
    """

    DIGITS = None

    content: str
    timestamp: datetime | None = None
    kind: str = RECORD
    tags: Sequence[str] = ()
    significance: float = 0.5
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: MemoryId | None = None
    agent: str | None = None


def draft(event: MemoryEvent, agent: str) -> Draft:
    """The memory that an event is stored as. Raises InvalidInput."""
    if not isinstance(event, MemoryEvent):
        raise InvalidInput("event", f"expected a MemoryEvent, not {type(event).__name__}")
    own = validation.checked_metadata(event.metadata)
    return validation.draft(
        event.content,
        type=MemoryType.EPISODIC.value,
        significance=event.significance,
        tags=event.tags,
        agent=agent,
        metadata={
            "record": RECORD,
            "kind": validation.required("kind", event.kind),
            **({"metadata": own} if own else {}),
        },
        created_at=validation.moment("timestamp", event.timestamp),
    )


def event_of(memory: Memory) -> MemoryEvent:
    """A memory as something that happened, whoever stored it."""
    metadata = memory.metadata
    kind, own = metadata.get("record"), metadata
    if kind == RECORD and isinstance(metadata.get("kind"), str) and isinstance(metadata.get("metadata", {}), dict):
        kind, own = metadata["kind"], metadata.get("metadata", {})
    return MemoryEvent(
        content=memory.content,
        timestamp=memory.created_at,
        kind=kind if isinstance(kind, str) else "memory",
        tags=memory.tags,
        significance=memory.significance,
        metadata=own,
        id=memory.id,
        agent=memory.scope.agent,
    )


def latest(memories: Iterable[Memory], limit: int, but_for: Collection[str] = ()) -> list[Memory]:
    """The memories that happened last, the last first; of one instant, the one stored later first. Ids in `but_for` are
    left out."""
    candidates = (
        (memory.created_at, order, memory) for order, memory in enumerate(memories) if memory.id not in but_for
    )
    return [one for _, _, one in heapq.nlargest(limit, candidates, key=lambda each: each[:2])]


def bounds(time_range: object) -> tuple[datetime | None, datetime | None]:
    """A range of time, both ends included. Raises InvalidInput."""
    match time_range:
        case [start, end]:
            since, until = validation.moment("time_range", start), validation.until_moment("time_range", end)
        case _:
            raise InvalidInput("time_range", "expected two times, (start, end); None leaves an end open")
    if since is not None and until is not None and until < since:
        raise InvalidInput("time_range", "ends before it begins; give the start first")
    return since, until


def recounted(
    agent: str,
    memories: Iterable[Memory],
    since: datetime | None,
    until: datetime | None,
    gist: Callable[[str], str],
) -> str:
    """A text about what happened to an agent from one time to another: these memories. `gist` says the most important
    of a text in one sentence."""
    kinds: Counter[str] = Counter()

    def weighed() -> Iterable[tuple[float, datetime, int, MemoryEvent]]:
        for order, memory in enumerate(memories):
            event = event_of(memory)
            kinds[event.kind] += 1
            yield event.significance, memory.created_at, order, event

    weightiest = heapq.nlargest(MOST_RECOUNTED, weighed(), key=lambda one: one[:3])
    ends = (("from", since), ("until", until))
    span = "".join(f" {word} {_moment(at)}" for word, at in ends if at is not None) + (" UTC" if since or until else "")
    count = kinds.total()
    if not count:
        return f"Nothing is known of {agent}{span}."
    by_kind = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda one: (-one[1], one[0])))
    lines = [f"{counted(count, 'event')} of {agent}{span}: {by_kind}."]
    for _, at, _, event in sorted(weightiest, key=lambda one: one[1:3]):
        sentence = " ".join(gist(event.content[:READ]).split())
        lines.append(f"- {_moment(at)} {event.kind}: {shortened(sentence, LINE)}")
    if left := count - len(weightiest):
        lines.append(f"- and {left} more that mattered less")
    return "\n".join(lines)


def _moment(at: datetime) -> str:
    return at.isoformat(" ", "seconds")[:19].removesuffix(":00")
