"""What floods and claims leave in memory, the guideline, and a memory that goes on through a simulation's years."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kingly_memory import InvalidInput
from kingly_memory.cognition.agent_memory import CognitiveMemory, MemoryItem
from kingly_memory.seeds.household import (
    GUIDELINE,
    DamageEstimate,
    FinancialOutcome,
    FloodEvent,
    update_memory_from_claim,
    update_memory_from_flood,
)

FLOOD = FloodEvent(occurred=True)


def household() -> CognitiveMemory:
    return CognitiveMemory("H001")


def flooded(damage: float, *, moderate: bool = False) -> tuple[CognitiveMemory, MemoryItem]:
    memory = household()
    item = update_memory_from_flood(memory, FLOOD, DamageEstimate(damage), 3, moderate=moderate)
    assert item is not None
    return memory, item


@pytest.mark.requirement("COG-038", "COG-039")
@pytest.mark.parametrize(
    ("damage", "moderate", "name", "importance"),
    [
        (50_000, False, "major", 0.9),
        (1e9, False, "major", 0.9),
        (49_999.99, False, "minor", 0.6),
        (20_000, False, "minor", 0.6),
        (0.4, False, "minor", 0.6),
        (50_000, True, "major", 0.9),
        (49_999, True, "moderate", 0.7),
        (10_000, True, "moderate", 0.7),
        (9_999.0, True, "minor", 0.6),
    ],
)
def test_a_flood_with_damage_is_an_episode_and_how_large_it_was(
    damage: float, moderate: bool, name: str, importance: float
) -> None:
    memory, item = flooded(damage, moderate=moderate)
    assert item.content == f"Year 3: A {name} flood caused ${damage:,.0f} in damages"
    assert (item.importance, item.year, item.tags) == (importance, 3, ["flood", name])
    assert memory.holdings[:2] == ((), (item,))


@pytest.mark.requirement("COG-040")
def test_a_flood_without_damage_is_held_in_working_memory() -> None:
    memory, item = flooded(0)
    assert item.content == "Year 3: A flood occurred but caused no damage to my property"
    assert (item.importance, item.tags) == (0.4, ["flood", "no_damage"])
    assert memory.holdings[:2] == ((item,), ())


@pytest.mark.requirement("COG-041")
def test_no_flood_leaves_nothing() -> None:
    memory = household()
    assert update_memory_from_flood(memory, FloodEvent(occurred=False), DamageEstimate(), 3) is None
    assert memory.holdings[:2] == ((), ())


@pytest.mark.requirement("COG-042", "COG-043")
@pytest.mark.parametrize(
    ("outcome", "content", "importance", "tag"),
    [
        (FinancialOutcome(True, True, 1_234_567.4), "Insurance paid $1,234,567 for my claim", 0.7, "approved"),
        (FinancialOutcome(claim_filed=True), "My insurance claim was denied", 0.8, "denied"),
    ],
)
def test_a_claim_is_an_episode_and_one_that_was_denied_is_remembered_better(
    outcome: FinancialOutcome, content: str, importance: float, tag: str
) -> None:
    memory = household()
    item = update_memory_from_claim(memory, outcome, 4)
    assert item is not None
    assert (item.content, item.importance) == (f"Year 4: {content}", importance)
    assert item.tags == ["insurance", "claim", tag]
    assert memory.holdings[:2] == ((), (item,))


@pytest.mark.requirement("COG-044")
def test_no_claim_leaves_nothing() -> None:
    memory = household()
    assert update_memory_from_claim(memory, FinancialOutcome(claim_filed=False, insurance_payout=9.0), 4) is None
    assert memory.holdings[:2] == ((), ())


@pytest.mark.requirement("COG-021")
def test_the_guideline_is_there_as_data() -> None:
    assert [(one.event, one.importance, one.destination) for one in GUIDELINE] == [
        ("major_flood", 0.9, "episodic"),
        ("minor_flood", 0.6, "working"),
        ("elevation", 0.8, "episodic"),
        ("insurance", 0.7, "episodic"),
        ("do_nothing", 0.3, "working"),
        ("policy_change", 0.5, "working"),
        ("neighbor_adaptation", 0.4, "working"),
    ]
    assert all(one.description for one in GUIDELINE)


@pytest.mark.parametrize("figure", [10**400, -(10**400), math.nan, math.inf, -1, 1e19, "5", None, True])
def test_a_figure_that_is_no_amount_is_refused_and_changes_nothing(figure: Any) -> None:
    memory = CognitiveMemory("H001")
    with pytest.raises(InvalidInput, match="amount of dollars"):
        memory.update_after_flood(figure, 1)
    with pytest.raises(InvalidInput, match="amount of dollars"):
        update_memory_from_flood(memory, FloodEvent(True), DamageEstimate(figure), 1)
    with pytest.raises(InvalidInput, match="amount of dollars"):
        update_memory_from_claim(memory, FinancialOutcome(True, True, figure), 1)
    assert memory.retrieve() == []
