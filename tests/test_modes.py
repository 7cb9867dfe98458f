"""Modes: the design document's values, and which mode a question asks for."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.models import RetrievalMode
from kingly_memory.retrieval.modes import MODES, Figures, ModeConfig, inferred
from tests.cli_runner import ROOT

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
    assert Figures._fields == ("similarity", "recency", "success", "confidence")


@pytest.mark.requirement("ALM-002")
def test_a_mode_says_nothing_special_unless_told() -> None:
    config = ModeConfig(1, 0.5, Figures(1, 0, 0, 0), include_anti_patterns=True, diversity_factor=0.1)
    assert (config.prioritize_failures, config.cluster_similar, config.exact_match_boost) == (False, False, 1.0)


@pytest.mark.requirement("ALM-003", "ALM-004", "ALM-005", "ALM-006", "ALM-007")
def test_modes_have_the_values_of_the_design() -> None:
    assert {mode: MODES[mode] for mode in RetrievalMode if mode is not RetrievalMode.SIMILARITY} == {
        BROAD: ModeConfig(15, 0.3, Figures(0.7, 0.1, 0.1, 0.1), False, 0.8),
        PRECISE: ModeConfig(5, 0.7, Figures(0.3, 0.1, 0.4, 0.2), True, 0.2, exact_match_boost=2.0),
        DIAGNOSTIC: ModeConfig(10, 0.4, Figures(0.4, 0.3, 0.0, 0.3), True, 0.5, prioritize_failures=True),
        LEARNING: ModeConfig(20, 0.2, Figures(0.9, 0.0, 0.05, 0.05), True, 0.3, cluster_similar=True),
        RECALL: ModeConfig(3, 0.5, Figures(0.95, 0.0, 0.0, 0.05), False, 0.0, exact_match_boost=3.0),
    }


@pytest.mark.requirement("ALM-008")
@pytest.mark.parametrize("mode", RetrievalMode)
def test_weights_add_up_to_one(mode: RetrievalMode) -> None:
    assert sum(MODES[mode].weights) == pytest.approx(1)


@pytest.mark.requirement("ALM-009", "ALM-010", "ALM-011", "ALM-012")
@pytest.mark.parametrize(("mode", "term"), [(mode, term) for mode, terms in SEEDS_TERMS.items() for term in terms])
def test_every_term_of_the_design_points_to_its_mode(mode: RetrievalMode, term: str) -> None:
    assert inferred(f"Tell me: {term.capitalize()} the release") == (mode, term)


@pytest.mark.requirement("ALM-009", "ALM-010", "ALM-011", "ALM-012")
@pytest.mark.parametrize("question", EVERYDAY)
def test_everyday_questions_point_to_a_mode_by_the_words_that_decide(question: str) -> None:
    assert inferred(question) == EVERYDAY[question]


@pytest.mark.requirement("ALM-013")
@pytest.mark.parametrize("question", [*ONLY_LOOK_ALIKE, "", "?!", "deploy the api", "ways", "what"])
def test_a_question_without_such_words_is_precise(question: str) -> None:
    assert inferred(question) == (PRECISE, None)


def test_what_a_question_without_such_words_means_can_be_chosen() -> None:
    assert inferred("deploy the api", BROAD) == (BROAD, None)
    assert inferred("fix the api", BROAD).mode is DIAGNOSTIC


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
    weights = "".join(f" {weight:.2f} |" if weight else " |" for weight in config.weights)
    assert any(line.startswith(f"| `{mode}` |") and cells(bars) in line for line in LINES)
    assert f"| `{mode}` |{weights}" in LINES


@pytest.mark.parametrize(("mode", "term"), [(mode, term) for mode, terms in SEEDS_TERMS.items() for term in terms])
def test_the_page_lists_the_words_that_ask_for_a_mode(mode: RetrievalMode, term: str) -> None:
    assert any(line.startswith(f"| `{mode}` |") and term in line for line in LINES)
