"""What came of a task, written down and read back, whoever wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kingly_memory.cognition.outcomes import (
    EXCERPT,
    MOST_NOTES,
    TaskOutcome,
    outcome_draft,
    outcome_of,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryType
from kingly_memory.validation import Draft
from tests.cognition.task_samples import remembered, stored

ASSESSMENT = {"task": "deploy", "confidence": 0.5, "factors": {}, "similar_tasks_found": 0, "context_id": None}


def outcome(task: object = "deploy the api", status: object = "completed", **said: Any) -> Draft:
    return outcome_draft(task, status, **said)


@pytest.mark.requirement("KNG-034")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_recorded_outcome_is_read_back(status: str) -> None:
    said = outcome(
        "deploy the api",
        status,
        approach="canary",
        reason="health check timed out",
        notes=["built in 40 s", "one pod restarted"],
        duration_s=61,
        context_id="deploy-42",
        tags=("release",),
    )
    assert said.content == (
        f"deploy the api\n{status.capitalize()}: health check timed out\n"
        "Approach: canary\n- built in 40 s\n- one pod restarted"
    )
    assert said.type is MemoryType.PROCEDURAL
    assert said.tags == ("task_outcome", status, "release")
    assert said.context_id == "deploy-42"
    assert said.metadata == {
        "record": "task_outcome",
        "status": status,
        "task": "deploy the api",
        "approach": "canary",
        "duration_s": 61.0,
        "reason": "health check timed out",
        "notes": ["built in 40 s", "one pod restarted"],
    }
    assert outcome_of(stored(said)) == TaskOutcome("deploy the api", status, "canary")


def test_content_holds_every_note_and_metadata_the_beginning_of_the_latest() -> None:
    notes = [f"{number} " + "\x01" * 1_000 for number in range(100)]
    said = outcome("t" * 10_000, reason="\x01" * 10_000, notes=notes)
    assert all(note in said.content for note in notes)
    assert "t" * 10_000 in said.content
    kept = said.metadata["notes"]
    assert [note.split()[0] for note in kept] == [str(number) for number in range(100 - MOST_NOTES, 100)]
    assert {len(text) for text in (*kept, said.metadata["task"], said.metadata["reason"])} == {EXCERPT}


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("task", {"task": " \n"}),
        ("task", {"task": 7}),
        ("status", {"status": "done"}),
        ("status", {"status": "Completed"}),
        ("status", {"status": None}),
        ("approach", {"approach": "two\nlines"}),
        ("approach", {"approach": ["canary"]}),
        ("reason", {"reason": 500}),
        ("reason", {"reason": ""}),
        ("notes", {"notes": 3}),
        ("notes", {"notes": {"first": "note"}}),
        ("notes", {"notes": b"bytes"}),
        ("notes", {"notes": ["fine", None]}),
        ("duration_s", {"duration_s": -1}),
        ("duration_s", {"duration_s": float("nan")}),
        ("duration_s", {"duration_s": "61"}),
        ("metadata", {"metadata": ["status"]}),
        ("metadata", {"metadata": {"log": "x" * 70_000}}),
        ("content", {"task": "x" * 1_048_577}),
    ],
)
def test_an_outcome_that_makes_no_sense_is_refused_by_name(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        outcome(**said)
    assert refused.value.field == field


@pytest.mark.requirement("KNG-034")
@pytest.mark.parametrize(
    ("status", "read"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        ("done", "unknown"),
        ("", "unknown"),
    ],
)
@pytest.mark.parametrize("type", [MemoryType.PROCEDURAL, MemoryType.EPISODIC])
def test_any_memory_that_says_a_status_is_an_outcome(status: str, read: str, type: MemoryType) -> None:
    memory = remembered(1, "restart the queue\nwith care", type=type, metadata={"status": status, "approach": 3})
    assert outcome_of(memory) == TaskOutcome("restart the queue", read, None)


@pytest.mark.requirement("KNG-042")
@pytest.mark.parametrize(
    "said",
    [
        {"metadata": {"record": "confidence_assessment", "status": "completed"}},
        {"tags": ("confidence_assessment",), "metadata": {"status": "completed"}},
        {"content": json.dumps(ASSESSMENT), "metadata": {"status": "active"}},
        {"content": " \n" + json.dumps(ASSESSMENT, indent=2), "metadata": {"status": "completed"}},
    ],
    ids=["record", "tag", "content", "indented content"],
)
def test_an_assessment_is_no_outcome_however_it_came_back(said: dict[str, Any]) -> None:
    assert outcome_of(remembered(1, **said)) is None
