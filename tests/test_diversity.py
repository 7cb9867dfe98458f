"""Diversity: what is picked next, and what is put into one group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.retrieval.modes import ALIKE, Alike, clusters, cosine, overlap, pick

A, B, C, D = range(4)
TWINS = {(A, B): 0.9, (A, C): 0.1, (A, D): 0.2, (B, C): 0.1, (B, D): 0.2, (C, D): 0.8}
SCORES = [1.0, 0.9, 0.6, 0.55]


def twins(one: int, other: int) -> float:
    return TWINS[min(one, other), max(one, other)]


def nothing_alike(_: int, __: int) -> float:
    return 0.0


def places(
    scores: list[float], factor: float, alike: Alike, limit: int = 9, first: frozenset[int] = frozenset()
) -> list[int]:
    return [one.place for one in pick(scores, factor, alike, limit, first=first)]


@pytest.mark.requirement("ALM-022")
def test_likeness_to_what_was_picked_costs_a_candidate_its_place() -> None:
    # After A: B 0.9 - 0.45, C 0.6 - 0.05, D 0.55 - 0.10. After C: B 0.45, D 0.55 - 0.40.
    picked = pick(SCORES, 0.5, twins, 4)
    assert [one.place for one in picked] == [A, C, B, D]
    assert [one.penalty for one in picked] == pytest.approx([0.0, 0.05, 0.45, 0.40])


@pytest.mark.requirement("ALM-022")
def test_only_what_was_picked_counts_against_a_candidate() -> None:
    # C and D are nearly the same, and neither is picked before the limit: that costs neither anything.
    assert places(SCORES, 0.5, twins, 2) == [A, C]
    assert pick([0.1, 0.0, 0.9, 0.0], 0.5, twins, 1)[0].penalty == 0


@pytest.mark.requirement("ALM-023")
def test_without_diversity_the_order_is_that_of_the_scores_and_nothing_is_compared() -> None:
    def never(_: int, __: int) -> float:
        raise AssertionError

    assert places(SCORES, 0.0, never) == [A, B, C, D]


def test_equals_stay_in_their_order() -> None:
    assert places([0.5] * 4, 0.8, nothing_alike) == [A, B, C, D]


def test_being_unlike_is_no_merit() -> None:
    assert pick([1.0, 0.5], 1.0, lambda _, __: -0.9, 2)[1].penalty == 0


@pytest.mark.requirement("ALM-024")
def test_those_who_go_first_are_still_diverse_among_themselves() -> None:
    # B, C and D go first: after B, C keeps 0.55 and D 0.45; A comes last although it has the highest score.
    assert places(SCORES, 0.5, twins, first=frozenset({B, C, D})) == [B, C, D, A]
    near = {(B, C): 0.9, (B, D): 0.0}
    assert places(
        SCORES, 0.5, lambda one, other: near.get((min(one, other), max(one, other)), 0.0), first=frozenset({B, C, D})
    ) == [B, D, C, A]


scores = st.lists(st.floats(0, 1), max_size=8)


@given(scores, st.floats(0, 1), st.integers(0, 10), st.frozensets(st.integers(0, 7)))
def test_each_candidate_is_picked_once_and_no_more_than_wanted(
    given_scores: list[float], factor: float, limit: int, first: frozenset[int]
) -> None:
    found = places(given_scores, factor, lambda one, other: 1 / (1 + abs(one - other)), limit, first)
    assert len(found) == len(set(found)) == min(limit, len(given_scores))
    assert set(found) <= set(range(len(given_scores)))


@given(scores, st.floats(0, 1))
def test_the_best_score_is_always_first(given_scores: list[float], factor: float) -> None:
    found = places(given_scores, factor, lambda one, other: 0.5)
    assert not given_scores or given_scores[found[0]] == max(given_scores)


@pytest.mark.requirement("ALM-025")
def test_what_is_alike_forms_one_group_in_the_order_of_the_first() -> None:
    assert clusters([A, C, B, D], twins) == [[A, B], [C, D]]
    assert clusters([D, C, B, A], twins) == [[D, C], [B, A]]
    assert clusters([], twins) == []


@given(st.permutations(range(6)), st.integers(1, 6))
def test_groups_hold_everything_once_and_keep_its_order(order: list[int], size: int) -> None:
    groups = clusters(order, lambda one, other: float(one // size == other // size))
    assert sorted(one for group in groups for one in group) == sorted(order)
    assert [order.index(group[0]) for group in groups] == sorted(order.index(group[0]) for group in groups)
    assert all([order.index(one) for one in group] == sorted(order.index(one) for one in group) for group in groups)


@pytest.mark.requirement("ARG-013")
def test_similarity_is_the_cosine_of_the_vectors() -> None:
    assert cosine([0.6, 0.8], [1.0, 0.0]) == pytest.approx(0.6)
    assert cosine([0.6, 0.8], [-0.6, -0.8]) == pytest.approx(-1)
    [one, again] = HashedEmbedder().embed(["the cache is stale", "the cache is stale"])
    assert cosine(one, again) == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the deploy failed because a lock timed out", "deploy failure: the lock timed out"),
        ("retry with backoff when the api answers 429", "api rate limits: back off and retry on 429"),
        ("Anna prefers tabs over spaces", "tabs, never spaces: that is what Anna prefers"),
    ],
)
def test_two_wordings_of_a_thing_are_alike_and_two_things_are_not(one: str, other: str) -> None:
    [first, second, third] = HashedEmbedder().embed([one, other, "anna's birthday is in may"])
    assert cosine(first, second) >= ALIKE > cosine(first, third)


@given(st.text(max_size=40), st.text(max_size=40))
def test_overlap_of_words_is_a_share_and_the_same_either_way(one: str, other: str) -> None:
    assert 0 <= overlap(one, other) <= 1
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one) == 1


@pytest.mark.requirement("A8")
def test_places_that_are_owed_go_to_their_owners_and_only_their_own_kind_makes_them_redundant() -> None:
    ours = frozenset({C, D})
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 2, owed=(ours, 1))] == [A, C]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 3, owed=(ours, 2))] == [A, C, D]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 2, first=frozenset({A, B}), owed=(ours, 1))] == [A, C]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 3, owed=(ours, 9))] == [A, C, D]
    alike_to_a = pick(SCORES, 0.5, lambda one, other: 0.9 * (A in (one, other)), 3, owed=(ours, 1))
    assert [(one.place, one.penalty) for one in alike_to_a] == [(A, 0.0), (C, 0.0), (D, 0.0)]
