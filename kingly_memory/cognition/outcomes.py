"""What came of a task, as a memory: how it is written, and how it is read back from whoever wrote it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from kingly_memory import validation
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import CONFIDENCE_ASSESSMENT, Memory, MemoryType
from kingly_memory.text.writing import shortened
from kingly_memory.validation import Draft

TASK_OUTCOME = "task_outcome"
"""What `metadata.record` of such memories says, and one of their tags; CONFIDENCE_ASSESSMENT is that of assessments."""

UNKNOWN = "unknown"
"""The status of an outcome that says neither completed, failed nor cancelled."""

OUTCOME_SIGNIFICANCE = 0.6
ASSESSMENT_SIGNIFICANCE = 0.4
"""Seed 004, assess_task_confidence."""

MOST_NOTES = 20
EXCERPT = 300
"""Metadata holds this many notes, the latest, and this many characters of each text; the content holds all of them
while they fit into one memory."""

TASK_LIMIT = 4_096
"""Characters of the task that an assessment holds."""

_ASSESSMENT_NAMES = {"task", "confidence", "factors", "similar_tasks_found"}


class TaskStatus(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


KNOWN = (TaskStatus.COMPLETED, TaskStatus.FAILED)
"""Those that count as a success or as a failure; all others count neither way."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a memory says of a task that is over. `status` is one of `TaskStatus` or `unknown`."""

    task: str
    status: str
    approach: str | None

    @property
    def is_known(self) -> bool:
        """True when it counts as a success or as a failure."""
        return self.status in KNOWN


def outcome_draft(
    task: object,
    status: object = TaskStatus.COMPLETED,
    *,
    context_id: object = None,
    agent: object = None,
    approach: object = None,
    notes: object = (),
    reason: object = None,
    duration_s: object = None,
    significance: object = OUTCOME_SIGNIFICANCE,
    tags: object = (),
    metadata: object = None,
) -> Draft:
    """The memory of a task that is over; it begins with the task. Raises InvalidInput.

    Of the caller's metadata, names that an outcome uses itself are overwritten.
    """
    checked_task, checked_status = spoken("task", task), validation.choice("status", status, TaskStatus)
    checked_approach = validation.label("approach", approach)
    checked_reason = None
    if reason is not None:
        from kingly_memory.text.redaction import redact

        # It often quotes an error, and an outcome may leave this machine.

        checked_reason = redact(spoken("reason", reason)).text
    checked_notes = all_spoken("notes", notes)
    if not isinstance(metadata, Mapping | None):
        raise InvalidInput("metadata", f"expected a JSON object, not {type(metadata).__name__}")
    short_reason = None if checked_reason is None else shortened(checked_reason, EXCERPT)
    short_notes = [shortened(note, EXCERPT) for note in checked_notes[-MOST_NOTES:]]
    record = {
        "record": TASK_OUTCOME,
        "status": checked_status.value,
        "task": shortened(checked_task, EXCERPT),
        "approach": checked_approach,
        "duration_s": None if duration_s is None else validation.seconds("duration_s", duration_s),
        "reason": short_reason,
        "notes": short_notes,
    }

    def content(reason: str | None, notes: Sequence[str]) -> str:
        status = checked_status.value.capitalize() + ("" if reason is None else f": {reason}")
        approach = [] if checked_approach is None else [f"Approach: {checked_approach}"]
        return "\n".join([checked_task, status, *approach, *(f"- {note}" for note in notes)])

    text = content(checked_reason, checked_notes)
    if len(text.encode(errors="replace")) > validation.CONTENT_LIMIT_BYTES:
        text = content(short_reason, short_notes)
    return validation.draft(
        text,
        type=MemoryType.PROCEDURAL,
        significance=significance,
        tags=(TASK_OUTCOME, checked_status.value, *validation.tag_list("tags", tags)),
        context_id=context_id,
        agent=agent,
        metadata={**(metadata or {}), **record},
    )


def assessment_draft(
    task: str,
    *,
    confidence: float,
    factors: Mapping[str, float],
    similar_tasks_found: int,
    context_id: str | None,
    significance: object,
) -> Draft:
    """The memory of an assessment, in the seed's words. It is never evidence for another one."""
    fields = {
        "task": task[:TASK_LIMIT],
        "confidence": confidence,
        "factors": dict(factors),
        "similar_tasks_found": similar_tasks_found,
        "context_id": context_id,
    }
    return validation.draft(
        json.dumps(fields, ensure_ascii=False),
        type=MemoryType.PROCEDURAL,
        significance=significance,
        tags=(CONFIDENCE_ASSESSMENT,),
        context_id=context_id,
        metadata={"record": CONFIDENCE_ASSESSMENT},
    )


def outcome_of(memory: Memory) -> TaskOutcome | None:
    """What the memory says came of a task, None when it speaks of none.

    Any procedural or episodic memory whose metadata hold a status counts, whoever wrote it; assessments never do.
    """
    status = memory.metadata.get("status")
    if memory.type not in (MemoryType.PROCEDURAL, MemoryType.EPISODIC) or not isinstance(status, str):
        return None
    if _is_assessment(memory):
        return None
    task, approach = memory.metadata.get("task"), memory.metadata.get("approach")
    first_line = memory.content.lstrip()[: EXCERPT + 1].partition("\n")[0].rstrip()
    return TaskOutcome(
        task=shortened(task if isinstance(task, str) and task.strip() else first_line, EXCERPT),
        status=status if status in {one.value for one in TaskStatus} else UNKNOWN,
        approach=approach if isinstance(approach, str) else None,
    )


def _is_assessment(memory: Memory) -> bool:
    """Also when only its content came back from a remote."""
    if memory.metadata.get("record") == CONFIDENCE_ASSESSMENT or CONFIDENCE_ASSESSMENT in memory.tags:
        return True
    if not memory.content.lstrip().startswith("{") or "similar_tasks_found" not in memory.content:
        return False
    try:
        fields = json.loads(memory.content)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.keys() >= _ASSESSMENT_NAMES


def spoken(name: str, value: object) -> str:
    """A text that says something, without the spaces around it. Raises InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(name, f"expected text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInput(name, "is empty; say it in a few words")
    return validation.mended(value.strip())


def all_spoken(name: str, value: object) -> tuple[str, ...]:
    """Texts of any length; a single one is a list of it, and blank ones are left out. Raises InvalidInput."""
    return tuple(one.strip() for one in validation.listed(name, value, str) if one.strip())
