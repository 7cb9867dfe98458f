"""What the audit notes of an agent's memory, in the shapes of the design of cognitive memory (seed 001, §8.3, §9, §11).

Pure: every function takes what happened and when, and returns a JSON object. Taken after what it is about was done, so
that it says where a memory really went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from kingly_memory.cognition.experience.cognitive import TOP_K, CognitiveMemory
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

EPISODES_SHOWN = 10
"""In a trace."""

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


class Head(NamedTuple):
    """What every record begins with: when it was made, whose it is, and the year of the simulation."""

    at: datetime
    agent_id: str
    year: int

    def to_json(self) -> JsonObject:
        return {"timestamp": self.at.isoformat(), "agent_id": self.agent_id, "year": self.year}


def destination(memory: CognitiveMemory, item: MemoryItem) -> Destination:
    """Where the item is now. `dropped`: nowhere, for what scores lowest in a full memory goes at once."""
    place = memory.place
    for is_it in (lambda one: one is item, lambda one: one == item):
        if any(map(is_it, place.episodic)):
            return "episodic"
        if any(map(is_it, place.working)):
            return "working"
    return "dropped"


def memory_update(head: Head, update_type: str, item: MemoryItem, went_to: Destination | None) -> JsonObject:
    """One memory that was added (§9.2). `went_to` is None where nobody has looked."""
    return {
        **head.to_json(),
        "update_type": update_type,
        "memory_item": {
            "content": item.content,
            "importance": item.importance,
            "destination": went_to,
            "tags": list(item.tags),
        },
    }


def consolidation(head: Head, count: int, items: Iterable[str], memory: CognitiveMemory | None) -> JsonObject:
    """What a year's end took over into the episodes (§9.3), and how many there are in a memory then."""
    working, episodic = (None, None) if memory is None else map(len, memory.place)
    return {
        **head.to_json(),
        "consolidation": {
            "transferred_count": count,
            "transferred_items": list(items),
            "working_after": working,
            "episodic_after": episodic,
        },
    }


def tool_invocation(
    head: Head,
    tool_id: str,
    parameters: Mapping[str, Any],
    result: Iterable[str],
    refused: str | None = None,
) -> JsonObject:
    """A tool that an agent called (§8.3), and why it was not carried out if it was not."""
    found = list(result)
    told: JsonObject = {
        "tool_id": tool_id,
        "parameters": dict(parameters),
        "result": found,
        "result_count": len(found),
    }
    if refused is not None:
        told["refused"] = refused
    return {**head.to_json(), "tool_invocation": told}


def household_trace(at: datetime, output: Any, state: object, context: Any, memory: CognitiveMemory) -> JsonObject:
    """A household's year (§9.1, §11), after it: `state` is what it was before. Raises InvalidInput.

    `retrieved` is what the household had read when it decided, where `context` has `retrieved_memories` (as
    `prepare_context` gives it), else what it would read now.
    """
    agent_id, year = (_needed(output, name) for name in ("agent_id", "year"))
    usual = HouseholdOutput(agent_id, year)
    return {
        "timestamp": at.isoformat(),
        "year": year,
        "agent_id": agent_id,
        "state_before": _plain(state),
        "memory": _memory_block(memory, year, _read(context)),
        "reasoning": {
            "constructs": _plain(_said(output, "constructs", usual)),
            "justification": _said(output, "justification", usual),
        },
        "action": {
            "decision_skill": _said(output, "decision_skill", usual),
            "skill_parameters": _plain(_said(output, "skill_parameters", usual)),
        },
        "memory_update": _update_block(memory, _said(output, "memory_update", usual)),
        "validation": _plain(_said(output, "validation", usual)),
        "state_after": _plain(_said(output, "state_after", usual)),
    }


def _memory_block(memory: CognitiveMemory, year: int, retrieved: Sequence[str] | None) -> JsonObject:
    working, episodic = memory.place
    texts = memory.retrieve(TOP_K, year) if retrieved is None else list(retrieved)
    return {
        "retrieved": texts,
        "working_count": len(working),
        "episodic_count": len(episodic),
        "working_items": [_item(one) for one in working],
        "episodic_items": [_item(one) for one in episodic[:EPISODES_SHOWN]],
        "retrieval_scores": _scores(memory, year, texts),
    }


def _scores(memory: CognitiveMemory, year: int, texts: Iterable[str]) -> list[JsonObject]:
    """What each is worth as an episode in that year; None for one of working memory, which does not fade, and for one
    that is gone since."""
    working, episodic = memory.place
    fresh = {one.content for one in working}
    worth: dict[str, float] = {}
    for one in episodic:
        if one.content not in fresh:
            worth[one.content] = max(memory.rules.score(one, year), worth.get(one.content, 0.0))
    return [{"content": text, "score": worth.get(text)} for text in texts]


def _item(item: MemoryItem) -> JsonObject:
    return {"content": item.content, "importance": item.importance, "year": item.year}


def _update_block(memory: CognitiveMemory, update: Any) -> JsonObject | None:
    if update is None:
        return None
    item = update.item
    return {
        "type": update.type,
        "content": item.content,
        "importance": item.importance,
        "destination": destination(memory, item),
    }


def _read(context: Any) -> Sequence[str] | None:
    found = context.get("retrieved_memories") if isinstance(context, Mapping) else None
    return found if isinstance(found, list | tuple) else None


def _needed(output: Any, name: str) -> Any:
    try:
        return getattr(output, name)
    except AttributeError:
        raise InvalidInput("output", f"has no `{name}`; a trace needs an agent_id and a year") from None


def _said(output: Any, name: str, usual: HouseholdOutput) -> Any:
    return getattr(output, name, getattr(usual, name))


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
