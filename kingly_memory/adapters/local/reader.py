"""Reading the store: memories and their revisions, what waits for a remote, contexts and vectors; by words see
`text_index`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kingly_memory.adapters.local import rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.expressions import match_expression
from kingly_memory.adapters.local.text_index import ROWS_AT_ONCE, TextIndex, read
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, MemoryStatus, MemoryType, Query
from kingly_memory.ports import (
    Change,
    Delivery,
    Ends,
    Line,
    Row,
    Space,
    Talk,
    Vector,
)

if TYPE_CHECKING:
    from kingly_memory.adapters.local.document_rows import DocumentReader

_LAST_POSITION = 2**62
_ALL = -1
_MEMORIES = sql.MEMORIES.format(marks=sql.marks(range(ROWS_AT_ONCE)))


class Reader(TextIndex, rows.SqlLookups):
    """Implements ports.StoreReader. A store that does not exist yet reads as empty."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self.in_one_go = connections.in_one_go
        self.vectors = VectorRows(connections)

    @cached_property
    def documents(self) -> DocumentReader:
        from kingly_memory.adapters.local.document_rows import DocumentReader

        return DocumentReader(self._connections.rows)

    def rows(self, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        return dict(read(self._connections, _MEMORIES, memory_ids, deadline_s, []))

    def ids_beginning(self, beginning: str, limit: int) -> list[MemoryId]:
        """Ids of memories of every project, whatever their status, that begin so."""
        return [MemoryId(one) for (one,) in self._all(sql.IDS_BEGINNING, (beginning, f"{beginning}~", limit))]

    def is_there(self, memory_id: str) -> bool:
        return bool(self._all(sql.GET_MEMORY, (memory_id,)))

    def damaged(self) -> list[str]:
        return list(dict.fromkeys(str(memory_id) for (memory_id,) in self._all(sql.DAMAGED, ())))

    def remains(self, memory_id: str) -> Row | None:
        for columns in [] if self.row(memory_id) else self._all(sql.REMAINS, (memory_id,)):
            return rows.read_remains(columns, self.revisions(memory_id))
        return None

    def with_revisions(self, more_than: int) -> dict[MemoryId, int]:
        return {MemoryId(one): count for one, count in self._all(sql.WITH_REVISIONS, (more_than,))}

    def changes(self, after: int, limit: int) -> list[Change]:
        return [Change(*columns) for columns in self._all(sql.CHANGES, (after, limit))]

    def changed(self, space: str, after: int, limit: int) -> list[tuple[int, Row | None]]:
        found = self._all(sql.CHANGED, (after, space, limit))
        return [(sequence, rows.read_row(*columns)) for sequence, *columns in found]

    def changed_since(self, space: str, after: int) -> int:
        return sum(number for (number,) in self._all(sql.CHANGED_SINCE, (after, space)))

    def size_bytes(self) -> int:
        return sum(size for (size,) in self._all(sql.SIZE, ()))  # nothing where there is no file yet

    def last_change(self, space: str = "") -> int:  # a home has one feed for all spaces
        found = self._all(sql.LAST_CHANGE, ())
        return found[0][0] if found else 0

    def facets_named(self, name: str, limit: int, after: str = "") -> list[tuple[str, JsonObject]]:
        found: list[tuple[str, JsonObject]] = []
        while not found:
            raw = self._all(sql.NAMED, (name, after, limit))
            parsed = ((owner, rows.read_facet(name, value)) for owner, value in raw)
            found += [(owner, value) for owner, value in parsed if value is not None]
            if len(raw) < limit:
                break
            after = raw[-1][0]
        return found

    def deliveries(self, remotes: Sequence[str], items: Sequence[str]) -> dict[str, dict[str, Delivery]]:
        found: dict[str, dict[str, Delivery]] = {remote: {} for remote in remotes}
        wanted = (json.dumps(list(remotes)), json.dumps(list(items)))
        for remote, item, *columns in self._all(sql.GET_DELIVERIES, wanted) if remotes and items else ():
            found[remote][item] = rows.read_delivery(remote, item, columns)
        return found

    def page(
        self,
        query: Query,
        statuses: Sequence[MemoryStatus],
        limit: int,
        start: int | None,
        *,
        oldest_first: bool = False,
    ) -> list[Row]:
        expression = match_expression(query, statuses=statuses)
        statement, beginning = (sql.PAGE_UP, 0) if oldest_first else (sql.PAGE_DOWN, _LAST_POSITION)
        position = beginning if start is None else start
        found: list[Row] = []
        while len(found) < limit:
            raw = self._all(statement, (expression, position, limit))
            found += [row for row in rows.read_rows(raw) if query.admits(row.memory)]
            if len(raw) < limit:
                break
            position = raw[-1][0]
        return found[:limit]

    def in_time(self, query: Query, statuses: Sequence[MemoryStatus], limit: int | None = None) -> list[int]:
        expression = match_expression(query, statuses=statuses)
        since_s = -math.inf if query.since is None else query.since.timestamp()
        until_s = math.inf if query.until is None else query.until.timestamp()
        found = self._all(sql.IN_TIME, (expression, since_s, until_s, _ALL if limit is None else limit))
        return [position for (position,) in found]

    def expired(self, now_s: float, limit: int, offset: int = 0) -> list[MemoryId]:
        return [MemoryId(one) for (one,) in self._all(sql.EXPIRED, (now_s, limit, offset))]

    def counts(self, space: str) -> Mapping[str, int]:
        counted = dict(self._all(sql.COUNTS, (space,)))
        return {name: counted.get(name, 0) for name in (*map(str, MemoryType), "archived")}

    def spaces(self) -> list[Space]:
        return [Space(*columns) for columns in self._all(sql.SPACES, ())]

    def counted_spaces(self) -> Mapping[str, int]:
        return dict(self._all(sql.COUNTED_SPACES, ()))

    def ends(self, space: str, now_s: float) -> Ends:
        over = dict(self._all(sql.ENDED, (space, now_s)))
        ahead = self._all(sql.NEXT_END, (space, now_s))
        return Ends({str(kind): over.get(kind, 0) for kind in MemoryType}, ahead[0][0] if ahead else None)

    def outbox_counts(self, remote: str) -> Mapping[str, int]:
        return {"pending": 0, "leased": 0, "dead": 0, **dict(self._all(sql.OUTBOX_COUNTS, (remote,)))}

    def outbox_page(
        self, remote: str, states: Sequence[str], limit: int, *, space: str | None = None
    ) -> list[tuple[MemoryId, Delivery]]:
        # In one statement: what is claimed meanwhile would stand in the page twice, or what is given back not at all.
        found = self._all(sql.OUTBOX_PAGE, (remote, json.dumps(list(states)), space, space, limit))
        return [(MemoryId(item), rows.read_delivery(remote, item, columns)) for item, *columns in found]

    def delivered_count(self, remote: str) -> int:
        found = self._all(sql.DELIVERED_COUNT, (remote,))
        return int(found[0][0]) if found else 0

    def next_due_s(self, remote: str) -> float | None:
        found = [self._all(sql.NEXT_DUE, (remote, state))[0:1] for state in ("pending", "leased")]
        times = [row[0][0] for row in found if row and row[0][0] is not None]
        return min(times, default=None)

    def by_remote_id(self, remote: str, remote_ids: Sequence[str]) -> dict[str, MemoryId]:
        found = self._all(sql.BY_REMOTE_ID, (remote, json.dumps(list(remote_ids)))) if remote_ids else ()
        return {remote_id: MemoryId(memory_id) for remote_id, memory_id in found}

    def talks(self, space: str, now_s: float) -> list[Talk]:
        return [Talk(*columns) for columns in self._all(sql.TALKS, (space, now_s))]

    def lines(self, space: str, context_ids: Sequence[str], now_s: float, most: int) -> list[Line]:
        from kingly_memory.text.topics import READ

        if not context_ids:
            return []
        values = (space, now_s, json.dumps(list(context_ids)), READ, most)
        return [
            Line(context_id, title if isinstance(title, str) else "", text, _texts(tags))
            for context_id, title, text, tags in self._all(sql.LINES, values)
            if isinstance(text, str)
        ]


class VectorRows:
    """Implements ports.VectorRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def made(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Vector] | None:
        found = self._in_time(deadline_s, sql.MADE, (embedder, space, after, limit))
        return None if found is None else [Vector(*columns) for columns in found]

    def made_of(self, embedder: str, memory_ids: Sequence[str]) -> dict[str, int]:
        return dict(self._connections.rows(sql.MADE_OF, (embedder, json.dumps(list(memory_ids)))))

    def lacking(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Row] | None:
        found: list[Row] = []
        at_end = False
        while not at_end and len(found) < limit:
            raw = self._in_time(deadline_s, sql.LACKING, (after, space, embedder, limit))
            if raw is None:
                return None
            found += rows.read_rows(raw)
            at_end, after = len(raw) < limit, raw[-1][0] if raw else after
        return found[:limit]

    def counts(self, space: str) -> dict[str, int]:
        return dict(self._connections.rows(sql.COUNT_VECTORS, (space,)))

    def lacking_count(self, embedder: str, space: str, deadline_s: float = math.inf) -> int | None:
        found = self._in_time(deadline_s, sql.COUNT_LACKING, (0, space, embedder))
        return None if found is None else found[0][0] if found else 0

    def _in_time(self, deadline_s: float, statement: str, values: tuple[Any, ...]) -> list[Any] | None:
        if time.monotonic() < deadline_s:
            with self._connections.until(deadline_s):
                return self._connections.rows(statement, values)
        return None


def _texts(tags: object) -> tuple[str, ...]:
    """The texts in a JSON list."""
    found = json.loads(tags) if isinstance(tags, str) and tags.startswith("[") else []
    return tuple(tag for tag in found if isinstance(tag, str))
