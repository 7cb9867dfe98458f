"""How sure to be of a task: the rule's figures, its laws, and which memories are evidence."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calibration import (
    FORECASTS,
    brier_score,
    error_at_exact_rates,
    mean_absolute_error,
)
from kingly_memory.cognition.confidence import Assessment, assess, evidence
from kingly_memory.models import Source
from tests.cognition.task_samples import Told, hits, record, similar_tasks_told, tasks_told

TASK = "deploy the api to production"
LONG = "tidy up " * 400


def assessed(successes: int, failures: int, task: str = TASK) -> Assessment:
    return assess(task, evidence(record(successes, failures)))


# --- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-032")
def test_confidence_is_one_half_when_nothing_similar_is_known() -> None:
    found = assess(TASK, evidence([]))
    assert (found.confidence, found.memory_informed, found.similar_tasks_count) == (0.5, False, 0)
    assert found.evidence == ()


@pytest.mark.requirement("KNG-033", "KNG-036")
@pytest.mark.parametrize(
    ("successes", "confidence", "gain", "penalty"),
    [(5, 0.9, 0.3, 0.0), (4, 0.78, 0.24, -0.06), (3, 0.66, 0.18, -0.12), (2, 0.44, 0.12, -0.18), (0, 0.2, 0.0, -0.3)],
)
def test_five_similar_tasks_count_in_full(successes: int, confidence: float, gain: float, penalty: float) -> None:
    found = assessed(successes, 5 - successes)
    assert found.confidence == confidence
    assert found.confidence_factors["memory_informed"] == gain
    assert found.confidence_factors["failure_penalty"] == penalty
    assert found.confidence_factors["small_sample"] == 0
    assert found.memory_informed


@pytest.mark.requirement("KNG-077")
def test_three_similar_successes_give_a_clear_boost() -> None:
    assert assessed(3, 0).confidence == 0.836


@pytest.mark.requirement("KNG-037", "KNG-040")
def test_an_assessment_as_json_has_the_seeds_names_and_more() -> None:
    found = replace(assessed(1, 0), assessment_id="a1", source=Source.HYBRID).to_json()
    assert found == {
        "confidence": 0.64,
        "confidence_factors": {
            "base": 0.5,
            "memory_informed": 0.3,
            "failure_penalty": 0.0,
            "pattern_bonus": 0.0,
            "small_sample": -0.16,
            "complexity_penalty": 0.0,
        },
        "similar_tasks_count": 1,
        "memory_informed": True,
        "evidence": [
            {"id": f"{1:032x}", "task": "deploy the api", "status": "completed", "relevance": 0.8, "weight": 1.0}
        ],
        "assessment_id": "a1",
        "source": "hybrid",
        "context": [],
    }


# --- its laws -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-037", "KNG-038")
@given(tasks_told, st.sampled_from([TASK, LONG, ""]))
def test_the_factors_add_up_to_a_confidence_from_0_to_1(told: list[Told], task: str) -> None:
    found = assess(task, evidence(hits(told)))
    assert sum(Decimal(str(share)) for share in found.confidence_factors.values()) == Decimal(str(found.confidence))
    assert 0.2 <= found.confidence <= 0.9
    assert round(found.confidence, 4) == found.confidence


@given(tasks_told, st.integers(0, 2**16))
def test_the_order_of_the_evidence_does_not_matter(told: list[Told], seed: int) -> None:
    found = hits(told)
    shuffled = Random(seed).sample(found, len(found))
    assert evidence(shuffled) == evidence(found)
    chosen = evidence(found)
    mixed = assess(TASK, Random(seed).sample(chosen, len(chosen)))
    assert replace(mixed, evidence=chosen) == assess(TASK, chosen)


@given(similar_tasks_told, st.floats(0, 1), st.sampled_from([TASK, LONG]), st.integers(1, 12))
def test_a_success_never_lowers_confidence_and_a_failure_never_raises_it(
    told: list[Told], share: float, task: str, limit: int
) -> None:
    relevance = share * max(one for status, one in told if status in ("completed", "failed"))
    before = assess(task, evidence(hits(told), limit=limit)).confidence
    after = {
        status: assess(task, evidence(hits([*told, (status, relevance)]), limit=limit)).confidence
        for status in ("completed", "failed", "cancelled")
    }
    assert after["failed"] <= before <= after["completed"]
    assert after["cancelled"] == before


# --- what is evidence ---------------------------------------------------------------------------------------------


def test_what_shares_little_with_the_task_is_no_evidence() -> None:
    assert evidence(hits([("completed", 0.34), ("failed", 0.3)])) == ()
    assert len(evidence(hits([("completed", 0.36), ("failed", 0.3), ("failed", 0.29)]))) == 2


# --- complexity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "penalty"),
    [
        (TASK, 0),
        ("x" * 1_000, 0),
        ("x" * 1_001, -0.02),
        ("x" * 100_000, -0.1),
    ],
)
def test_a_complex_description_lowers_confidence_a_little(text: str, penalty: float) -> None:
    found = assess(text, ())
    assert found.confidence_factors["complexity_penalty"] == penalty
    assert found.confidence == round(0.5 + penalty, 4)


# --- calibration --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-041")
def test_confidence_is_better_than_the_baseline_by_a_fifth() -> None:
    errors = {name: error_at_exact_rates(forecast, 5) for name, forecast in FORECASTS.items()}
    assert {name: round(error, 4) for name, error in errors.items()} == {
        "baseline 0.5": 0.3,
        "literal": 0.2333,
        "ours": 0.09,
    }
    assert errors["baseline 0.5"] - errors["ours"] >= 0.2


def test_the_page_about_tasks_has_these_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    for known in range(1, 6):
        cells = [f"{assessed(successes, known - successes).confidence:.2f}" for successes in range(known + 1)]
        assert "".join(f"| {cell} " for cell in [str(known), *cells, *[""] * (5 - known)]).replace("|  ", "| ") in page
    for name, error_of in (
        ("mean absolute error, samples", mean_absolute_error),
        ("Brier score, samples", brier_score),
    ):
        assert name in page
        for samples in (1, 2, 3, 5):
            errors = (f"{error_of(forecast, samples):.3f}" for forecast in FORECASTS.values())
            assert f"| {samples} | {' | '.join(errors)} |" in page
