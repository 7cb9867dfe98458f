"""Memories and hits as a search for similar tasks finds them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from kingly_memory.cognition.confidence import LEAST_RELEVANCE, SIMILAR
from kingly_memory.ids import MemoryId
from kingly_memory.models import Hit, Memory, MemoryType, Origin, Scope
from kingly_memory.validation import Draft

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Told = tuple[str, float]
"""A status and how relevant the task is to the one asked about."""


def remembered(number: int, content: str = "deploy the api", **said: Any) -> Memory:
    fields: dict[str, Any] = {
        "id": MemoryId(f"{number:032x}"),
        "key": None,
        "content": content,
        "type": MemoryType.PROCEDURAL,
        "significance": 0.6,
        "confidence": 0.5,
        "tags": (),
        "title": None,
        "scope": Scope("app"),
        "origin": Origin.AGENT,
        "created_at": NOW,
        "updated_at": NOW,
        "revision": 1,
        "metadata": {},
    }
    return Memory(**{**fields, **said})


def stored(draft: Draft, number: int = 1) -> Memory:
    """The memory that the draft becomes."""
    return draft.memory(MemoryId(f"{number:032x}"), "app", created_at=NOW, updated_at=NOW)


def hit(number: int, status: str | None, relevance: float = 0.8, *, agent: str | None = None, **metadata: Any) -> Hit:
    """A task that ended with that status; None: a memory that says nothing of the kind."""
    said = metadata if status is None else {"status": status, **metadata}
    return Hit(remembered(number, metadata=said, scope=Scope("app", agent=agent)), relevance, ("local",))


def hits(told: Sequence[Told]) -> list[Hit]:
    return [hit(number, status, relevance) for number, (status, relevance) in enumerate(told, start=1)]


def record(successes: int, failures: int, relevance: float = 0.8) -> list[Hit]:
    """So many equally similar tasks."""
    return hits([("completed", relevance)] * successes + [("failed", relevance)] * failures)


statuses = st.sampled_from(["completed", "failed", "cancelled", "unheard of"])
relevances = st.floats(0, 1)
tasks_told = st.lists(st.tuples(statuses, relevances), max_size=12)
similar_tasks_told = st.builds(
    lambda first, rest: [first, *rest],
    st.tuples(st.sampled_from(["completed", "failed"]), st.floats(SIMILAR, 1)),
    st.lists(st.tuples(statuses, st.floats(LEAST_RELEVANCE, 1)), max_size=9),
)
