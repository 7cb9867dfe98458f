"""Which agent or approach to give a task to, by their record on similar ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.cognition.confidence import MOST_CANDIDATES, rank
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit
from tests.cognition.task_samples import hit, relevances, statuses

NAMES = ["canary", "big bang", "blue-green"]

records = st.lists(
    st.tuples(statuses, relevances, st.sampled_from([*NAMES, "another", None]), st.sampled_from([*NAMES, None])),
    max_size=12,
)


def found(told: list[tuple[str, float, str | None, str | None]]) -> list[Hit]:
    return [
        hit(number, status, relevance, agent=agent, approach=approach)
        for number, (status, relevance, approach, agent) in enumerate(told, start=1)
    ]


def tried(approach: str, successes: int, failures: int, relevance: float = 0.8, first: int = 1) -> list[Hit]:
    statuses = ["completed"] * successes + ["failed"] * failures
    return [hit(first + number, status, relevance, approach=approach) for number, status in enumerate(statuses)]


@pytest.mark.requirement("KNG-083")
def test_candidates_are_ranked_by_their_record_on_similar_tasks() -> None:
    routing = rank(NAMES, [*tried("big bang", 1, 2, first=1), *tried("canary", 3, 0, first=11)])
    assert [(one.name, one.score, one.successes, one.failures) for one in routing.ranked] == [
        ("canary", 0.8, 3, 0),
        ("blue-green", 0.5, 0, 0),
        ("big bang", 0.4, 1, 2),
    ]
    assert routing.best == "canary"
    assert routing.ranked[0].evidence == tuple(f"{number:032x}" for number in (11, 12, 13))


@given(records, st.integers(0, 2**16))
def test_scores_are_bounded_descending_and_do_not_depend_on_the_order(
    told: list[tuple[str, float, str | None, str | None]], seed: int
) -> None:
    hits = found(told)
    routing = rank(NAMES, hits)
    scores = [one.score for one in routing.ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    assert {one.name for one in routing.ranked} == set(NAMES)
    assert rank(NAMES, Random(seed).sample(hits, len(hits))) == routing


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize(
    "candidates",
    [
        [],
        (),
        "canary",
        None,
        7,
        {"canary": 1},
        {"canary"},
        ["canary", "canary"],
        ["canary", 3],
        ["canary", None],
        ["canary", ""],
        ["two\nlines"],
        ["x" * 1_000],
        [str(number) for number in range(MOST_CANDIDATES + 1)],
    ],
)
def test_candidates_that_make_no_list_of_names_are_refused(candidates: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        rank(candidates, [])
    assert refused.value.field == "candidates"
