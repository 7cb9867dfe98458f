"""Filling a large store: through the local layer's own change and commit, with as many memories in each as is quick."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryStatus, MemoryType, Origin, Scope
from kingly_memory.ports import Transaction

TOGETHER = 20_000
"""Memories per commit: a commit is one segment of the text index, and segments have to be merged."""


def utterance(text: str, number: int, project: str, *, tags: tuple[str, ...] = (), title: str = "") -> Memory:
    """Something that was said, forty to a context."""
    now, context = datetime.now(UTC), f"talk {number // 40}"
    return Memory(
        id=new_id(now),
        key=f"k{number}",
        content=text,
        type=MemoryType.EPISODIC,
        significance=0.2,
        confidence=0.5,
        tags=tags,
        title=title or None,
        scope=Scope(project, context_id=context),
        origin=Origin.USER,
        created_at=now,
        updated_at=now,
        revision=1,
    )


def fill(home: Path, memories: Iterable[Memory]) -> float:
    """Write them into the home's store; how many seconds that took."""
    began, waiting = time.perf_counter(), iter(memories)
    store = DiskStore(home, durability="process")
    while batch := list(islice(waiting, TOGETHER)):
        store.write(partial(_save, batch)).result()
    store.close()
    return time.perf_counter() - began


def _save(memories: list[Memory], transaction: Transaction) -> None:
    for memory in memories:
        transaction.save(memory, MemoryStatus.LIVE)
