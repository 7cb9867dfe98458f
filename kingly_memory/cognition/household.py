"""What floods and insurance claims leave in the memory of a household (seed 001, §5.2 and §10.3)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kingly_memory.cognition.agent_memory import CognitiveMemory, MemoryItem, checked_year, dollars
from kingly_memory.dataclass import dataclass

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
    memory: CognitiveMemory, flood: FloodEvent, damage: DamageEstimate, year: int, *, moderate: bool = False
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


def update_memory_from_claim(memory: CognitiveMemory, outcome: FinancialOutcome, year: int) -> MemoryItem | None:
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
