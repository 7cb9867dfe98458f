"""The store as one change sees it: diskcache writes the rows, our queries read them back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any

from diskcache import Cache

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.vocabulary import Vocabulary
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Query, Standing
from kingly_memory.ports import Row

FARTHEST_DUE_S = 301.0
"""No due time is set further ahead than 300 s; one that is was written before the clock went back."""

MOST_NAMES = 100
"""Facets are named after few things; a strange store may have more names."""

_LAST_POSITION = 2**62
_LAST_CHARACTER = "\U0010ffff"
_CLAIMABLE = ("pending", "leased")


class DiskTransaction:
    """Implements ports.Transaction on the writer thread, between BEGIN and COMMIT."""

    def __init__(self, cache: Cache, connection: sqlite3.Connection, vocabulary: Vocabulary) -> None:
        self._cache = cache
        self._vocabulary = vocabulary
        self._connection = connection
        self._owners: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}

    def row(self, memory_id: str) -> Row | None:
        found = self._all(sql.GET_MEMORY, (rows.memory_row(memory_id),))
        return parsing.row(*found[0]) if found else None

    def id_of_key(self, project: str, key: str) -> MemoryId | None:
        found = self._all(sql.GET, (rows.key_row(project, key),))
        return parsing.pointed_at(found[0][0]) if found else None

    def is_said_in(self, project: str, context_id: str) -> bool:
        query = Query("", project, context_id=context_id)
        expression = rows.match_expression(query, standings=(Standing.LIVE, Standing.ARCHIVED))
        found = self._all(sql.PAGE_DOWN, (expression, _LAST_POSITION, 1))
        return any(query.admits(row.memory) for row in parsing.rows(found))

    def save(self, memory: Memory, standing: Standing) -> None:
        self._vocabulary.note(memory)
        if memory.revision > 1:  # a first revision cannot have had another key before
            self._unbind(memory.id, but=memory.key)
        tag = rows.tokens(memory, standing)
        self._cache.set(rows.memory_row(memory.id), rows.dump(memory.to_json()), tag=tag)
        if memory.key is not None:
            self._put(rows.key_row(memory.scope.project, memory.key), {"id": memory.id})

    def restand(self, memory_ids: Sequence[str], standing: Standing) -> None:
        statement = sql.RESTAND.format(marks=_marks(memory_ids))
        changed = (rows.standing_token(standing), time.time())
        self._connection.execute(statement, (*changed, *map(rows.memory_row, memory_ids)))

    def erase(self, memory_id: str) -> None:
        self._unbind(memory_id)
        self._cache.delete(rows.memory_row(memory_id))

    def copy(self, row: str, value: str, tag: str | None) -> None:
        """Write a row as it stood in another store."""
        self._cache.set(row, value, tag=tag)

    def facet(self, name: str, owner: str) -> JsonObject | None:
        found = self._all(sql.GET, (rows.facet_row(name, owner),))
        return parsing.facet(name, found[0][0]) if found else None

    def facets(self, names: Sequence[str], owner: str) -> dict[str, JsonObject]:
        wanted = [rows.facet_row(name, owner) for name in names]
        found = self._all(sql.GET_MANY.format(marks=_marks(wanted)), wanted)
        parsed = {row.split(":", 1)[0]: parsing.facet(row, value) for row, value in found}
        return {name: facet for name, facet in parsed.items() if facet is not None}

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        row = rows.facet_row(name, owner)
        self._owners.pop(name, None)
        if value is None:
            self._cache.delete(row)
        else:
            self._names = {}
            self._put(row, value)

    def owners(self, facet: str) -> list[str]:
        """Asked once per commit and facet, since every store asks."""
        if facet not in self._owners:
            beginning = rows.facet_row(facet, "")
            found = self._all(sql.OWNERS, (len(beginning) + 1, beginning, f"{facet};"))
            self._owners[facet] = [owner for (owner,) in found]
        return self._owners[facet]

    def facet_names(self, beginning: str) -> list[str]:
        """Asked once per commit, like `owners`; a name costs one step in the index, however many have such a facet."""
        if beginning not in self._names:
            names: list[str] = []
            start, end = beginning, beginning + _LAST_CHARACTER
            while len(names) < MOST_NAMES and (found := self._all(sql.NEXT_NAMED, (start, end))):
                name = str(found[0][0]).partition(":")[0]
                names.append(name)
                start = name + ";"
            self._names[beginning] = names
        return self._names[beginning]

    def rolled_back(self) -> None:
        """A change was undone: what was looked up on the way may not be true any more."""
        self._owners, self._names = {}, {}

    def due_deliveries(self, remote: str, now_s: float, limit: int, *, early: bool = False) -> list[MemoryId]:
        farthest_s = now_s + FARTHEST_DUE_S
        if early:
            return self._early(remote, (remote, now_s, farthest_s, limit))
        due: list[tuple[str, float]] = []
        for state in _CLAIMABLE:
            due += self._all(sql.DUE, (remote, state, now_s, limit))
            due += self._all(sql.FAR_AHEAD, (remote, state, farthest_s, limit))
        return [MemoryId(one) for one, _ in sorted(due, key=lambda pair: (pair[1], pair[0]))[:limit]]

    def _early(self, remote: str, values: tuple[Any, ...]) -> list[MemoryId]:
        """By age, which is quick to tell, unless some of the oldest have failed more than once."""
        ids = [MemoryId(one) for (one,) in self._all(sql.EARLY, values)]
        facets = (self.facet("delivery", f"{remote}:{one}") or {} for one in ids)
        if all(facet.get("attempts", 0) in (0, 1) for facet in facets):
            return ids
        return [MemoryId(one) for (one,) in self._all(sql.EARLY_IN_TURN, values)]

    def undelivered(self, remote: str, project: str, above: float, limit: int, *, after: str = "") -> list[Memory]:
        beyond = rows.memory_row(after)
        found = self._all(sql.UNDELIVERED, (beyond, above, rows.project_in_tag(project), remote, limit))
        return [row.memory for row in parsing.rows(found)]

    def _unbind(self, memory_id: str, but: str | None = None) -> None:
        """Let go of the key that the memory has now, unless it is that one."""
        before = self.row(memory_id)
        if before is None or before.memory.key in (None, but):
            return
        project, key = before.memory.scope.project, before.memory.key
        if self.id_of_key(project, key) == memory_id:
            self._cache.delete(rows.key_row(project, key))

    def _put(self, row: str, value: JsonObject) -> None:
        self._cache.set(row, rows.dump(value))

    def _all(self, statement: str, values: Sequence[Any] | Iterable[Any]) -> list[Any]:
        return self._connection.execute(statement, tuple(values)).fetchall()


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))
