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
from kingly_memory.models import JsonObject, MemoryType, Query, Standing
from kingly_memory.ports import Row, StoreReader

PAGE = 64
"""Memories read at a time: fewer cost more, since every page looks for its beginning in the index."""
STEP = 16
WORK_S, PAUSE_S = 0.0005, 0.0002
"""After so much work, or so many memories, the interpreter is given up: a store takes it in turns with the sweep
several times, a search dozens of times, and each time may have to wait for as long as it was held."""
FACETS = ("lifetime", "usage", "strength", "tier", "attention")
AWAITED = ("pending", "leased", "dead")

_UNUSED, _UNTOLD = Usage(), Strength()
"""Of most memories: made once."""

T = TypeVar("T")


class Pauses:
    """Called now and then by whoever reads much: gives the interpreter up when that was held for long enough."""

    def __init__(self) -> None:
        self._since_s = time.perf_counter()

    def __call__(self) -> None:
        if time.perf_counter() - self._since_s > WORK_S:
            time.sleep(PAUSE_S)
            self._since_s = time.perf_counter()


def no_pause() -> None:
    """Between two bites of work that somebody waits for."""


class Subjects:
    """Reads the subjects of one project, and what has ended anywhere in the store."""

    def __init__(
        self,
        reader: StoreReader,
        project: str,
        remotes: Sequence[str] = (),
    ) -> None:
        """`remotes` are those that memories may wait for."""
        self._reader = reader
        self._project = project
        self._remotes = remotes

    def live(self, *, agent: str | None = None, standings: Sequence[Standing] = (Standing.LIVE,)) -> Iterator[Subject]:
        """The project's memories in the order they were first stored."""
        query, start, pause = Query("", self._project, agent=agent), None, Pauses()
        while rows := self._reader.page(query, standings, PAGE, start, oldest_first=True):
            pause()
            for one in self.of(rows, pause):
                pause()
                yield one
            start = rows[-1].position

    def ended(self, now_s: float) -> Iterator[Subject]:
        """What has outlived its lifetime, whichever project it belongs to, the longest ended first."""
        offset, pause = 0, Pauses()
        while ids := self._reader.expired(now_s, PAGE, offset):
            rows = (self._reader.row(memory_id) for memory_id in ids)
            for one in self.of([row for row in rows if row is not None]):
                pause()
                yield one
            offset += len(ids)

    def of(self, rows: Sequence[Row], pause: Callable[[], None] = no_pause) -> list[Subject]:
        ids, facets = [row.memory.id for row in rows], {}
        for name in FACETS:
            facets[name] = self._reader.facets(name, ids)
            pause()
        awaited = self._awaited([row for row in rows if row.memory.type is MemoryType.WORKING])
        return [self._one(row, facets, is_awaited=row.memory.id in awaited) for row in rows]

    @staticmethod
    def _one(row: Row, facets: Mapping[str, Mapping[str, JsonObject]], *, is_awaited: bool) -> Subject:
        return subject(row, lambda name: facets[name].get(row.memory.id), awaited=is_awaited)

    def _awaited(self, rows: Sequence[Row]) -> set[str]:
        """Only working memories are erased, so only they are waited for."""
        found: set[str] = set()
        for remote in self._remotes if rows else ():
            facets = self._reader.facets("delivery", [f"{remote}:{row.memory.id}" for row in rows])
            found |= {owner.split(":", 1)[1] for owner, facet in facets.items() if facet["state"] in AWAITED}
        return found


def subject(row: Row, facet: Callable[[str], Mapping[str, Any] | None], *, awaited: bool) -> Subject:
    """A row with its facets. A facet that cannot be read counts as none."""
    attention = facet("attention") or {}
    return Subject(
        memory=row.memory,
        standing=row.standing,
        lifetime=_read(Lifetime.from_json, facet("lifetime")),
        usage=_read(_usage, facet("usage")) or _UNUSED,
        strength=_read(Strength.from_json, facet("strength")) or _UNTOLD,
        placement=_read(Placement.from_json, facet("tier")),
        weight=_weight(attention),
        pinned=attention.get("pinned") is True,
        awaited=awaited,
    )


def _usage(facet: Mapping[str, Any]) -> Usage:
    return Usage(int(facet["accesses"]), float(facet["last_used"]))


def _weight(attention: Mapping[str, Any]) -> float:
    weight = attention.get("weight", 1.0)
    return float(weight) if isinstance(weight, int | float) and weight >= 0 else 1.0


def _read(parse: Callable[[Mapping[str, Any]], T], facet: Mapping[str, Any] | None) -> T | None:
    try:
        return None if facet is None else parse(facet)
    except (KeyError, TypeError, ValueError, InvalidInput):
        return None
