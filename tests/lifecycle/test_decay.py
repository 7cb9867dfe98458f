"""A memory fades while nobody uses it, and every figure of that is the design's."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle.decay import (
    Strength,
    StrengthRules,
    Vitals,
    current,
    explained,
    state,
)
from tests.lifecycle.samples import DAY_S, NOON_S, memory, samples


def idle(days: float, **said: Any) -> Vitals:
    return Vitals(NOON_S - days * DAY_S, **said)


def reinforced(*days_ago: float) -> Strength:
    return Strength(reinforced=tuple(sorted(NOON_S - days * DAY_S for days in days_ago)))


@pytest.mark.requirement("UNI-003")
@pytest.mark.requirement("ALM-028")
@pytest.mark.requirement("ALM-029")
@pytest.mark.requirement("ALM-030")
@pytest.mark.requirement("ALM-031")
def test_every_strength_that_was_worked_out_beforehand_comes_out() -> None:
    wrong = []
    assert len(list(samples())) == 216
    for one in samples():
        vitals = idle(
            one.days,
            significance=one.significance,
            accesses=one.accesses,
            strength=reinforced(*[0.0] * one.reinforcements),
        )
        if current(vitals, NOON_S) != pytest.approx(one.strength, abs=6e-7):
            wrong.append(one)
    assert wrong == []


@pytest.mark.requirement("ALM-030")
def test_a_reinforcement_counts_for_seven_days_and_not_a_moment_longer() -> None:
    strength = reinforced(7)
    assert current(idle(0, strength=strength), NOON_S) == 0.75
    assert current(idle(0, strength=strength), NOON_S - 1) == pytest.approx(0.825)


@pytest.mark.parametrize(
    ("accesses", "floor"),
    [(1, 0.052), (2, 0.0824), (3, 0.104), (5, 0.1344), (10, 0.1798), (53, 0.2992), (54, 0.3), (10**9, 0.3)],
)
def test_what_was_used_keeps_a_floor_for_ever(accesses: int, floor: float) -> None:
    assert current(idle(1e6, accesses=accesses), NOON_S) == pytest.approx(floor, abs=6e-5)


def test_a_memory_with_a_half_life_of_its_own_fades_by_that() -> None:
    half, rules = current(idle(30), NOON_S), StrengthRules(half_life_days=90)
    assert current(idle(90), NOON_S, rules) == half
    assert current(idle(90, own_half_life_days=180.0), NOON_S, rules) > half


@pytest.mark.requirement("ALM-034")
@pytest.mark.requirement("ALM-035")
@pytest.mark.parametrize(
    ("strength", "expected"),
    [
        (0.0, "forgettable"),
        (math.nextafter(0.1, 0), "forgettable"),
        (0.1, "weak"),
        (math.nextafter(0.3, 0), "weak"),
        (0.3, "normal"),
        (math.nextafter(0.7, 0), "normal"),
        (0.7, "strong"),
        (1.0, "strong"),
    ],
)
def test_each_state_begins_at_its_boundary(strength: float, expected: str) -> None:
    assert state(strength) == expected


def test_an_account_says_all_there_is_to_know() -> None:
    account = explained(idle(60, accesses=1, strength=reinforced(3)), NOON_S)
    assert json.loads(json.dumps(account)) == {
        "strength": 0.3145,
        "idle_days": 60.0,
        "half_life_days": 30.0,
        "accesses": 1,
        "state": "normal",
        "reinforcements": 1,
    }


@pytest.mark.requirement("ALM-089")
def test_a_memory_without_a_facet_fades_from_its_own_timestamps() -> None:
    old = Vitals.of(memory(days_old=60), Strength())
    assert current(old, NOON_S) == pytest.approx(0.18755520083407062)


def test_the_latest_of_writing_use_and_reinforcement_counts() -> None:
    written = memory(days_old=60)
    used_s = NOON_S - 20 * DAY_S
    assert Vitals.of(written, Strength(), accesses=1, last_used=used_s).idle_days(NOON_S) == pytest.approx(20)
    assert Vitals.of(written, reinforced(10), accesses=1, last_used=used_s).idle_days(NOON_S) == pytest.approx(10)
    revised = memory(days_old=60, updated_at=memory(days_old=5).updated_at)
    assert Vitals.of(revised, Strength(), last_used=used_s).idle_days(NOON_S) == pytest.approx(5)


days = st.floats(-400, 40_000)


shares = st.floats(0, 1)


rules = st.builds(
    StrengthRules,
    half_life_days=st.floats(0.001, 10_000),
    forget_threshold=st.floats(0, 0.3),
    fades=st.booleans(),
)


strengths = st.builds(
    Strength,
    reinforced=st.lists(days.map(lambda ago: NOON_S - ago * DAY_S), max_size=10).map(lambda at: tuple(sorted(at))),
)


vitals_of_all_sorts = st.builds(
    Vitals,
    touched_s=days.map(lambda ago: NOON_S - ago * DAY_S),
    significance=shares,
    accesses=st.integers(0, 10**6),
    strength=strengths,
    initial=shares,
    own_half_life_days=st.none() | st.floats(0.001, 10_000),
)


@given(vitals_of_all_sorts, rules, st.floats(0, 1e6))
def test_a_strength_never_rises_by_itself(vitals: Vitals, rules: StrengthRules, later: float) -> None:
    assert current(vitals, NOON_S + later * DAY_S, rules) <= current(vitals, NOON_S, rules)


@given(vitals_of_all_sorts, rules)
def test_a_reinforcement_never_lowers_it(vitals: Vitals, rules: StrengthRules) -> None:
    after = replace(vitals, strength=vitals.strength.reinforce(NOON_S), touched_s=max(vitals.touched_s, NOON_S))
    assert current(after, NOON_S, rules) >= current(vitals, NOON_S, rules)
