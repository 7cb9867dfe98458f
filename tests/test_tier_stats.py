"""How the tiers are doing: an hour that really is one, a hit rate that divides by nothing, JSON throughout."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle.tier_stats import BUCKET_S, Activity, Tally, memory_stats
from kingly_memory.models import Tier
from tests.tier_samples import DAY_S, HOUR_S, NOON_S

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


@pytest.mark.requirement("ARG-058")
def test_keys_are_plain_texts() -> None:
    assert {type(key) for key in memory_stats({}, 0.0, Activity(), NOON_S)["tier_counts"]} == {str}


@pytest.mark.requirement("ARG-057")
def test_a_move_counts_for_exactly_one_hour() -> None:
    activity = Activity().moved(NOON_S, promotions=1)
    seen = [
        memory_stats({}, 0.0, activity, NOON_S + after_s)["promotions_last_hour"]
        for after_s in (0.0, HOUR_S - 0.001, HOUR_S, DAY_S)
    ]
    assert seen == [1, 1, 0, 0]


@pytest.mark.requirement("ARG-057")
def test_the_hour_slides() -> None:
    tally = Tally()
    for quarter in range(9):
        tally = tally.add(NOON_S + quarter * HOUR_S / 4, quarter + 1)
    last_s = NOON_S + 2 * HOUR_S
    assert [tally.last_hour(last_s + quarter * HOUR_S / 4) for quarter in range(5)] == [30, 24, 17, 9, 0]


@pytest.mark.requirement("ARG-057")
@given(TIMES)
def test_the_hour_leaves_out_nothing_but_what_is_about_to_leave(events: list[tuple[float, int]]) -> None:
    tally, now_s = Tally(), 0.0
    for at_s, count in sorted(events):
        tally, now_s = tally.add(at_s, count), at_s
    within = sum(count for at_s, count in events if now_s - at_s < HOUR_S)
    surely = sum(count for at_s, count in events if now_s - at_s < HOUR_S - BUCKET_S)
    assert surely <= tally.last_hour(now_s) <= within


@given(st.lists(st.floats(-1e9, 1e9), max_size=60))
def test_a_tally_is_ascending_and_bounded_whatever_the_clock_does(times: list[float]) -> None:
    tally = Tally()
    for at_s in times:
        tally = tally.add(at_s)
        assert tally.last_hour(at_s) >= 1
    moments = [at for at, _ in tally.entries]
    assert all(two - one >= BUCKET_S for one, two in pairwise(moments))


def test_a_busy_day_leaves_an_hour_of_entries() -> None:
    tally = Tally()
    for second in range(3 * int(HOUR_S)):
        tally = tally.add(NOON_S + second)
    assert len(tally.entries) <= 361
    assert HOUR_S - BUCKET_S <= tally.last_hour(NOON_S + 3 * HOUR_S - 1) <= HOUR_S


def test_events_that_were_none_are_not_kept() -> None:
    assert Tally().add(NOON_S, 0) == Tally()
    assert Activity().moved(NOON_S) == Activity()


def test_a_clock_set_back_by_a_day_does_not_stop_the_counting() -> None:
    tally = Tally().add(NOON_S + DAY_S, 7).add(NOON_S, 1)
    assert tally.last_hour(NOON_S) == 1
    assert len(tally.entries) == 1


@pytest.mark.requirement("ARG-058")
@given(TIMES, st.integers(0, 9), st.integers(0, 9))
def test_an_activity_survives_json(events: list[tuple[float, int]], found: int, missed: int) -> None:
    activity = Activity().looked_up(found=found, missed=missed)
    for at_s, count in events:
        activity = activity.moved(at_s, promotions=1, demotions=count)
    assert Activity.from_json(json.loads(json.dumps(activity.to_json()))) == activity
    assert 0 <= activity.hit_rate <= 1


@pytest.mark.parametrize(
    "wrong", [{"found": "many"}, {"missed": None}, {"promotions": [[NOON_S]]}, {"demotions": [["noon", 1]]}]
)
def test_a_facet_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Activity.from_json({**Activity().to_json(), **wrong})
