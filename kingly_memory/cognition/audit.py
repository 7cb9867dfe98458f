"""The audit of a simulation: what happened to agents' memories, as records (seed 001, §8.3, §9 and §11).

A record is made after what it is about was done, so that it says where a memory really went. What is wrong with a
record is logged once and counted, and the simulation goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, Literal, Protocol

from kingly_memory.cognition.agent_memory import TOP_K, CognitiveMemory, MemoryItem
from kingly_memory.cognition.skills import Invocation
from kingly_memory.dataclass import asdict, dataclass, field, is_dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

log = logging.getLogger("kingly_memory")

Destination = Literal["working", "episodic", "dropped"]


class Kind(StrEnum):
    """What a record is about; each kind has a file of its own."""

    MEMORY_UPDATE = "memory_updates"
    TOOL_INVOCATION = "tool_invocations"
    CONSOLIDATION = "consolidations"
    HOUSEHOLD_TRACE = "household_traces"


@dataclass(frozen=True, slots=True)
class Validation:
    valid: bool = True
    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MemoryUpdate:
    """What a step left in memory: `type` is such as skill_execution or flood."""

    type: str
    item: MemoryItem


@dataclass(frozen=True, slots=True)
class HouseholdOutput:
    """What a household thought and did in a year. Anything with these attributes will do for a trace, and what it lacks
    beyond the first two is taken as it is here."""

    agent_id: str
    year: int
    decision_skill: str | None = None
    skill_parameters: Mapping[str, Any] = field(default_factory=dict)
    constructs: Mapping[str, Any] = field(default_factory=dict)
    justification: str = ""
    memory_update: MemoryUpdate | None = None
    validation: Validation = field(default_factory=Validation)
    state_after: object = None


class Sink(Protocol):
    """Takes records, from any thread, and raises nothing on account of a disk or a network."""

    def append(self, kind: str, record: JsonObject) -> None: ...


class AuditTrail:
    """Notes what happens to memories, under the names of the design of cognitive memory (seed 001, §9)."""

    def __init__(self, sink: Sink | None = None, *, now: Callable[[], datetime] | None = None) -> None:
        """`now` gives the timestamps, the wall clock unless said. Without a sink nothing is kept."""
        self._sink = sink
        self._now = now or partial(datetime.now, UTC)
        self.failures = 0
        """Traces that could not be made."""

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
        item = memory_item
        if item is not None:
            fields: JsonObject = {
                "content": item.content,
                "importance": item.importance,
                "destination": None if memory is None else destination(memory, item),
                "tags": list(item.tags),
            }
            self._note(Kind.MEMORY_UPDATE, agent_id, year, {"update_type": update_type, "memory_item": fields})

    def log_consolidation(
        self,
        agent_id: str,
        year: int,
        transferred_count: int,
        transferred_items: Iterable[str],
        memory: CognitiveMemory | None = None,
    ) -> None:
        """A year's end took what lasts over into the episodes of that `memory`, which says how many there are now."""
        fields = {
            "transferred_count": transferred_count,
            "transferred_items": list(transferred_items),
            "working_after": None if memory is None else len(memory.holdings.working),
            "episodic_after": None if memory is None else len(memory.holdings.episodic),
        }
        self._note(Kind.CONSOLIDATION, agent_id, year, {"consolidation": fields})

    def log_tool_invocation(
        self, agent_id: str, year: int, tool_id: str, parameters: Mapping[str, Any], result: Iterable[str]
    ) -> None:
        """An agent called a tool."""
        lines = list(result)
        fields = {"tool_id": tool_id, "parameters": dict(parameters), "result": lines, "result_count": len(lines)}
        self._note(Kind.TOOL_INVOCATION, agent_id, year, {"tool_invocation": fields})

    def log_invocation(self, agent_id: str, year: int, invocation: Invocation | None) -> None:
        """The same for what a registry's `invoke` answered; nothing for a tool that is not known."""
        if invocation is not None:
            self.log_tool_invocation(agent_id, year, invocation.tool_id, invocation.parameters, invocation.result)

    def write_household_trace(self, output: Any, state: object, context: Any, memory: CognitiveMemory) -> None:
        """A household's year is over; `state` is what it was before, `context` what the household decided on.

        `retrieved` of the trace is what the household had read when it decided, where `context` has
        `retrieved_memories` (as `prepare_context` gives it), else what it would read now.
        """
        try:
            record = _trace(self._now().isoformat(), output, state, context, memory)
        except Exception as error:  # noqa: BLE001  # made from somebody else's objects; the simulation goes on
            self.failures += 1
            if self.failures == 1:  # without the text of others' errors, which may hold a memory's
                why = str(error) if isinstance(error, InvalidInput) else type(error).__name__
                log.warning("audit: no record of a household's year (%s); the simulation goes on", why)
        else:
            self._keep(Kind.HOUSEHOLD_TRACE, record)

    def _note(self, kind: Kind, agent_id: str, year: int, content: JsonObject) -> None:
        self._keep(kind, {"timestamp": self._now().isoformat(), "agent_id": agent_id, "year": year, **content})

    def _keep(self, kind: Kind, record: JsonObject) -> None:
        if self._sink is not None:
            self._sink.append(kind, record)


