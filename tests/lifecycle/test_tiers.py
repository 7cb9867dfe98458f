"""Tiers: their figures, what a placement remembers, and how importance and surprise are computed."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from kingly_memory.lifecycle.tiers import (
    SEEDS_TIERS,
    TIER_CONFIGS,
    TIER_HALF_LIVES,
    Placement,
    above,
    below,
    decayed_importance,
    kept_placement,
    moved,
    placed,
    surprised,
)
from kingly_memory.models import JsonObject, Tier
from kingly_memory.settings import TierConfig
from tests.lifecycle.samples import HOUR_S, NOON_S, memory

DECAYED = {
    # (significance, hours): what is left with a half-life of 1, 24, 168 and 720 hours
    (0.5, 0): (0.5, 0.5, 0.5, 0.5),
    (0.5, 1): (0.25, 0.485766, 0.497941, 0.499519),
    (0.5, 24): (0.0, 0.25, 0.452862, 0.48858),
    (0.5, 168): (0.0, 0.003906, 0.25, 0.425334),
    (0.9, 0): (0.9, 0.9, 0.9, 0.9),
    (0.9, 1): (0.45, 0.874379, 0.896294, 0.899134),
    (0.9, 24): (0.0, 0.45, 0.815151, 0.879444),
    (0.9, 168): (0.0, 0.007031, 0.45, 0.7656),
}

AFTER_SURPRISES = [0.3, 0.51, 0.657, 0.7599, 0.8319, 0.8824, 0.9176]


@pytest.mark.requirement("ARG-001")
def test_there_are_four_tiers_from_near_to_far() -> None:
    assert [tier.value for tier in Tier] == ["fast", "medium", "slow", "glacial"]
    assert [above(tier) for tier in Tier] == [None, Tier.FAST, Tier.MEDIUM, Tier.SLOW]
    assert [below(tier) for tier in Tier] == [Tier.MEDIUM, Tier.SLOW, Tier.GLACIAL, None]


@pytest.mark.requirement("ARG-002", "ARG-003", "ARG-004", "ARG-005")
@pytest.mark.parametrize(
    ("tier", "figures"),
    [
        (Tier.FAST, (60, 1000, 0.8, "per_event")),
        (Tier.MEDIUM, (3600, 500, 0.5, "per_round")),
        (Tier.SLOW, (86400, 200, 0.3, "per_cycle")),
        (Tier.GLACIAL, (604800, 100, 0.0, "monthly")),
    ],
)
def test_tiers_have_the_seeds_figures(tier: Tier, figures: tuple[object, ...]) -> None:
    config = TIER_CONFIGS[tier]
    found = (config.ttl_seconds, config.max_items, config.importance_threshold, config.update_frequency)
    assert found == figures


@pytest.mark.requirement("ARG-006")
def test_a_config_has_the_seeds_fields() -> None:
    names = ["ttl_seconds", "max_items", "importance_threshold", "update_frequency"]
    assert [field.name for field in fields(TierConfig)] == names
    assert TierConfig(60, 10, 0.5, "monthly").max_items == 10


@pytest.mark.requirement("UNI-003")
@pytest.mark.requirement("ARG-024", "ARG-025")
@pytest.mark.parametrize(("significance", "hours"), DECAYED)
def test_importance_halves_within_the_half_life_of_its_tier(significance: float, hours: int) -> None:
    assert [TIER_HALF_LIVES[tier] for tier in Tier] == [1, 24, 168, 720]
    left = [decayed_importance(significance, hours * HOUR_S, tier) for tier in Tier]
    assert left == pytest.approx(DECAYED[significance, hours], abs=1e-6)


@pytest.mark.requirement("ARG-024")
@pytest.mark.parametrize(
    "facet",
    [None, {}, {"tier": "lukewarm"}, *({**Placement().to_json(), "surprise": one} for one in ("much", True, 10**400))],
)
def test_a_facet_that_says_nothing_leaves_a_memory_where_its_significance_places_it(facet: JsonObject | None) -> None:
    said = memory(significance=0.85)
    assert kept_placement(facet, said, SEEDS_TIERS) == placed(said) == Placement(Tier.FAST)
    assert kept_placement(Placement(Tier.SLOW).to_json(), said, SEEDS_TIERS) == Placement(Tier.SLOW)


@pytest.mark.requirement("ARG-026")
@pytest.mark.parametrize(
    ("said", "surprise"),
    [
        ({}, 0.0),
        ({"actual": 1.0}, 0.5),
        ({"predicted": 0.0}, 0.5),
        ({"predicted": 0.2, "actual": 0.9}, 0.7),
        ({"predicted": 0.9, "actual": 0.2}, 0.0),
        ({"predicted": 0, "actual": 1}, 1.0),
    ],
)
def test_surprise_is_what_was_found_beyond_what_was_predicted(said: dict[str, Any], surprise: float) -> None:
    assert surprised(Placement(), NOON_S, **said).surprise == pytest.approx(0.3 * surprise)


@pytest.mark.requirement("ARG-027")
def test_surprise_is_a_moving_average() -> None:
    placement, found = Placement(), []
    for number in range(7):
        placement = surprised(placement, NOON_S + number, predicted=0.0, actual=1.0)
        found.append(placement.surprise)
    assert found == pytest.approx(AFTER_SURPRISES, abs=5e-5)
    assert placement.surprises == 7
    assert placement.reinforced_at == NOON_S + 6


@pytest.mark.requirement("ARG-036")
def test_a_move_notes_where_the_counts_stood_and_changes_none() -> None:
    before = Placement(surprise=0.7, surprises=4, successes=3, reinforced_at=NOON_S - 9)
    after = moved(before, Tier.MEDIUM, NOON_S, accesses=6)
    assert (after.surprise, after.surprises, after.successes, after.reinforced_at) == (0.7, 4, 3, NOON_S - 9)
    assert (after.accesses_at_move, after.surprises_at_move, after.successes_at_move) == (6, 4, 3)
    assert (after.tier, after.moved_at) == (Tier.MEDIUM, NOON_S)
    assert (after.rising, after.turned_at) == (True, None)
    assert Placement.from_json(json.loads(json.dumps(after.to_json()))) == after
