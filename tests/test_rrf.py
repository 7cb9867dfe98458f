"""Reciprocal rank fusion: two rankings become one, and none of their candidates is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.retrieval.fusion import rrf


@pytest.mark.requirement("ARG-046")
def test_first_in_both_lists_has_the_score_of_the_design() -> None:
    [(found, score)] = rrf(["a"], ["a"])
    assert found == "a"
    assert score == pytest.approx(0.016393442622950817)


@pytest.mark.requirement("ARG-046")
def test_ranks_are_weighed_six_to_four() -> None:
    found = rrf(["a", "b"], ["c", "b"])
    assert [name for name, _ in found] == ["b", "a", "c"]
    assert [score for _, score in found] == pytest.approx([0.6 / 62 + 0.4 / 62, 0.6 / 61, 0.4 / 61])


@pytest.mark.requirement("ARG-047")
def test_an_exact_term_that_vectors_miss_is_found() -> None:
    by_meaning = ["contract renewal", "uptime promise", "support hours"]
    assert "SLA breach of march" in dict(rrf(by_meaning, ["SLA breach of march"]))
    (best, _), *_ = rrf(by_meaning, ["SLA breach of march", "uptime promise"])
    assert best == "uptime promise"


def test_of_a_candidate_that_stands_in_a_list_twice_the_better_rank_counts() -> None:
    assert rrf(["a", "b", "a"], []) == rrf(["a", "b"], [])


rankings = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(rankings, rankings)
def test_nothing_is_lost_and_the_order_is_that_of_the_scores(vectors: list[str], keywords: list[str]) -> None:
    found = rrf(vectors, keywords)
    assert {name for name, _ in found} == {*vectors, *keywords}
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@given(rankings, rankings)
def test_a_better_rank_never_hurts(vectors: list[str], keywords: list[str]) -> None:
    if vectors:
        last = vectors[-1]
        assert dict(rrf([last, *vectors[:-1]], keywords))[last] >= dict(rrf(vectors, keywords))[last]