def year_end(memory: CognitiveMemory, year: int, audit: AuditTrail | None = None) -> int:
    """End a year: consolidate, and note it. Says how many memories are new among the episodes."""
    working, episodic = (set(map(_name, items)) for items in memory.holdings[:2])
    count = memory.consolidate()
    if audit is not None:
        taken_over = [one.content for one in memory.holdings.episodic if _name(one) in working - episodic]
        audit.log_consolidation(memory.agent_id, year, count, taken_over, memory)
    return count


def _name(item: MemoryItem) -> str | int:
    """Of that very item: one of a store may have been read anew."""
    return item.id or id(item)


def destination(memory: CognitiveMemory, item: MemoryItem) -> Destination:
    """Where the item is now. `dropped`: nowhere, for what scores lowest in a full memory goes at once."""
    working, episodic = memory.holdings[:2]
    for is_it in (lambda one: one is item, lambda one: one == item):
        if any(map(is_it, episodic)):
            return "episodic"
        if any(map(is_it, working)):
            return "working"
    return "dropped"


def _trace(at: str, output: Any, state: object, context: Any, memory: CognitiveMemory) -> JsonObject:
    """Raises InvalidInput."""
    for name in ("agent_id", "year"):
        if not hasattr(output, name):
            raise InvalidInput("output", f"has no `{name}`; a trace needs an agent_id and a year")
    usual = HouseholdOutput(output.agent_id, output.year)

    def plain(name: str) -> Any:
        value = getattr(output, name, getattr(usual, name))
        return value if name == "memory_update" else _plain(value)

    update = plain("memory_update")
    read = context.get("retrieved_memories") if isinstance(context, Mapping) else None
    return {
        "timestamp": at,
        "year": output.year,
        "agent_id": output.agent_id,
        "state_before": _plain(state),
        "memory": _memory_block(memory, output.year, read),
        "reasoning": {"constructs": plain("constructs"), "justification": plain("justification")},
        "action": {"decision_skill": plain("decision_skill"), "skill_parameters": plain("skill_parameters")},
        "memory_update": None
        if update is None
        else {
            "type": update.type,
            "content": update.item.content,
            "importance": update.item.importance,
            "destination": destination(memory, update.item),
        },
        "validation": plain("validation"),
        "state_after": plain("state_after"),
    }


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _memory_block(memory: CognitiveMemory, year: int, read: object) -> JsonObject:
    working, episodic = memory.holdings[:2]
    texts = list(read) if isinstance(read, list | tuple) else memory.retrieve(TOP_K, year)
    # What is in working memory does not fade and has no score, and neither has what is gone since.
    fresh = {one.content for one in working}
    worth: dict[str, float] = {}
    for item in episodic:
        if item.content not in fresh:
            worth[item.content] = max(memory.rules.score(item, year), worth.get(item.content, 0.0))

    def shown(items: Sequence[MemoryItem]) -> list[JsonObject]:
        return [{"content": item.content, "importance": item.importance, "year": item.year} for item in items]

    return {
        "retrieved": texts,
        "working_count": len(working),
        "episodic_count": len(episodic),
        "working_items": shown(working),
        "episodic_items": shown(episodic[:10]),
        "retrieval_scores": [{"content": text, "score": worth.get(text)} for text in texts],
    }
