"""Finding the memories that say the same as others: shown once, compared only where they can be alike.

Of every memory a number is kept that duplicates have in common. Sorting the numbers brings them together (n log n), and
only those that share one are read again and compared, so that a large store takes few bytes for a memory.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.restating import Saying, glance, saying, stands_for_itself
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import Memory, Standing
from kingly_memory.ports import StoreReader
from kingly_memory.router.archive import APART
from kingly_memory.router.subjects import PAGE, Pauses, Subjects


class Lookout:
    """Shown the live memories of a project one by one, finds those that say the same."""

    def __init__(self, reader: StoreReader, subjects: Subjects) -> None:
        self._reader = reader
        self._subjects = subjects
        self._prints = array("q")
        self._ids: list[MemoryId] = []

    def see(self, memory: Memory) -> None:
        if not stands_for_itself(memory):
            self._prints.append(glance(memory))
            self._ids.append(memory.id)

    def alike(self) -> Iterator[tuple[Subject, Saying]]:
        """Those that are not alone in what they say, read again; what is kept apart is left out. The gists are numbers,
        which hold for this answer only."""
        numbers, pause = count(), Pauses()
        for ids in _together(self._groups()):
            groups: defaultdict[Hashable, list[tuple[Subject, Saying]]] = defaultdict(list)
            for one in self._read(ids):
                pause()
                said = saying(one.memory)
                if said is not None:
                    groups[said.gist].append((one, said))
            for group in groups.values():
                number = next(numbers)
                yield from ((one, replace(said, gist=number)) for one, said in group if len(group) > 1)

    def _groups(self) -> Iterable[list[MemoryId]]:
        """The ids of those that share a number."""
        repeated = {one for one, other in pairwise(sorted(self._prints)) if one == other}
        groups: defaultdict[int, list[MemoryId]] = defaultdict(list)
        for number, memory_id in zip(self._prints, self._ids, strict=True):
            if number in repeated:
                groups[number].append(memory_id)
        return groups.values()

    def _read(self, ids: Sequence[MemoryId]) -> Iterator[Subject]:
        for first in range(0, len(ids), PAGE):
            some = ids[first : first + PAGE]
            apart = self._reader.facets(APART, some)
            rows = (self._reader.row(memory_id) for memory_id in some if memory_id not in apart)
            yield from self._subjects.of([row for row in rows if row is not None and row.standing is Standing.LIVE])


def _together(groups: Iterable[list[MemoryId]]) -> Iterator[list[MemoryId]]:
    """Whole groups, up to a page of them at a time."""
    some: list[MemoryId] = []
    for group in groups:
        some += group
        if len(some) >= PAGE:
            yield some
            some = []
    if some:
        yield some
