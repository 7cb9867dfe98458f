"""Reading vectors: those that were written since, the memories that have none, and those that they belong to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.ids import MemoryId
from kingly_memory.ports import Looked, Made, Mark, Row

LOOKED_AT = 2_000
"""Rows that one look goes over: some milliseconds."""
_ROWS_AT_ONCE = 8
_READ_AT_ONCE = 65_536
"""Characters of memories between two looks at the deadline: one may be a thousand times as long as most."""

T = TypeVar("T")


class VectorRows:
    """Implements ports.VectorRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def made(self, facet: str, project: str, mark: Mark, limit: int, deadline_s: float = math.inf) -> Looked[Made]:
        prefix = rows.facet_row(facet, "")

        def look(end: int) -> tuple[list[Made], list[Mark]]:
            asked = (len(prefix) + 1, mark.position, end, prefix, facet + ";", project, limit)
            found = self._connections.rows(sql.MADE, asked)
            parsed = ((row, parsing.facet(facet, value), bool(gone)) for _, row, value, gone in found)
            made = [Made(MemoryId(row[len(prefix) :]), value, gone) for row, value, gone in parsed]
            return made, [Mark(at, row) for at, row, *_ in found]

        return self._looked(mark, limit, deadline_s, look)

    def lacking(self, facet: str, project: str, mark: Mark, limit: int, deadline_s: float = math.inf) -> Looked[Row]:
        prefix, own = rows.facet_row(facet, ""), rows.project_in_tag(project)

        def look(end: int) -> tuple[list[Row], list[Mark]]:
            found = self._connections.rows(sql.LACKING, (mark.position, end, own, prefix, limit))
            return parsing.rows(found), [Mark(at, row) for at, *_, row in found]

        return self._looked(mark, limit, deadline_s, look)

    def rows(self, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        known: dict[str, Row | None] = {}
        waiting = list(memory_ids)
        while waiting and time.monotonic() < deadline_s:
            some = waiting[:_ROWS_AT_ONCE]
            found, is_all = self._some_rows(some)
            known |= {one: found.get(one) for one in some} if is_all else found
            waiting = [one for one in waiting if one not in known]
        return known

    def _some_rows(self, memory_ids: list[str]) -> tuple[dict[str, Row | None], bool]:
        """Some of these memories, at least one, and whether it is all of them that are there."""
        read = 0

        def enough(columns: tuple[Any, ...]) -> bool:
            nonlocal read
            read += len(columns[1])
            return read > _READ_AT_ONCE

        marked = [rows.memory_row(one) for one in memory_ids]
        marked += marked[-1:] * (_ROWS_AT_ONCE - len(marked))  # always the same statement
        found = self._connections.rows(_MEMORIES, marked, enough)
        return {MemoryId(row[2:]): parsing.row(at, value, tag) for at, value, tag, row in found}, read <= _READ_AT_ONCE

    def _looked(
        self, mark: Mark, limit: int, deadline_s: float, look: Callable[[int], tuple[list[T], list[Mark]]]
    ) -> Looked[T]:
        """The end is fixed before it is looked, and that the mark stands is asked afterwards: so it stood all the
        while, and whatever was written meanwhile lies behind the end."""
        seen = Looked[T]((), mark, at_end=False)
        with self._connections.until(deadline_s):
            end = next(iter(self._connections.rows(sql.AHEAD, (mark.position, LOOKED_AT))), None)
            if not self._stands(mark):
                seen = Looked((), None, at_end=False)
            elif end is None:
                seen = Looked((), mark, at_end=True)
            else:
                found, marks = look(end[0])
                following = marks[-1] if len(marks) == limit else Mark(*end)
                seen = Looked(tuple(found), following, at_end=False) if self._stands(mark) else Looked((), None, False)
        return seen

    def _stands(self, mark: Mark) -> bool:
        return mark.position == 0 or [(mark.row,)] == self._connections.rows(sql.MARKED, (mark.position,))


_MEMORIES = sql.MEMORIES.format(marks=",".join("?" * _ROWS_AT_ONCE))
