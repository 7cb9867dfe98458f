"""Finding the memories that say the same as others: read once, compared only where they can be alike.

Of every memory a number is kept that duplicates have in common. Sorting the numbers brings them together (n log n), and
only those that share one are read again and compared, so that a large store takes 16 bytes for a memory.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import replace
from itertools import count, pairwise

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.restating import Saying, glance, saying, stands_for_itself
from kingly_memory.models import Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.archive import APART
from kingly_memory.router.subjects import PAGE, PAUSE_S, STEP


def sayings(reader: StoreReader, project: str) -> dict[MemoryId, Saying]:
    """What the project's live memories say that are not alone in saying it; those that are kept apart are left out.
    Their gists are numbers, which hold for this answer only."""
    found: dict[MemoryId, Saying] = {}
    numbers = count()
    for rows in _alike(reader, project):
        apart = reader.facets(APART, [row.memory.id for row in rows])
        groups: defaultdict[Hashable, dict[MemoryId, Saying]] = defaultdict(dict)
        for row in rows:
            said = None if row.memory.id in apart else saying(row.memory)
            if said is not None:
                groups[said.gist][row.memory.id] = said
        for group in groups.values():
            if len(group) > 1:
                number = next(numbers)
                found |= {memory_id: replace(one, gist=number) for memory_id, one in group.items()}
    return found


def _alike(reader: StoreReader, project: str) -> Iterator[list[Row]]:
    """Rows that may be alike, those that share a number at a time."""
    prints, positions = array("q"), array("q")
    for row in _live(reader, project):
        if not stands_for_itself(row.memory):
            prints.append(glance(row.memory))
            positions.append(row.position)
    repeated = {one for one, other in pairwise(sorted(prints)) if one == other}
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, position in zip(prints, positions, strict=True):
        if number in repeated:
            groups[number].append(position)
    for several in groups.values():
        rows = reader.rows_at(several, float("inf"))
        yield [row for row in rows if row.standing is Standing.LIVE and row.memory.scope.project == project]


def _live(reader: StoreReader, project: str) -> Iterator[Row]:
    """With pauses: a search must not wait until all has been read."""
    query, start = Query("", project), None
    while rows := reader.page(query, (Standing.LIVE,), PAGE, start, oldest_first=True):
        for first in range(0, len(rows), STEP):
            time.sleep(PAUSE_S)
            yield from rows[first : first + STEP]
        start = rows[-1].position
