"""The names of seed 001 (households) as it writes them: cognitive memory, skills, prompts and serialization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kingly_memory.cognition import agent_memory
from kingly_memory.cognition.agent_memory import MemoryItem, prompt_block, serialize_agent
from kingly_memory.cognition.audit import AuditTrail
from kingly_memory.cognition.household import (
    DamageEstimate,
    FinancialOutcome,
    FloodEvent,
    update_memory_from_claim,
    update_memory_from_flood,
)
from kingly_memory.cognition.skills import SkillRegistry, skill_updates, update_memory_from_skill
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput

__all__ = [
    "SKILL_MEMORY_MAP",
    "AuditTrail",
    "CognitiveMemory",
    "DamageEstimate",
    "FinancialOutcome",
    "FloodEvent",
    "HouseholdAgent",
    "HouseholdAgentState",
    "MemoryItem",
    "SkillRegistry",
    "build_household_prompt",
    "prepare_context",
    "update_memory_from_claim",
    "update_memory_from_flood",
    "update_memory_from_skill",
]

SKILL_MEMORY_MAP: dict[str, dict[str, Any]] = {
    name: {"template": update.template, "importance": update.importance, "tags": list(update.tags)}
    for name, update in skill_updates().items()
}
"""A copy: changing it changes no skill."""


class _Items(list[MemoryItem]):
    """Items as they are now. The seed's code appends to such lists, so that an append goes into the memory."""

    def __init__(self, items: list[MemoryItem], append: Any) -> None:
        super().__init__(items)
        self._into = append

    def append(self, item: MemoryItem) -> None:
        self._into(item.content, item.importance, item.year, item.tags)
        super().append(item)

    def _refused(self, *_: object, **__: object) -> Any:
        raise InvalidInput("memory", "this list is a copy that only `append` writes through; use the memory's methods")

    extend = insert = remove = pop = clear = __setitem__ = __delitem__ = __iadd__ = _refused


class CognitiveMemory(agent_memory.CognitiveMemory):
    """The memory of one agent. `_working` and `_episodic` can be appended to, as the seed does."""

    @property
    def _working(self) -> list[MemoryItem]:
        return _Items(super()._working, self.add_working)

    @property
    def _episodic(self) -> list[MemoryItem]:
        return _Items(super()._episodic, self.add_episodic)


@dataclass
class HouseholdAgentState:
    """What a household has; the seed leaves the fields open, so these are the ones its examples show."""

    id: str = ""
    elevated: bool = False
    has_insurance: bool = False
    cumulative_damage: float = 0.0


@dataclass
class HouseholdAgent:
    """An agent: its state and its memory, which goes on over the years."""

    state: Any
    memory: agent_memory.CognitiveMemory = field(default_factory=lambda: CognitiveMemory("household"))

    def serialize(self) -> dict[str, Any]:
        """`{"state", "memory": {"working", "episodic", …}}` for JSON. Raises InvalidInput."""
        return serialize_agent(self.state, self.memory)


def prepare_context(agent: HouseholdAgent, year: int) -> dict[str, Any]:
    """What the agent decides on: its state, what it remembers, and the year."""
    return agent_memory.prepare_context(agent.state, agent.memory, year)


def build_household_prompt(state: Any, context: Mapping[str, Any], memory: agent_memory.CognitiveMemory) -> str:
    """A prompt that says what the household remembers in `context["year"]`."""
    return f"{prompt_block(memory, int(context['year']))}\n"
