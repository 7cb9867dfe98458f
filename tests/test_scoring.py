"""Scores in a mode: four figures with stated formulas, their weighted sum, and the boost of exact matches."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.models import RetrievalMode
from kingly_memory.retrieval.modes import MODES, Figures, is_exact, recency, success, weighted
from tests.store_samples import NOON, memory

shares = st.floats(0, 1)


@pytest.mark.requirement("ALM-020")
@pytest.mark.parametrize(
    ("mode", "score"),
    [
        (RetrievalMode.BROAD, 0.77),  # 0.7 × 0.8 + 0.1 × 0.5 + 0.1 × 1.0 + 0.1 × 0.6
        (RetrievalMode.PRECISE, 0.81),  # 0.3 × 0.8 + 0.1 × 0.5 + 0.4 × 1.0 + 0.2 × 0.6
        (RetrievalMode.DIAGNOSTIC, 0.65),  # 0.4 × 0.8 + 0.3 × 0.5 + 0.3 × 0.6
        (RetrievalMode.LEARNING, 0.8),  # 0.9 × 0.8 + 0.05 × 1.0 + 0.05 × 0.6
        (RetrievalMode.RECALL, 0.79),  # 0.95 × 0.8 + 0.05 × 0.6
        (RetrievalMode.SIMILARITY, 0.8),
    ],
)
def test_a_score_is_the_weighted_sum_of_its_figures(mode: RetrievalMode, score: float) -> None:
    figures = Figures(similarity=0.8, recency=0.5, success=1.0, confidence=0.6)
    assert weighted(MODES[mode].weights, figures) == pytest.approx(score)


@given(shares, shares, shares, shares, st.sampled_from(list(RetrievalMode)))
def test_a_score_lies_within_0_and_1(one: float, two: float, three: float, four: float, mode: RetrievalMode) -> None:
    assert 0 <= weighted(MODES[mode].weights, Figures(one, two, three, four)) <= 1 + 1e-9


@given(shares, shares, shares, shares, shares)
def test_a_better_figure_never_makes_a_worse_score(
    better: float, worse: float, recent: float, succeeded: float, sure: float
) -> None:
    worse, better = sorted((worse, better))
    weights = Figures(0.4, 0.3, 0.2, 0.1)
    low, high = (weighted(weights, Figures(one, recent, succeeded, sure)) for one in (worse, better))
    assert low <= high


@pytest.mark.requirement("ALM-020")
@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (timedelta(0), 1.0),
        (timedelta(days=15), 0.5**0.5),
        (timedelta(days=30), 0.5),
        (timedelta(days=60), 0.25),
        (timedelta(days=-3), 1.0),
    ],
)
def test_recency_halves_every_thirty_days(age: timedelta, expected: float) -> None:
    assert recency(NOON - age, NOON) == pytest.approx(expected)


days = st.integers(-365_000, 365_000).map(lambda count: NOON + timedelta(days=count))


@given(days, days)
def test_recency_lies_within_0_and_1_and_never_grows_with_age(one: datetime, other: datetime) -> None:
    older, newer = sorted((one, other))
    assert 0 <= recency(older, NOON) <= recency(newer, NOON) <= 1


@pytest.mark.requirement("ALM-020")
@pytest.mark.parametrize(
    ("succeeded", "rate", "expected"),
    [
        (True, None, 1.0),
        (False, 0.9, 0.0),
        (None, None, 0.5),
        (None, 0.8, 0.8),
        (None, 0, 0.0),
        (None, 1.5, 0.5),
        (None, -1, 0.5),
        (None, float("nan"), 0.5),
        (None, True, 0.5),
        (None, "0.8", 0.5),
    ],
)
def test_success_comes_from_what_was_recorded_and_is_neutral_without(
    succeeded: bool | None, rate: object, expected: float
) -> None:
    assert success(succeeded, rate) == expected


@pytest.mark.requirement("ALM-021")
@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("Deploys need two reviews.", True),
        ("two  REVIEWS", True),
        ("two review", False),
        ("reviews need two", False),
        ("use the release rule", True),
        ("what was the Release Rule again", True),
        ("release", True),
        ("rule-7", True),
        ("", False),
        ("?", False),
        ("the planet", False),
    ],
)
def test_an_exact_match_holds_the_question_or_is_named_by_it(query: str, exact: bool) -> None:
    noted = memory("Deploys need two reviews", key="rule-7", title="Release rule")
    assert is_exact(query, noted) is exact


@pytest.mark.requirement("ALM-021")
def test_texts_whose_vectors_are_nearly_the_same_match_exactly() -> None:
    noted = memory("Deploys need two reviews")
    assert is_exact("a deploy needs two reviews", noted, cosine=0.96)
    assert not is_exact("a deploy needs two reviews", noted, cosine=0.95)
