"""Which memories may be shown: by their standing, the filters of a question, and their lifetimes. Synchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, is_expired
from kingly_memory.models import Memory, MemoryType, Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.lifecycle import archive


class Visible:
    """Says of rows whether they may be shown. Safe from any thread."""

    def __init__(self, reader: StoreReader, last_use: Callable[[str], float | None] = lambda _: None) -> None:
        """`last_use` tells of uses that are not written down yet."""
        self._reader = reader
        self._last_use = last_use

    def shown(self, rows: Iterable[Row], query: Query, now_s: float) -> list[Row]:
        """The rows whose standing, filters and lifetime let them be shown. Where the archive is asked for, so is what
        waits for a sweep to put it there."""
        hidden = {Standing.FORGOTTEN} if query.include_archived else {Standing.FORGOTTEN, Standing.ARCHIVED}
        admitted = [row for row in rows if row.standing not in hidden and query.admits(row.memory)]
        if query.wide:
            admitted = [row for row in admitted if not self._is_overruled(row.memory, query.space)]
        resting = [row.memory.id for row in admitted if row.standing is Standing.ARCHIVED]
        if query.or_ended and resting:  # only what is in the archive because it has ended
            why = self._reader.facets(archive.FACET, resting)
            other = {one for one in resting if why.get(one, {}).get("policy") != LIFETIMES}
            admitted = [row for row in admitted if row.memory.id not in other]
        mortal = [row for row in admitted if not (query.include_archived and _goes_to_archive(row))]
        ended = self._ended(mortal, now_s)
        return [row for row in admitted if row.memory.id not in ended]

    def _is_overruled(self, memory: Memory, space: str) -> bool:
        """Whether it is kept for every project, and this one says something else under its key."""
        if memory.scope.space == space or memory.key is None:
            return False
        own_id = self._reader.id_of_key(space, memory.key)
        own = None if own_id is None else self._reader.row(own_id)
        return own_id is not None and (own is None or own.standing is not Standing.FORGOTTEN)

    def is_alive(self, row: Row, now_s: float) -> bool:
        """True unless its lifetime has ended. Archived memories are past that question."""
        return not self._ended([row], now_s)

    def _ended(self, rows: Sequence[Row], now_s: float) -> set[str]:
        """The ids of those whose lifetime has ended."""
        mortal = [row.memory.id for row in rows if row.standing is not Standing.ARCHIVED]
        return {one for one, lifetime in self.lifetimes(mortal).items() if is_expired(lifetime, now_s)}

    def lifetimes(self, memory_ids: Sequence[str]) -> dict[str, Lifetime]:
        """Of those that have one. A use that is not written down yet may have renewed it."""
        found = self._reader.facets("lifetime", memory_ids) if memory_ids else {}
        lifetimes = {one: Lifetime.from_json(facet) for one, facet in found.items()}
        used = {one: used_s for one in lifetimes if (used_s := self._last_use(one)) is not None}
        return lifetimes | {one: lifetimes[one].used(used_s) for one, used_s in used.items()}


def _goes_to_archive(row: Row) -> bool:
    """Working memories and copies are erased when their time is over, all others are put away."""
    return row.standing is Standing.LIVE and row.memory.type is not MemoryType.WORKING
