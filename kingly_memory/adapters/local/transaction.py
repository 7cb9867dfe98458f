"""The store as one change sees it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.vocabulary import Vocabulary
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.passages import LONGEST, passages
from kingly_memory.ports import Row

if TYPE_CHECKING:
    from kingly_memory.adapters.local.document_rows import DocumentRows

FARTHEST_DUE_S = 301.0
"""No due time is set further ahead than 300 s; one that is was written before the clock went back."""
MOST_NAMES = 100
"""Facets are named after few things; a strange store may have more names."""

_LAST_CHARACTER = "\U0010ffff"

T = TypeVar("T")


class DiskTransaction:
    """Implements ports.Transaction on the writer thread, between BEGIN and COMMIT.

    Index entries and counts are written at its end, for all changes together.
    """

    def __init__(self, connection: sqlite3.Connection, vocabulary: Vocabulary) -> None:
        self._connection = connection
        self._vocabulary = vocabulary
        self._unindexed: set[int] = set()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._owners: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}

    # --- what the engine calls

    def run(self, change: Callable[[DiskTransaction], T]) -> T:
        """The change's value. If it raises, it is undone alone; an error of the database undoes the whole commit."""
        before = set(self._unindexed), self._counted.copy()
        self._connection.execute("SAVEPOINT change")
        try:
            value = change(self)
        except sqlite3.Error:
            raise
        except Exception:
            self._connection.execute("ROLLBACK TO change")
            self._connection.execute("RELEASE change")
            self._unindexed, self._counted = before
            self._owners, self._names = {}, {}
            raise
        self._connection.execute("RELEASE change")
        return value

    def finish(self) -> None:
        """Write what all changes have left to do."""
        if self._unindexed:
            positions = json.dumps(sorted(self._unindexed))
            for statement in sql.INDEX:
                self._connection.execute(statement, (positions,))
            for position, content, tag in self._all(sql.LONG, positions, LONGEST):
                added = [
                    (rows.passage_row(position, number), content[begin:end], tag, begin)
                    for number, (begin, end) in enumerate(passages(content))
                ]
                self._connection.executemany(sql.ADD_PASSAGE, added)
        counted = [(*which, number) for which, number in self._counted.items() if number]
        self._connection.executemany(sql.COUNT, counted)
        self._vocabulary.write(self._connection)

    @cached_property
    def documents(self) -> DocumentRows:
        from kingly_memory.adapters.local.document_rows import DocumentRows

        return DocumentRows(self._connection)

    # --- memories

    def row(self, memory_id: str) -> Row | None:
        found = self._all(sql.GET_MEMORY, rows.memory_row(memory_id))
        return parsing.row(*found[0]) if found else None

    def id_of_key(self, project: str, key: str) -> MemoryId | None:
        found = self._all(sql.GET, rows.key_row(project, key))
        return parsing.pointed_at(found[0][0]) if found else None

    def is_said_in(self, project: str, context_id: str) -> bool:
        return bool(self._all(sql.IS_SAID_IN, rows.context_digest(context_id), rows.project_in_tag(project)))

    def save(self, memory: Memory, standing: Standing) -> None:
        self._vocabulary.note(memory)
        values = (rows.memory_row(memory.id), time.time(), rows.tokens(memory, standing), rows.dump(memory.to_json()))
        inserted = self._connection.execute(sql.INSERT, values)
        if inserted.rowcount == 1:
            self._unindexed.add(int(inserted.lastrowid or 0))
        else:
            self._unbind(memory.id, but=memory.key)
            self._unindexed |= self._unindex([memory.id])
            self._connection.execute(sql.UPSERT, values)
        self._count(values[2], 1)
        if memory.key is not None:
            self._put(rows.key_row(memory.scope.project, memory.key), {"id": memory.id})

    def restand(self, memory_ids: Sequence[str], standing: Standing) -> None:
        positions = self._unindex(memory_ids)
        marks = sql.marks(positions)
        self._connection.execute(
            sql.RESTAND.format(marks=marks), (rows.standing_token(standing), time.time(), *positions)
        )
        for (tag,) in self._all(f"SELECT tag FROM Cache WHERE rowid IN ({marks})", *positions):
            self._count(tag, 1)
        self._unindexed |= positions

    def erase(self, memory_id: str) -> None:
        self._unbind(memory_id)
        self._unindex([memory_id])
        self._connection.execute(sql.DELETE, (rows.memory_row(memory_id),))

    def unlearn(self, memory: Memory) -> None:
        self._vocabulary.unlearn(memory)

    def undelivered(self, remote: str, project: str, above: float, limit: int, *, after: str = "") -> list[Memory]:
        beyond, own = rows.memory_row(after), rows.project_in_tag(project)
        found = parsing.rows(self._all(sql.UNDELIVERED, beyond, above, own, remote, limit))
        return [row.memory for row in found]

    # --- facets

    def facet(self, name: str, owner: str) -> JsonObject | None:
        found = self._all(sql.GET, rows.facet_row(name, owner))
        return parsing.facet(name, found[0][0]) if found else None

    def facets(self, names: Sequence[str], owner: str) -> dict[str, JsonObject]:
        found = self._all(sql.GET_MANY, json.dumps([rows.facet_row(name, owner) for name in names]))
        parsed = {row.split(":", 1)[0]: parsing.facet(row, value) for row, value in found}
        return {name: facet for name, facet in parsed.items() if facet is not None}

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        row = rows.facet_row(name, owner)
        self._owners.pop(name, None)
        if value is None:
            self._connection.execute(sql.DELETE, (row,))
        else:
            self._names = {}
            self._put(row, value)

    def owners(self, facet: str) -> list[str]:
        """Asked once per commit and facet, since every store asks."""
        if facet not in self._owners:
            beginning = rows.facet_row(facet, "")
            found = self._all(sql.OWNERS, len(beginning) + 1, beginning, f"{facet};")
            self._owners[facet] = [owner for (owner,) in found]
        return self._owners[facet]

    def facet_names(self, beginning: str) -> list[str]:
        """Asked once per commit, like `owners`; a name costs one step in the index, however many have such a facet."""
        if beginning not in self._names:
            names: list[str] = []
            start, end = beginning, beginning + _LAST_CHARACTER
            while len(names) < MOST_NAMES and (found := self._all(sql.NEXT_NAMED, start, end)):
                name = str(found[0][0]).partition(":")[0]
                names.append(name)
                start = name + ";"
            self._names[beginning] = names
        return self._names[beginning]

    def due_deliveries(self, remote: str, now_s: float, limit: int, *, early: bool = False) -> list[MemoryId]:
        farthest_s = now_s + FARTHEST_DUE_S
        if early:
            # By age, which is quick to tell, unless some of the oldest have failed more than once.
            ids = [MemoryId(one) for (one,) in self._all(sql.EARLY, remote, now_s, farthest_s, limit)]
            facets = (self.facet("delivery", f"{remote}:{one}") or {} for one in ids)
            if all(facet.get("attempts", 0) in (0, 1) for facet in facets):
                return ids
            return [MemoryId(one) for (one,) in self._all(sql.EARLY_IN_TURN, remote, now_s, farthest_s, limit)]
        due: list[tuple[str, float]] = []
        for state in ("pending", "leased"):
            due += self._all(sql.DUE, remote, state, now_s, limit)
            due += self._all(sql.FAR_AHEAD, remote, state, farthest_s, limit)
        return [MemoryId(one) for one, _ in sorted(due, key=lambda pair: (pair[1], pair[0]))[:limit]]

    # --- steps

    def _unbind(self, memory_id: str, but: str | None = None) -> None:
        """Let go of the key that the memory has now, unless it is that one."""
        before = self.row(memory_id)
        if before is None or before.memory.key in (None, but):
            return
        project, key = before.memory.scope.project, before.memory.key
        if self.id_of_key(project, key) == memory_id:
            self._connection.execute(sql.DELETE, (rows.key_row(project, key),))

    def _unindex(self, memory_ids: Collection[str]) -> set[int]:
        """Take rows out of the indexes and the counts before they change. Returns where they stand."""
        row_names = [rows.memory_row(one) for one in memory_ids]
        found = self._all(sql.TAGS_OF.format(marks=sql.marks(row_names)), *row_names)
        positions = {position for position, _ in found}
        for position in positions - self._unindexed:
            first, last = rows.passage_row(position, 0), rows.passage_row(position + 1, 0) - 1
            self._connection.executemany(sql.DROP_PASSAGE, self._all(sql.PASSAGES_OF, first, last))
        indexed = json.dumps(sorted(positions - self._unindexed))
        for statement in sql.UNINDEX:
            self._connection.execute(statement, (indexed,))
        for _, tag in found:
            self._count(tag, -1)
        self._unindexed -= positions
        return positions

    def _count(self, tag: object, number: int) -> None:
        which = rows.counted_as(tag)
        if which is not None:
            self._counted[which] += number

    def _put(self, row: str, value: JsonObject) -> None:
        self._connection.execute(sql.UPSERT, (row, time.time(), None, rows.dump(value)))

    def _all(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()
