"""The names of seed 001 (households) as it writes them: cognitive memory, what floods, claims and skills leave in it,
prompts and serialization."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from kingly_memory.cognition import agent_memory
from kingly_memory.cognition.agent_memory import MemoryItem, checked_year, dollars
from kingly_memory.cognition.audit import AuditTrail
from kingly_memory.cognition.skills import SkillRegistry, skill_updates, update_memory_from_skill
from kingly_memory.dataclass import asdict, dataclass, field, is_dataclass
from kingly_memory.errors import InvalidInput

__all__ = [
    "GUIDELINE",
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
        return _Items(list(self.holdings.working), self.add_working)

    @property
    def _episodic(self) -> list[MemoryItem]:
        return _Items(list(self.holdings.episodic), self.add_episodic)


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
        """`{"state", "memory"}` as JSON: a state that is a dataclass or a mapping, and what `CognitiveMemory.restore`
        takes. Raises InvalidInput for a state that JSON cannot hold."""
        state = asdict(self.state) if is_dataclass(self.state) and not isinstance(self.state, type) else self.state
        if not isinstance(state, Mapping):
            raise InvalidInput("state", f"expected a dataclass or a mapping, not {type(state).__name__}")
        try:
            held = json.loads(json.dumps(dict(state), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput("state", f"cannot be kept as JSON ({error})") from None
        return {"state": held, "memory": self.memory.serialize()}


def prepare_context(agent: HouseholdAgent, year: int) -> dict[str, Any]:
    """What the agent decides on: its state, what it remembers, and the year. Raises InvalidInput."""
    return {"state": agent.state, "retrieved_memories": agent.memory.retrieve(current_year=year), "year": year}


def build_household_prompt(state: Any, context: Mapping[str, Any], memory: agent_memory.CognitiveMemory) -> str:
    """A prompt that says what the household remembers in `context["year"]`. Raises InvalidInput."""
    return f"=== YOUR MEMORY ===\n{memory.format_for_prompt(int(context['year']))}\n"


# --- what floods and insurance claims leave (§5.2 and §10.3) ---

MAJOR_FROM = 50_000.0
MODERATE_FROM = 10_000.0
"""Dollars of damage."""


class Suggestion(NamedTuple):
    """What an event of this kind is worth, and which memory it is for."""

    event: str
    description: str
    importance: float
    destination: Literal["working", "episodic"]


GUIDELINE: tuple[Suggestion, ...] = (
    Suggestion("major_flood", "Major flood (damage > $50k)", 0.9, "episodic"),
    Suggestion("minor_flood", "Minor flood (damage < $10k)", 0.6, "working"),
    Suggestion("elevation", "Elevation decision", 0.8, "episodic"),
    Suggestion("insurance", "Insurance decision", 0.7, "episodic"),
    Suggestion("do_nothing", "Do nothing", 0.3, "working"),
    Suggestion("policy_change", "Policy change observation", 0.5, "working"),
    Suggestion("neighbor_adaptation", "Neighbor adaptation", 0.4, "working"),
)
"""The seed's own suggestions (§5.2): data to go by, not rules. The functions here differ in one line: a minor flood
becomes an episode, as the seed's own code has it."""


@dataclass(frozen=True, slots=True)
class FloodEvent:
    occurred: bool


@dataclass(frozen=True, slots=True)
class DamageEstimate:
    """Damage in dollars."""

    total_damage: float = 0.0


@dataclass(frozen=True, slots=True)
class FinancialOutcome:
    """What became of an insurance claim, if there was one; the payout is in dollars."""

    claim_filed: bool
    claim_approved: bool = False
    insurance_payout: float = 0.0


def update_memory_from_flood(
    memory: agent_memory.CognitiveMemory,
    flood: FloodEvent,
    damage: DamageEstimate,
    year: int,
    *,
    moderate: bool = False,
) -> MemoryItem | None:
    """A flood with damage becomes an episode, one without is held in working memory, and none is None.

    `moderate`: damage from 10,000 to 50,000 is that, of importance 0.7, and not minor. Raises InvalidInput.
    """
    cost, year = dollars("total_damage", damage.total_damage), checked_year(year)
    if cost > 0:
        name, importance = "minor", 0.6
        if cost >= MAJOR_FROM:
            name, importance = "major", 0.9
        elif moderate and cost >= MODERATE_FROM:
            name, importance = "moderate", 0.7
        content = f"Year {year}: A {name} flood caused ${cost:,.0f} in damages"
        return memory.add_episodic(content, importance, year, ("flood", name))
    if flood.occurred:
        content = f"Year {year}: A flood occurred but caused no damage to my property"
        return memory.add_working(content, 0.4, year, ("flood", "no_damage"))
    return None


def update_memory_from_claim(
    memory: agent_memory.CognitiveMemory, outcome: FinancialOutcome, year: int
) -> MemoryItem | None:
    """A claim becomes an episode, and one that was denied is remembered better; no claim is None. Raises
    InvalidInput."""
    if not outcome.claim_filed:
        return None
    year = checked_year(year)
    if not outcome.claim_approved:
        content = f"Year {year}: My insurance claim was denied"
        return memory.add_episodic(content, 0.8, year, ("insurance", "claim", "denied"))
    payout = dollars("insurance_payout", outcome.insurance_payout)
    content = f"Year {year}: Insurance paid ${payout:,.0f} for my claim"
    return memory.add_episodic(content, 0.7, year, ("insurance", "claim", "approved"))
