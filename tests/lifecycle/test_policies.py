"""What each policy says of one memory: what has faded rests, what is protected stays, tiers are left one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.decay import StrengthRules, current
from kingly_memory.lifecycle.policies import (
    Archive,
    Demote,
    Promote,
    Subject,
    Usage,
    Verdict,
    faded,
    tiered,
    weak,
)
from kingly_memory.lifecycle.tiers import (
    SEEDS_TIERS,
    Placement,
    below,
    reinforced,
    succeeded,
    surprised,
)
from kingly_memory.models import MemoryType, Tier
from tests.lifecycle.samples import DAY_S, HOUR_S, MINUTE_S, NOON_S, placed, subject

SEEDS_TTL_S = {Tier.FAST: MINUTE_S, Tier.MEDIUM: HOUR_S, Tier.SLOW: DAY_S, Tier.GLACIAL: 7 * DAY_S}


def placement_of(one: Subject) -> Placement:
    return one.placed(SEEDS_TIERS)


# --- strength -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-034")
def test_the_days_of_the_design_are_the_boundary() -> None:
    assert faded(subject(days_old=87.2252), NOON_S) is None
    assert isinstance(faded(subject(days_old=87.2253), NOON_S), Archive)


@pytest.mark.requirement("ALM-042")
@pytest.mark.parametrize("said", [{"significance": 0.8}, {"significance": 1.0}, {"pinned": True}])
def test_what_is_protected_is_kept_however_long_it_idles(said: dict[str, Any]) -> None:
    one = subject(days_old=3_650, **said)
    assert faded(one, NOON_S) is None
    assert current(one.vitals, NOON_S) < 0.1


@pytest.mark.requirement("ALM-090")
def test_forgetting_that_is_switched_off_keeps_everything() -> None:
    assert faded(subject(days_old=365), NOON_S, StrengthRules(fades=False)) is None


@pytest.mark.requirement("ALM-090")
def test_threshold_and_half_lives_are_the_users() -> None:
    assert isinstance(faded(subject(days_old=60), NOON_S, StrengthRules(forget_threshold=0.2)), Archive)
    slow = StrengthRules(forget_threshold=0.2, half_life_days=365)
    assert faded(subject(days_old=60), NOON_S, slow) is None


@pytest.mark.requirement("ALM-039")
@pytest.mark.requirement("ALM-040")
def test_the_weak_are_listed_weakest_first_in_the_designs_names() -> None:
    population = [
        subject(1, days_old=60),
        subject(2, days_old=0),
        subject(3, days_old=100),
        subject(4, days_old=80),
        subject(5, days_old=365),
        subject(6, days_old=365, pinned=True),
    ]
    found = weak(population, NOON_S).to_json()
    ids = [one.memory.id for one in population]
    assert json.loads(json.dumps(found)) == {
        "forgettable": [ids[4], ids[2]],
        "protected": [ids[5]],
        "recoverable": [{"memory_id": ids[3], "strength": 0.1182}, {"memory_id": ids[0], "strength": 0.1876}],
    }


# --- tiers ----------------------------------------------------------------------------------------------------------


def decided(one: Subject, now_s: float = NOON_S) -> Verdict | None:
    return tiered(one, now_s)


def went(one: Subject, now_s: float = NOON_S) -> Tier | None:
    """The tier that the memory is moved to; None when it stays or goes to the archive."""
    verdict = decided(one, now_s)
    return verdict.to if isinstance(verdict, Promote | Demote) else None


@pytest.mark.requirement("ARG-016", "ARG-017", "ARG-018", "ARG-023")
@pytest.mark.parametrize(
    ("to", "facet"),
    [
        (None, {"accesses": 4}),
        (Tier.MEDIUM, {"accesses": 5}),
        (None, {"accesses": 11, "accesses_at_move": 7, "moved_at": NOON_S - DAY_S}),
        (Tier.MEDIUM, {"accesses": 12, "accesses_at_move": 7, "moved_at": NOON_S - DAY_S}),
        (None, {"surprise": 0.599, "surprises": 1}),
        (Tier.MEDIUM, {"surprise": 0.6, "surprises": 1}),
        (None, {"surprise": 0.99, "surprises": 4, "surprises_at_move": 4, "moved_at": NOON_S - DAY_S}),
        (None, {"successes": 3, "successes_at_move": 2}),
        (Tier.MEDIUM, {"successes": 4, "successes_at_move": 2}),
    ],
)
def test_uses_a_surprise_or_successes_since_the_last_move_lift_a_memory(to: Tier | None, facet: dict[str, Any]) -> None:
    assert went(placed(0.5, Tier.SLOW, **facet)) == to


@pytest.mark.requirement("ARG-019")
def test_the_thresholds_are_those_of_the_rules() -> None:
    lenient = replace(SEEDS_TIERS, promotion_accesses=1, surprise_threshold=0.1, success_references=1)
    for one in (
        placed(0.5, Tier.SLOW, accesses=1),
        placed(0.5, Tier.SLOW, surprise=0.1, surprises=1),
        placed(0.5, Tier.SLOW, successes=1),
    ):
        assert isinstance(tiered(one, NOON_S, lenient), Promote)
        assert tiered(one, NOON_S) is None


@pytest.mark.requirement("ARG-021")
@pytest.mark.parametrize("tier", [Tier.FAST, Tier.MEDIUM])
@pytest.mark.parametrize("since", ["written", "used", "reinforced"])
def test_a_memory_that_is_idle_for_longer_than_its_tier_allows_steps_down(tier: Tier, since: str) -> None:
    rested = {
        "written": placed(1.0, tier),
        "used": placed(1.0, tier, age_s=9 * DAY_S, used_s=NOON_S, reinforced_at=NOON_S - SEEDS_TTL_S[tier]),
        "reinforced": placed(1.0, tier, age_s=9 * DAY_S, used_s=NOON_S - DAY_S, reinforced_at=NOON_S),
    }[since]
    assert went(rested, NOON_S + SEEDS_TTL_S[tier]) is None
    assert went(rested, NOON_S + SEEDS_TTL_S[tier] + 1) == below(tier)


@pytest.mark.requirement("ARG-022")
def test_a_memory_in_use_steps_down_once_its_importance_has_faded_below_its_tier() -> None:
    golden_s = 10.195500086538743 * MINUTE_S
    for after_s, to in [(golden_s - 1, None), (golden_s + 1, Tier.MEDIUM)]:
        now_s = NOON_S + after_s
        assert went(placed(0.9, Tier.FAST, used_s=now_s), now_s) == to


@pytest.mark.requirement("ARG-022")
@pytest.mark.parametrize(("tier", "significance"), [(Tier.FAST, 0.8), (Tier.MEDIUM, 0.5), (Tier.SLOW, 0.3)])
def test_a_memory_exactly_at_the_threshold_has_the_time_of_its_tier(tier: Tier, significance: float) -> None:
    ttl_s = SEEDS_TTL_S[tier]
    for after_s, to in [(0.0, None), (ttl_s, None), (ttl_s + 1, below(tier))]:
        now_s = NOON_S + after_s
        assert went(placed(significance, tier, used_s=now_s), now_s) == to


@pytest.mark.requirement("ARG-022")
def test_a_reinforcement_lets_importance_fade_anew() -> None:
    now_s = NOON_S + 3 * DAY_S
    faded = placed(0.5, Tier.MEDIUM, used_s=now_s)
    reminded = replace(faded, placement=reinforced(placement_of(faded), now_s))
    elsewhere = replace(faded, strength=faded.strength.reinforce(now_s))
    assert [went(one, now_s) for one in (faded, reminded, elsewhere)] == [Tier.SLOW, None, None]


@pytest.mark.requirement("ARG-035")
def test_what_has_faded_below_the_entry_becomes_glacial() -> None:
    """0.4 is 0.3 after 69.7 hours in SLOW."""
    assert [went(placed(0.4, Tier.SLOW, age_s=hours * HOUR_S)) for hours in (69, 70)] == [None, Tier.GLACIAL]
    configs = {**SEEDS_TIERS.configs, Tier.SLOW: replace(SEEDS_TIERS.configs[Tier.SLOW], importance_threshold=0.35)}
    early = replace(SEEDS_TIERS, configs=configs)
    assert isinstance(tiered(placed(0.4, Tier.SLOW, age_s=50 * HOUR_S), NOON_S, early), Demote)


@pytest.mark.requirement("ARG-020")
def test_a_glacial_memory_does_not_leave_for_its_importance_but_for_its_idleness() -> None:
    now_s = NOON_S + 7 * DAY_S
    one = placed(0.0, Tier.GLACIAL, age_s=300 * DAY_S, moved_at=NOON_S)
    assert decided(one, now_s) is None
    verdict = decided(one, now_s + 1)
    assert isinstance(verdict, Archive)
    assert verdict.reason == "idle for longer than the glacial tier allows"
    assert verdict.figures == {"importance": 0.0, "idle_s": 7 * DAY_S + 1}


@pytest.mark.parametrize(("significance", "pinned"), [(0.8, False), (0.1, True)])
def test_a_protected_memory_moves_between_tiers_and_is_not_archived(significance: float, pinned: bool) -> None:
    old = replace(placed(significance, Tier.GLACIAL, age_s=300 * DAY_S), pinned=pinned)
    assert decided(old) is None
    assert went(replace(old, placement=Placement(Tier.FAST))) is Tier.MEDIUM


def test_a_working_memory_ends_by_itself_and_leaves_the_last_tier_for_no_archive() -> None:
    idle = placed(0.1, Tier.GLACIAL, age_s=300 * DAY_S)
    assert isinstance(decided(idle), Archive)
    assert decided(replace(idle, memory=replace(idle.memory, type=MemoryType.WORKING))) is None


@pytest.mark.requirement("ARG-023")
def test_merit_holds_a_faded_memory_in_fast_until_it_is_idle() -> None:
    for used_s, to in [(NOON_S - MINUTE_S, None), (NOON_S - MINUTE_S - 1, Tier.MEDIUM)]:
        assert went(placed(0.1, Tier.FAST, age_s=DAY_S, accesses=5, used_s=used_s)) == to


@pytest.mark.requirement("ARG-023")
@pytest.mark.parametrize("jump_s", [0.0, -1.0, -5.0])
def test_a_memory_that_has_moved_stays_for_the_cooldown(jump_s: float) -> None:
    useful = placed(0.5, Tier.SLOW, accesses=9, moved_at=NOON_S)
    faded = placed(0.1, Tier.MEDIUM, age_s=300 * DAY_S, moved_at=NOON_S)
    for one, to in ((useful, Tier.MEDIUM), (faded, Tier.SLOW)):
        assert went(one, NOON_S + jump_s) is None, "nor when the clock is set back a little"
        assert [went(one, NOON_S + after_s) for after_s in (DAY_S - 1, DAY_S)] == [None, to]


@pytest.mark.requirement("ARG-023")
def test_a_memory_changes_direction_once_in_ten_days() -> None:
    turned: dict[str, Any] = {"moved_at": NOON_S - 2 * DAY_S, "turned_at": NOON_S - 2 * DAY_S}
    useful = placed(0.5, Tier.SLOW, accesses=9, rising=False, **turned)
    faded = placed(0.1, Tier.MEDIUM, age_s=300 * DAY_S, rising=True, **turned)
    for one, to in ((useful, Tier.MEDIUM), (faded, Tier.SLOW)):
        assert [went(one, NOON_S + after_s) for after_s in (8 * DAY_S - 1, 8 * DAY_S)] == [None, to]


@dataclass(frozen=True)
class Day:
    """What happens to a memory between two runs."""

    uses: int
    surprises: int
    successes: int
    until_next_s: float

    def lived(self, one: Subject, now_s: float) -> Subject:
        placement = placement_of(one)
        for _ in range(self.surprises):
            placement = surprised(placement, now_s, predicted=0.0, actual=1.0)
        for _ in range(self.successes):
            placement = succeeded(placement, now_s)
        usage = Usage(one.usage.accesses + self.uses, now_s if self.uses else one.usage.last_used)
        return replace(one, placement=placement, usage=usage)


DAYS = st.builds(
    Day, st.integers(0, 9), st.integers(0, 4), st.integers(0, 3), st.sampled_from([0.0, 1.0, HOUR_S, DAY_S, 2 * DAY_S])
)


def path(one: Subject, days: Sequence[Day]) -> list[tuple[float, Tier, Tier]]:
    """The moves that the days lead to: when, from where, and where to."""
    now_s, moves = NOON_S, []
    for day in days:
        one = day.lived(one, now_s)
        verdict = decided(one, now_s)
        if isinstance(verdict, Promote | Demote):
            moves.append((now_s, placement_of(one).tier, verdict.to))
            one = replace(one, placement=policies.moved(one, verdict, now_s, SEEDS_TIERS))
        now_s += day.until_next_s
    return moves


def is_upward(move: tuple[float, Tier, Tier]) -> bool:
    return list(Tier).index(move[2]) < list(Tier).index(move[1])


def turns(moves: Sequence[tuple[float, Tier, Tier]]) -> list[float]:
    return [two[0] for one, two in pairwise(moves) if is_upward(one) != is_upward(two)]


@pytest.mark.requirement("ARG-023", "ARG-032")
@given(st.floats(0, 1), st.sampled_from(Tier), st.lists(DAYS, max_size=40))
def test_whatever_happens_a_memory_moves_once_a_day_and_turns_once_in_ten(
    significance: float, tier: Tier, days: list[Day]
) -> None:
    moves = path(placed(significance, tier), days)
    order = list(Tier)
    assert all(abs(order.index(move[1]) - order.index(move[2])) == 1 for move in moves)
    assert all(two[0] - one[0] >= DAY_S for one, two in pairwise(moves))
    assert all(two - one >= 10 * DAY_S for one, two in pairwise(turns(moves)))


@pytest.mark.requirement("ARG-028", "ARG-017")
def test_three_perfect_surprises_lead_to_a_promotion() -> None:
    one, tiers = placed(0.5, Tier.SLOW), []
    for number in range(3):
        placement = surprised(placement_of(one), NOON_S + number, predicted=0.0, actual=1.0)
        one = replace(one, placement=placement)
        tiers.append(went(one, NOON_S + number))
    assert tiers == [None, None, Tier.MEDIUM]
