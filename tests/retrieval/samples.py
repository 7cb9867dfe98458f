"""A memory of which only what a test says matters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryType, Origin, Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def memory(content: str, **said: Any) -> Memory:
    known = {"title": None, "tags": (), "scope": Scope("app"), "origin": Origin.AGENT, "metadata": {}, **said}
    return Memory(
        id=new_id(NOW),
        key=None,
        content=content,
        type=MemoryType.SEMANTIC,
        significance=0.5,
        confidence=0.5,
        created_at=NOW,
        updated_at=NOW,
        revision=1,
        **known,
    )
