"""Reading vectors: those that were written since, and the memories that have none."""

from __future__ import annotations

from typing import Any

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject
from kingly_memory.ports import Row


class VectorReading:
    """Implements ports.VectorRows for the reader that it is part of."""

    def _all(self, statement: str, values: Any) -> list[Any]:
        raise NotImplementedError

    def facets_after(
        self, name: str, project: str, position: int, limit: int
    ) -> list[tuple[int, MemoryId, JsonObject | None]]:
        prefix = rows.facet_row(name, "")
        found = self._all(sql.FACETS_AFTER, (position, prefix, name + ";", project, limit))
        return [(at, MemoryId(key[len(prefix) :]), parsing.facet(name, value)) for at, key, value in found]

    def lacking(self, facet: str, project: str, position: int, limit: int) -> list[Row]:
        prefix = rows.facet_row(facet, "")
        return parsing.rows(self._all(sql.LACKING, (position, rows.project_in_tag(project), prefix, limit)))
