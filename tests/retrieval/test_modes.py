"""Modes: their values, the mode of a question, scores, diversity, and what a mode selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.models import Hit, Results, RetrievalMode, Source
from kingly_memory.retrieval.modes import (
    MODES,
    Alike,
    ModeCandidate,
    ModeConfig,
    clusters,
    cosine,
    inferred,
    is_exact,
    pick,
    recency,
    select,
    success,
    weighted,
    weights,
)
from tests.cli_runner import ROOT
from tests.store_samples import NOON, memory

LINES = (ROOT / "docs" / "search.md").read_text(encoding="utf-8").splitlines()


BROAD, PRECISE, DIAGNOSTIC = RetrievalMode.BROAD, RetrievalMode.PRECISE, RetrievalMode.DIAGNOSTIC


LEARNING, RECALL = RetrievalMode.LEARNING, RetrievalMode.RECALL


SEEDS_TERMS = {
    DIAGNOSTIC: ("error", "bug", "fail", "broken", "issue", "problem", "debug", "fix", "wrong"),
    BROAD: ("how should", "what approach", "options for", "ways to", "plan", "design", "architect"),
    RECALL: ("what was", "when did", "remember when", "last time", "previously"),
    LEARNING: ("pattern", "similar", "consolidate", "common", "recurring"),
}


EVERYDAY = {
    "The login is failing again": (DIAGNOSTIC, "failing"),
    "FAILED builds": (DIAGNOSTIC, "failed"),
    "what caused the failure": (DIAGNOSTIC, "failure"),
    "errors in the log": (DIAGNOSTIC, "errors"),
    "the importer is buggy": (DIAGNOSTIC, "buggy"),
    "who is debugging this": (DIAGNOSTIC, "debugging"),
    "known issues": (DIAGNOSTIC, "issues"),
    "search is not working": (DIAGNOSTIC, "not working"),
    "search doesn't work": (DIAGNOSTIC, "doesn t work"),
    "search doesn’t work": (DIAGNOSTIC, "doesn t work"),
    "the worker crashes": (DIAGNOSTIC, "crashes"),
    "planning the release": (BROAD, "planning"),
    "plans of the team": (BROAD, "plans"),
    "our architecture": (BROAD, "architecture"),
    "what approaches are there": (BROAD, "what approaches"),
    "brainstorm names": (BROAD, "brainstorm"),
    "what did we decide on caching": (RECALL, "what did we"),
    "common patterns in reviews": (LEARNING, "common"),
    "what have we learned from outages": (LEARNING, "what have we learned"),
    "similarities between both": (LEARNING, "similarities"),
    "consolidating notes": (LEARNING, "consolidating"),
}


ONLY_LOOK_ALIKE = (
    "add a prefix",
    "explain the planet",
    "book a plane",
    "order tissue paper",
    "always to the left",
    "debit the account",
    "the fixture of the lamp",
    "uncommonness",
    "designate a reviewer",
    "dissimilar",
    "terror",
)


@pytest.mark.requirement("ALM-001")
def test_there_are_the_five_modes_of_the_design_and_the_plain_one() -> None:
    assert list(RetrievalMode) == ["similarity", "broad", "precise", "diagnostic", "learning", "recall"]


@pytest.mark.requirement("ALM-002")
def test_a_mode_has_the_fields_of_the_design() -> None:
    assert [one.name for one in fields(ModeConfig)] == [
        "top_k",
        "min_confidence",
        "weights",
        "include_anti_patterns",
        "diversity_factor",
        "prioritize_failures",
        "cluster_similar",
        "exact_match_boost",
    ]
    assert list(MODES[BROAD].weights) == ["similarity", "recency", "success", "confidence"]


@pytest.mark.requirement("ALM-003", "ALM-004", "ALM-005", "ALM-006", "ALM-007")
def test_modes_have_the_values_of_the_design() -> None:
    assert {mode: MODES[mode] for mode in RetrievalMode if mode is not RetrievalMode.SIMILARITY} == {
        BROAD: ModeConfig(15, 0.3, weights(0.7, 0.1, 0.1, 0.1), False, 0.8),
        PRECISE: ModeConfig(5, 0.7, weights(0.3, 0.1, 0.4, 0.2), True, 0.2, exact_match_boost=2.0),
        DIAGNOSTIC: ModeConfig(10, 0.4, weights(0.4, 0.3, 0.0, 0.3), True, 0.5, prioritize_failures=True),
        LEARNING: ModeConfig(20, 0.2, weights(0.9, 0.0, 0.05, 0.05), True, 0.3, cluster_similar=True),
        RECALL: ModeConfig(3, 0.5, weights(0.95, 0.0, 0.0, 0.05), False, 0.0, exact_match_boost=3.0),
    }


@pytest.mark.requirement("ALM-008")
@pytest.mark.parametrize("mode", RetrievalMode)
def test_weights_add_up_to_one(mode: RetrievalMode) -> None:
    assert sum(MODES[mode].weights.values()) == pytest.approx(1)


@pytest.mark.requirement("ALM-009", "ALM-010", "ALM-011", "ALM-012")
@pytest.mark.parametrize(("mode", "term"), [(mode, term) for mode, terms in SEEDS_TERMS.items() for term in terms])
def test_every_term_of_the_design_points_to_its_mode(mode: RetrievalMode, term: str) -> None:
    assert inferred(f"Tell me: {term.capitalize()} the release") == (mode, term)


@pytest.mark.requirement("ALM-084")
def test_mode_inference_diagnostic() -> None:
    assert inferred("Why is the login failing?") == (DIAGNOSTIC, "failing")


@pytest.mark.requirement("ALM-009", "ALM-010", "ALM-011", "ALM-012")
@pytest.mark.parametrize("question", EVERYDAY)
def test_everyday_questions_point_to_a_mode_by_the_words_that_decide(question: str) -> None:
    assert inferred(question) == EVERYDAY[question]


@pytest.mark.requirement("ALM-013")
@pytest.mark.parametrize("question", [*ONLY_LOOK_ALIKE, "", "?!", "deploy the api", "ways", "what"])
def test_a_question_without_such_words_is_precise(question: str) -> None:
    assert inferred(question) == (PRECISE, None)


@pytest.mark.requirement("ALM-014")
@pytest.mark.parametrize(
    ("question", "mode"),
    [
        ("Plan to fix the error", DIAGNOSTIC),
        ("when did the common error appear", DIAGNOSTIC),
        ("design what was a common pattern", BROAD),
        ("what was the common pattern last time", RECALL),
    ],
)
def test_one_mode_goes_before_another(question: str, mode: RetrievalMode) -> None:
    assert inferred(question).mode is mode


@given(st.text(max_size=80))
def test_any_text_has_a_mode_and_the_words_that_decided_stand_in_it(question: str) -> None:
    mode, decided_by = inferred(question)
    assert (decided_by is None) == (mode is PRECISE)
    if decided_by is not None:
        assert all(word in question.casefold() for word in decided_by.split())


def cells(values: tuple[object, ...]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


@pytest.mark.parametrize("mode", RetrievalMode)
def test_the_page_shows_the_values_of_each_mode(mode: RetrievalMode) -> None:
    config = MODES[mode]
    there = "yes" if config.include_anti_patterns else "no"
    bars = (config.top_k, f"{config.min_confidence:g}", there, f"{config.diversity_factor:g}")
    row = "".join(f" {weight:.2f} |" if weight else " |" for weight in config.weights.values())
    assert any(line.startswith(f"| `{mode}` |") and cells(bars) in line for line in LINES)
    assert f"| `{mode}` |{row}" in LINES


@pytest.mark.parametrize(("mode", "term"), [(mode, term) for mode, terms in SEEDS_TERMS.items() for term in terms])
def test_the_page_lists_the_words_that_ask_for_a_mode(mode: RetrievalMode, term: str) -> None:
    assert any(line.startswith(f"| `{mode}` |") and term in line for line in LINES)


# --- scores -----------------------------------------------------------------------------------------------------------


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
    figures = weights(similarity=0.8, recency=0.5, success=1.0, confidence=0.6)
    assert weighted(MODES[mode].weights, figures) == pytest.approx(score)


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


# --- saying different things ------------------------------------------------------------------------------------------


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


@pytest.mark.requirement("ALM-024")
def test_those_who_go_first_are_still_diverse_among_themselves() -> None:
    # B, C and D go first: after B, C keeps 0.55 and D 0.45; A comes last although it has the highest score.
    assert places(SCORES, 0.5, twins, first=frozenset({B, C, D})) == [B, C, D, A]
    near = {(B, C): 0.9, (B, D): 0.0}
    assert places(
        SCORES, 0.5, lambda one, other: near.get((min(one, other), max(one, other)), 0.0), first=frozenset({B, C, D})
    ) == [B, D, C, A]


@pytest.mark.requirement("ALM-025")
def test_what_is_alike_forms_one_group_in_the_order_of_the_first() -> None:
    assert clusters([A, C, B, D], twins) == [[A, B], [C, D]]
    assert clusters([D, C, B, A], twins) == [[D, C], [B, A]]
    assert clusters([], twins) == []


@pytest.mark.requirement("ARG-013")
def test_similarity_is_the_cosine_of_the_vectors() -> None:
    assert cosine([0.6, 0.8], [1.0, 0.0]) == pytest.approx(0.6)
    assert cosine([0.6, 0.8], [-0.6, -0.8]) == pytest.approx(-1)
    [one, again] = HashedEmbedder().embed(["the cache is stale", "the cache is stale"])
    assert cosine(one, again) == pytest.approx(1)


@pytest.mark.requirement("A8")
def test_places_that_are_owed_go_to_their_owners_and_only_their_own_kind_makes_them_redundant() -> None:
    ours = frozenset({C, D})
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 2, owed=(ours, 1))] == [A, C]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 3, owed=(ours, 2))] == [A, C, D]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 2, first=frozenset({A, B}), owed=(ours, 1))] == [A, C]
    assert [one.place for one in pick(SCORES, 0.0, nothing_alike, 3, owed=(ours, 9))] == [A, C, D]
    alike_to_a = pick(SCORES, 0.5, lambda one, other: 0.9 * (A in (one, other)), 3, owed=(ours, 1))
    assert [(one.place, one.penalty) for one in alike_to_a] == [(A, 0.0), (C, 0.0), (D, 0.0)]


# --- what a mode selects ----------------------------------------------------------------------------------------------


# --- the selection --------------------------------------------------------------------------------------------------
def candidate(content: str = "a note", relevance: float = 0.5, **known: Any) -> ModeCandidate:
    """A hit of the words; `confidence` is the memory's."""
    noted = memory(content, confidence=known.pop("confidence", 0.9))
    return ModeCandidate(Hit(noted, relevance, ("local",), {"bm25": 1.0}), known.pop("success", 0.5), **known)


