"""The audit of a simulation: each thing that happened to a memory becomes a record, and each record goes to all sinks.

What is wrong with a sink, or with a record, is logged once and counted, and the simulation goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from kingly_memory.cognition.audit import records
from kingly_memory.cognition.audit.records import Destination, Head, Kind
from kingly_memory.cognition.experience.cognitive import CognitiveMemory
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.cognition.experience.registry import Invocation
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

log = logging.getLogger("kingly_memory")


class Sink(Protocol):
    """Takes records, from any thread, and raises nothing on account of a disk or a network."""

    def append(self, kind: str, record: JsonObject) -> None: ...


class AuditTrail:
    """Notes what happens to memories, under the names of the design of cognitive memory (seed 001, §9)."""

    def __init__(self, *sinks: Sink, now: Callable[[], datetime] | None = None) -> None:
        """`now` gives the timestamps, the wall clock unless said."""
        self._sinks = sinks
        self._now = now or partial(datetime.now, UTC)
        self._failed: set[str] = set()
        self.failures = 0
        """Records that could not be made, and handings-over that a sink refused."""

    def log_memory_update(
        self,
        agent_id: str,
        year: int,
        update_type: str,
        memory_item: MemoryItem | None,
        memory: CognitiveMemory | None = None,
    ) -> None:
        """A memory was added to that `memory`, which says where it went; without it nobody knows. None is noted for
        nothing, for that is what the helpers answer when there is nothing to remember."""
        if memory_item is None:
            return
        went_to: Destination | None = None if memory is None else records.destination(memory, memory_item)
        self._note(
            Kind.MEMORY_UPDATE,
            lambda at: records.memory_update(Head(at, agent_id, year), update_type, memory_item, went_to),
        )

    def log_consolidation(
        self,
        agent_id: str,
        year: int,
        transferred_count: int,
        transferred_items: Iterable[str],
        memory: CognitiveMemory | None = None,
    ) -> None:
        """A year's end took what lasts over into the episodes of that `memory`, which says how many there are now."""
        self._note(
            Kind.CONSOLIDATION,
            lambda at: records.consolidation(Head(at, agent_id, year), transferred_count, transferred_items, memory),
        )

    def log_tool_invocation(
        self,
        agent_id: str,
        year: int,
        tool_id: str,
        parameters: Mapping[str, Any],
        result: Iterable[str],
        *,
        refused: str | None = None,
    ) -> None:
        """An agent called a tool."""
        self._note(
            Kind.TOOL_INVOCATION,
            lambda at: records.tool_invocation(Head(at, agent_id, year), tool_id, parameters, result, refused),
        )

    def log_invocation(self, agent_id: str, year: int, invocation: Invocation | None) -> None:
        """The same for what a registry's `invoke` answered; nothing for a tool that is not known."""
        if invocation is not None:
            self.log_tool_invocation(
                agent_id,
                year,
                invocation.tool_id,
                invocation.parameters,
                invocation.result,
                refused=invocation.refused,
            )

    def write_household_trace(self, output: Any, state: object, context: Any, memory: CognitiveMemory) -> None:
        """A household's year is over; `state` is what it was before, `context` what the household decided on."""
        self._note(Kind.HOUSEHOLD_TRACE, lambda at: records.household_trace(at, output, state, context, memory))

    def _note(self, kind: Kind, record: Callable[[datetime], JsonObject]) -> None:
        try:
            made = record(self._now())
        except Exception as error:  # noqa: BLE001  # made from somebody else's objects; the simulation goes on
            self._warn(f"no record of {kind}", error)
            return
        for sink in self._sinks:
            try:
                sink.append(kind, made)
            except Exception as error:  # noqa: BLE001  # somebody else's sink
                self._warn(f"{type(sink).__name__} took no record of {kind}", error)

    def _warn(self, what: str, error: Exception) -> None:
        """Once for each, and without the text of others' errors, which may hold a memory's."""
        self.failures += 1
        if what not in self._failed:
            self._failed.add(what)
            why = str(error) if isinstance(error, InvalidInput) else type(error).__name__
            log.warning("audit: %s (%s); the simulation goes on", what, why)


def year_end(memory: CognitiveMemory, year: int, audit: AuditTrail | None = None) -> int:
    """End a year: consolidate, and note it. Says how many memories are new among the episodes."""
    working, episodic = (set(map(_name, place)) for place in memory.place)
    count = memory.consolidate()
    if audit is not None:
        taken_over = [one.content for one in memory.place.episodic if _name(one) in working - episodic]
        audit.log_consolidation(memory.agent_id, year, count, taken_over, memory)
    return count


def _name(item: MemoryItem) -> str | int:
    """Of that very item: one of a store may have been read anew."""
    return item.id or id(item)
