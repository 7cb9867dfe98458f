"""How the tiers are doing: an hour that really is one, a hit rate that divides by nothing, JSON throughout."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.models import Tier
from kingly_memory.router.activity import Activity, last_hour, memory_stats
from tests.lifecycle.samples import DAY_S, HOUR_S, NOON_S

TIMES = st.lists(st.tuples(st.floats(0, 3 * HOUR_S), st.integers(1, 9)), max_size=60)


@pytest.mark.requirement("ARG-056", "ARG-058")
def test_before_anything_has_happened_everything_is_zero() -> None:
    stats = memory_stats({}, 0.0, Activity(), NOON_S)
    assert json.loads(json.dumps(stats)) == {
        "tier_counts": {"fast": 0, "medium": 0, "slow": 0, "glacial": 0},
        "promotions_last_hour": 0,
        "demotions_last_hour": 0,
        "hit_rate": 0.0,
        "avg_surprise_score": 0.0,
    }


@pytest.mark.requirement("ARG-056")
def test_the_stats_say_how_full_how_busy_and_how_surprising_the_tiers_are() -> None:
    activity = Activity().moved(NOON_S, promotions=1, demotions=2).looked_up(found=3, missed=1)
    counts = {Tier.FAST: 1, Tier.SLOW: 2}
    assert memory_stats(counts, 0.9, activity, NOON_S) == {
        "tier_counts": {"fast": 1, "medium": 0, "slow": 2, "glacial": 0},
        "promotions_last_hour": 1,
        "demotions_last_hour": 2,
        "hit_rate": 0.75,
        "avg_surprise_score": pytest.approx(0.3),
    }


@pytest.mark.requirement("ARG-057")
def test_a_move_counts_for_exactly_one_hour() -> None:
    activity = Activity().moved(NOON_S, promotions=1)
    seen = [
        memory_stats({}, 0.0, activity, NOON_S + after_s)["promotions_last_hour"]
        for after_s in (0.0, HOUR_S - 0.001, HOUR_S, DAY_S)
    ]
    assert seen == [1, 1, 0, 0]


@pytest.mark.requirement("ARG-057")
@given(TIMES)
def test_the_hour_leaves_nothing_out(events: list[tuple[float, int]]) -> None:
    activity, now_s = Activity(), 0.0
    for at_s, count in sorted(events):
        activity, now_s = activity.moved(at_s, demotions=count), at_s
    assert last_hour(activity.demotions, now_s) == sum(count for at_s, count in events if now_s - at_s < HOUR_S)


@pytest.mark.requirement("ARG-058")
@given(TIMES, st.integers(0, 9), st.integers(0, 9))
def test_an_activity_survives_json(events: list[tuple[float, int]], found: int, missed: int) -> None:
    activity = Activity().looked_up(found=found, missed=missed)
    for at_s, count in events:
        activity = activity.moved(at_s, promotions=1, demotions=count)
    assert Activity.from_json(json.loads(json.dumps(activity.to_json()))) == activity
    assert 0 <= activity.hit_rate <= 1