def selected(candidates: Sequence[ModeCandidate], config: ModeConfig, query: str = "else", **how: Any) -> Results:
    found = Results((), Source.LOCAL, took_ms=0.0, layers={})
    return select(found, candidates, config, query=query, now=NOON, **{"alike": nothing_alike, **how})


def contents(found: Results) -> list[str]:
    return [hit.memory.content for hit in found.hits]


def plain(**changes: Any) -> ModeConfig:
    return ModeConfig(
        **{
            "top_k": 5,
            "min_confidence": 0.0,
            "weights": weights(1.0, 0.0, 0.0, 0.0),
            "include_anti_patterns": True,
            "diversity_factor": 0.0,
            **changes,
        }
    )


@pytest.mark.requirement("ALM-020", "ALM-021")
def test_a_hit_carries_the_figures_of_its_score_boosted_and_not() -> None:
    one = candidate("deploy on friday", 0.8, success=1.0, confidence=0.75)
    [hit] = selected([one], MODES[RetrievalMode.PRECISE], "deploy on friday").hits
    assert hit.scores["score"] == pytest.approx(0.3 * 0.8 + 0.1 * 1.0 + 0.4 * 1.0 + 0.2 * 0.75)
    assert hit.scores["boosted"] == pytest.approx(2 * hit.scores["score"])
    assert (hit.relevance, hit.scores["success"], hit.scores["recency"]) == (0.8, 1.0, 1.0)


