"""What a change and a reader look up alike, in a home's store and in a hub's PostgreSQL: only the statements differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kingly_memory.adapters.local import rows, sql
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import Row


class SqlLookups:
    """Implements what both stores have of ports.Lookups. `_all` gives all rows of a statement."""

    _all: Callable[[str, tuple[Any, ...]], list[Any]]
    _get_memory, _id_of_key, _revisions = sql.GET_MEMORY, sql.ID_OF_KEY, sql.REVISIONS
    _facet, _facets = sql.FACET, sql.FACETS
    """`_facets` is given a JSON list of names, each with an owner."""

    def row(self, memory_id: str) -> Row | None:
        for position, record, status in self._all(self._get_memory, (memory_id,)):
            return rows.read_row(position, record, status, memory_id)
        return None

    def id_of_key(self, space: str, key: str) -> MemoryId | None:
        for (memory_id,) in self._all(self._id_of_key, (space, key)):
            return MemoryId(memory_id)
        return None

    def revisions(self, memory_id: str) -> list[Memory]:
        found = (rows.read_record(record) for (record,) in self._all(self._revisions, (memory_id,)))
        return [memory for memory in found if memory is not None and memory.id == memory_id]

    def facet(self, name: str, owner: str) -> JsonObject | None:
        for (value,) in self._all(self._facet, (name, owner)):
            return rows.read_facet(name, value)
        return None

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        return self.facets_of({name: owners})[name]

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        pairs = [(name, owner) for name, owners in wanted.items() for owner in owners]
        found: dict[str, dict[str, JsonObject]] = {name: {} for name in wanted}
        for name, owner, value in self._all(self._facets, (json.dumps(pairs),)) if pairs else ():
            if (facet := rows.read_facet(name, value)) is not None:
                found[name][owner] = facet
        return found
