"""Memories as the policies see them, read page by page: nothing is written, and no text is held for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kingly_memory.errors import InvalidInput
from kingly_memory.lifecycle.decay import Strength
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.policies import Subject, Usage
from kingly_memory.lifecycle.tiers import Placement
from kingly_memory.models import MemoryStatus, MemoryType, Query
from kingly_memory.ports import Row, StoreReader

PAGE = 64
"""Memories read at a time: fewer cost more, since every page looks for its beginning in the index."""
PAUSE_S = 0.0002
"""After each page the interpreter is given up, so that stores and searches of this process take turns with a sweep."""
FACETS = ("lifetime", "usage", "strength", "tier", "attention")
AWAITED = ("pending", "leased", "dead")

T = TypeVar("T")


class Subjects:
    """Reads the subjects of one project, and what has ended anywhere in the store."""

    def __init__(self, reader: StoreReader, space: str, remotes: Sequence[str] = ()) -> None:
        """`remotes` are those that memories may wait for."""
        self._reader = reader
        self._space = space
        self._remotes = remotes

    def live(self, *, agent: str | None = None) -> Iterator[Subject]:
        """The project's memories in the order they were first stored."""
        query, start = Query("", self._space, agent=agent), None
        while rows := self._reader.page(query, (MemoryStatus.LIVE,), PAGE, start, oldest_first=True):
            yield from self.of(rows)
            start = rows[-1].position
            time.sleep(PAUSE_S)

    def ended(self, now_s: float) -> Iterator[Subject]:
        """What has outlived its lifetime, whichever project it belongs to, the longest ended first."""
        offset = 0
        while ids := self._reader.expired(now_s, PAGE, offset):
            yield from self.of([row for row in map(self._reader.row, ids) if row is not None])
            offset += len(ids)
            time.sleep(PAUSE_S)

    def of(self, rows: Sequence[Row]) -> list[Subject]:
        ids = tuple(row.memory.id for row in rows)
        facets = self._reader.facets_of(dict.fromkeys(FACETS, ids))
        # Only working memories are erased, so only they are waited for.
        working = [row.memory.id for row in rows if row.memory.type is MemoryType.WORKING]
        deliveries = self._reader.deliveries(self._remotes, working)
        awaited = {memory_id for each in deliveries.values() for memory_id, one in each.items() if one.state in AWAITED}
        found = []
        for row in rows:
            beside = {name: facets[name].get(row.memory.id) for name in FACETS}
            found.append(subject(row, beside.get, awaited=row.memory.id in awaited))
        return found


def subject(row: Row, facet: Callable[[str], Mapping[str, Any] | None], *, awaited: bool) -> Subject:
    """A row with its facets. A facet that cannot be read counts as none."""
    attention = facet("attention") or {}
    weight = attention.get("weight", 1.0)
    return Subject(
        memory=row.memory,
        status=row.status,
        lifetime=_read(Lifetime.from_json, facet("lifetime")),
        usage=_read(Usage.from_json, facet("usage")) or Usage(),
        strength=_read(Strength.from_json, facet("strength")) or Strength(),
        placement=_read(Placement.from_json, facet("tier")),
        weight=float(weight) if isinstance(weight, int | float) and weight >= 0 else 1.0,
        pinned=attention.get("pinned") is True,
        awaited=awaited,
    )


def _read(parse: Callable[[Mapping[str, Any]], T], facet: Mapping[str, Any] | None) -> T | None:
    try:
        return None if facet is None else parse(facet)
    except (KeyError, TypeError, ValueError, InvalidInput):
        return None