@pytest.mark.requirement("ALM-021")
def test_an_exact_match_overtakes_what_answers_better_in_words_alone() -> None:
    found = [candidate("friday is a bad day", 0.9), candidate("deploy on friday", 0.5)]
    assert contents(selected(found, plain(exact_match_boost=2.0), "deploy on friday"))[0] == "deploy on friday"
    assert contents(selected(found, plain(), "deploy on friday"))[0] == "friday is a bad day"


@pytest.mark.requirement("ALM-018")
@pytest.mark.parametrize(
    ("mode", "there"), [(mode, mode not in ("broad", "recall")) for mode in RetrievalMode], ids=str
)
def test_anti_patterns_are_candidates_or_not_by_mode(mode: RetrievalMode, there: bool) -> None:
    found = selected([candidate("a warning", is_anti_pattern=True), candidate("a way")], MODES[mode])
    assert ("a warning" in contents(found)) is there
    assert found.excluded == ({} if there else {"anti_pattern": 1})


@pytest.mark.requirement("ALM-019")
def test_memories_that_are_not_sure_enough_are_counted_and_left_out() -> None:
    found = selected(
        [candidate("sure", confidence=0.7), candidate("unsure", confidence=0.69), candidate("a guess", confidence=0.1)],
        plain(min_confidence=0.7),
    )
    assert contents(found) == ["sure"]
    assert found.excluded == {"low_confidence": 2}


