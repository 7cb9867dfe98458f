"""How useful threads are said to be, and what that makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.attention.ratings import FLOOR, KEPT, Rating, Ratings, relevance
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

AT = datetime(2026, 2, 1, 8, 0, tzinfo=UTC)

histories = st.lists(st.booleans(), max_size=25)


def ratings(*useful: bool) -> Ratings:
    return Ratings(tuple(map(Rating, useful)))


@pytest.mark.requirement("SMT-030")
@pytest.mark.parametrize(
    ("useful", "raw"),
    [
        ([True, False], 0.47619047619047616),
        ([False], 0.0),
        ([True] * 9 + [False], 0.8689655172413793),
        ([False] * 30 + [True] * 10, 1.0),
    ],
)
def test_the_raw_mean_is_that_of_the_seed(useful: Sequence[bool], raw: float) -> None:
    assert ratings(*useful).raw == pytest.approx(raw, abs=1e-12)


@pytest.mark.requirement("SMT-030", "SMT-031")
def test_relevance_is_the_mean_with_one_useful_rating_that_nobody_gave() -> None:
    assert relevance(Ratings()) == Ratings().raw == 1.0
    assert relevance(ratings(False)) == 0.5
    assert relevance(ratings(True, False)) == pytest.approx((1 + 1.0) / (1 + 2.1))
    assert relevance(ratings(*[False] * 10)) == FLOOR


@given(histories)
def test_relevance_stays_within_its_bounds_and_a_useful_rating_never_lowers_it(history: list[bool]) -> None:
    before = relevance(ratings(*history))
    assert FLOOR <= before <= 1
    assert relevance(ratings(*history, True)) >= before - 1e-12
    assert 0 <= ratings(*history).raw <= 1


@given(histories)
def test_every_thread_can_recover(history: list[bool]) -> None:
    assert relevance(ratings(*history, *[True] * 10)) == pytest.approx(1.0)


@pytest.mark.requirement("SMT-029")
def test_a_rating_is_kept_with_its_time_and_reason() -> None:
    said = {
        "ratings": [
            {"useful": True, "timestamp": "2026-02-01T08:00:00", "reason": None},
            {"useful": False, "timestamp": "2026-02-01T09:00:00", "reason": "outdated info"},
        ]
    }
    read = Ratings.from_json(said)
    assert read.latest == (Rating(True, AT), Rating(False, AT.replace(hour=9), "outdated info"))
    assert Ratings.from_json(read.to_json()) == read


@pytest.mark.requirement("SMT-049")
@pytest.mark.parametrize(
    "damaged",
    [
        None,
        7,
        {},
        {"ratings": None},
        {"ratings": [None, 7, {}, {"useful": "yes"}, {"useful": 1}]},
        {"ratings": {"useful": True}},
    ],
)
def test_without_ratings_a_thread_is_as_any_other(damaged: Any) -> None:
    assert relevance(Ratings.from_json(damaged)) == 1.0


def test_only_the_latest_ratings_are_kept() -> None:
    held = ratings(*[True] * KEPT)
    assert len(held.rated(Rating(False, AT, "new")).latest) == KEPT
    assert held.rated(Rating(False, AT, "new")).latest[-1].reason == "new"


# --- in a router ------------------------------------------------------------------------------------------------------


def elsewhere(store: PromptStore, clock: ManualClock) -> MemoryRouter:
    """Another project of the same home."""
    return router_over(PromptStore(store.home), None, clock, project="other")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.mark.requirement("SMT-028", "SMT-029", "SMT-033")
async def test_a_rating_says_what_it_changed(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        await memory.store("the old api", context_id="thread_old_api")
        rated = await memory.attention.rate("thread_old_api", False, "API was\nredesigned")
        assert rated.message == "Rated thread_old_api as not useful. Relevance score: 1.00 → 0.50"
        assert (rated.relevance_before, rated.relevance_score, rated.raw_score, rated.ratings) == (1.0, 0.5, 0.0, 1)
        clock.jump(3600)
        again = await memory.attention.rate("thread_old_api", True)
        assert again.message == "Rated thread_old_api as useful. Relevance score: 0.50 → 0.68"
        whose = owner("app", "thread_old_api")
        assert store.reader.facets("ratings", [whose])[whose] == {
            "ratings": [
                {"useful": False, "timestamp": "2026-02-01T08:00:00+00:00", "reason": "API was redesigned"},
                {"useful": True, "timestamp": "2026-02-01T09:00:00+00:00", "reason": None},
            ]
        }


@pytest.mark.requirement("SMT-034")
async def test_what_is_unknown_cannot_be_rated(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory, elsewhere(store, clock) as other:
        foreign = await other.store("foreign", context_id="thread_foreign")
        for name, problem in (
            ("thread_nobody", "there is no thread 'thread_nobody' in this project, and no such memory"),
            ("thread_foreign", "there is no thread 'thread_foreign' in this project"),
            (foreign.id, "there is no thread"),
            ("", "is empty"),
        ):
            with pytest.raises(InvalidInput, match=problem) as raised:
                await memory.attention.rate(name, useful=True)
            assert raised.value.field == "thread_id"
        assert store.reader.facets("ratings", [owner("app", "thread_nobody"), foreign.id]) == {}