@pytest.mark.requirement("ALM-026")
def test_at_most_top_k_are_selected_and_the_rest_is_counted() -> None:
    found = selected([candidate(str(number), number / 10) for number in range(9)], plain(top_k=4))
    assert contents(found) == ["8", "7", "6", "5"]
    assert found.excluded == {"beyond_top_k": 5}


@pytest.mark.requirement("ALM-024")
def test_failures_that_answer_go_first_and_stay_diverse() -> None:
    found = [
        candidate("a good way", 1.0),
        candidate("lock timed out", 0.8, is_failure=True),
        candidate("the lock timed out", 0.79, is_failure=True),
        candidate("disk was full", 0.6, is_failure=True),
        candidate("only shares a word", 0.4, is_failure=True),
    ]

    def locks(one: int, other: int) -> float:
        return 0.9 if {one, other} == {1, 2} else 0.0

    config = plain(prioritize_failures=True, diversity_factor=0.5)
    assert contents(selected(found, config, alike=locks)) == [
        "lock timed out",
        "disk was full",
        "the lock timed out",
        "a good way",
        "only shares a word",
    ]
    assert contents(selected(found, plain(diversity_factor=0.5), alike=locks))[0] == "a good way"


@pytest.mark.requirement("ALM-025")
def test_learning_puts_what_is_alike_side_by_side_and_numbers_it() -> None:
    found = [candidate(name, 0.9 - place / 100) for place, name in enumerate(("a1", "b1", "a2", "b2", "c"))]

    def by_letter(one: int, other: int) -> float:
        return float(contents_of[one][0] == contents_of[other][0])

    contents_of = [one.hit.memory.content for one in found]
    learnt = selected(found, MODES[RetrievalMode.LEARNING], alike=by_letter)
    assert contents(learnt) == ["a1", "a2", "b1", "b2", "c"]
    assert [learnt.clusters[hit.memory.id] for hit in learnt.hits] == [1, 1, 2, 2, 3]
    assert not selected(found, MODES[RetrievalMode.BROAD], alike=by_letter).clusters


@pytest.mark.requirement("ARG-014")
def test_a_least_similarity_leaves_out_what_is_near_in_neither_words_nor_meaning() -> None:
    found = [
        candidate("has the words", cosine=0.1),
        candidate("is near", is_worded=False, relevance=0.2, cosine=0.3),
        candidate("the remote says it is near", is_worded=False, relevance=0.3, cosine=0.1),
        candidate("is neither", is_worded=False, relevance=0.2, cosine=0.1),
    ]
    assert set(contents(selected(found, plain(), min_similarity=0.3))) == {one.hit.memory.content for one in found[:3]}
    assert selected(found, plain(), min_similarity=0.3).excluded == {"low_similarity": 1}
    assert len(selected(found, plain()).hits) == 4


candidates = st.lists(
    st.builds(
        lambda relevance, sure, success, failed, warns: candidate(
            "a note", relevance, confidence=sure, success=success, is_failure=failed, is_anti_pattern=warns
        ),
        *[st.floats(0, 1)] * 3,
        *[st.booleans()] * 2,
    ),
    max_size=12,
)


@given(candidates, st.sampled_from(list(RetrievalMode)), st.text(max_size=10))
def test_every_candidate_is_either_selected_or_counted_with_a_reason(
    found: list[ModeCandidate], mode: RetrievalMode, query: str
) -> None:
    chosen = selected(found, MODES[mode], query, alike=lambda one, other: 1 / (1 + abs(one - other)))
    ids = [hit.memory.id for hit in chosen.hits]
    assert len(ids) == len(set(ids)) <= MODES[mode].top_k
    assert len(ids) + sum(chosen.excluded.values()) == len(found)
    assert set(chosen.clusters) == (set(ids) if mode is RetrievalMode.LEARNING else set())
