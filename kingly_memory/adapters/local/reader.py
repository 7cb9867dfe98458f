"""Reading the store: memories, words and what waits for a remote."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.matching import Matching
from kingly_memory.adapters.local.thread_rows import ThreadRows
from kingly_memory.adapters.local.vector_rows import VectorRows
from kingly_memory.adapters.local.vocabulary import KnownWords
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, MemoryType, Query, Standing
from kingly_memory.ports import Beside, Corpus, Ends, Match, Matches, Row
from kingly_memory.writing import has_unbroken

if TYPE_CHECKING:
    from kingly_memory.adapters.local.document_rows import DocumentReader

_LAST_POSITION = 2**62
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
_ALL = -1
_LAST_CHARACTER = "\U0010ffff"
_TRIGRAM = 3
_ROWS_AT_ONCE = 20
_READ_AT_ONCE = 65_536
"""Characters of memories between two looks at the deadline."""
_ROWS_AT = sql.ROWS_AT.format(marks=sql.marks(range(_ROWS_AT_ONCE)))
_LENDERS_AT_ONCE = 16
"""Between two looks at the deadline."""


class Reader:
    """Implements ports.StoreReader. A store that does not exist yet reads as empty."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.vectors = VectorRows(connections)
        self.threads = ThreadRows(connections)
        self._matching = Matching(self._all, self._rows_at, connections.until)
        self._words = KnownWords()

    @cached_property
    def documents(self) -> DocumentReader:
        from kingly_memory.adapters.local.document_rows import DocumentReader

        return DocumentReader(self._connections.rows)

    def row(self, memory_id: str) -> Row | None:
        found = self._all(sql.GET_MEMORY, (rows.memory_row(memory_id),))
        return parsing.row(*found[0]) if found else None

    def id_of_key(self, project: str, key: str) -> MemoryId | None:
        found = self._all(sql.GET, (rows.key_row(project, key),))
        return parsing.pointed_at(found[0][0]) if found else None

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        return self.facets_of({name: owners})[name]

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        names = {rows.facet_row(name, owner): (name, owner) for name, owners in wanted.items() for owner in owners}
        found: dict[str, dict[str, JsonObject]] = {name: {} for name in wanted}
        for row, value in self._all(sql.GET_MANY, (json.dumps(list(names)),)):
            facet = parsing.facet(row, value)
            if facet is not None and row in names:
                name, owner = names[row]
                found[name][owner] = facet
        return found

    def page(
        self, query: Query, standings: Sequence[Standing], limit: int, start: int | None, *, oldest_first: bool = False
    ) -> list[Row]:
        expression = rows.match_expression(query, standings=standings)
        statement, beginning = (sql.PAGE_UP, 0) if oldest_first else (sql.PAGE_DOWN, _LAST_POSITION)
        position = beginning if start is None else start
        found: list[Row] = []
        while len(found) < limit:
            raw = self._all(statement, (expression, position, limit))
            found += [row for row in parsing.rows(raw) if query.admits(row.memory)]
            if len(raw) < limit:
                break
            position = raw[-1][0]
        return found[:limit]

    def in_time(self, query: Query, standings: Sequence[Standing], limit: int | None = None) -> list[int]:
        since, until = query.since or _FIRST_MOMENT, query.until or _LAST_MOMENT
        expression = rows.match_expression(query, standings=standings)
        within = (since.isoformat(), until.isoformat())
        found = self._all(sql.IN_TIME, (expression, *within, _ALL if limit is None else limit))
        return [position for (position,) in found]

    def expired(self, now_s: float, limit: int, offset: int = 0) -> list[MemoryId]:
        return [MemoryId(one) for (one,) in self._all(sql.EXPIRED, (now_s, limit, offset))]

    def counts(self, project: str) -> Mapping[str, int]:
        counted = dict(self._all(sql.COUNTS, (rows.project_token(project),)))
        return {name: counted.get(name, 0) for name in (*map(str, MemoryType), "archived")}

    def ends(self, project: str, now_s: float) -> Ends:
        of_project = rows.live_in_tag(project)
        over = self._all(sql.ENDED, (of_project, now_s, *map(rows.type_in_tag, MemoryType)))
        if not over:  # nothing was ever stored
            return Ends({}, None)
        ahead = self._all(sql.NEXT_END, (of_project, now_s))
        return Ends(dict(zip(map(str, MemoryType), over[0], strict=True)), ahead[0][0] if ahead else None)

    def matches(
        self,
        query: Query,
        terms: Sequence[str],
        limit: int,
        offset: int,
        deadline_s: float,
        *,
        rows_with: Mapping[str, int] | None = None,
    ) -> Matches:
        if not terms:
            return Matches(())
        return self._matching.matches(query, terms, limit, offset=offset, deadline_s=deadline_s, rows_with=rows_with)

    def passages(
        self, query: Query, terms: Sequence[str], limit: int, deadline_s: float
    ) -> dict[int, tuple[int, float]]:
        found: dict[int, tuple[int, float]] = {}
        with self._connections.until(deadline_s):
            for passage, start, score in self._all(sql.PASSAGES, (rows.passages_expression(query, terms), limit)):
                found.setdefault(rows.position_of(passage), (start, -score))
        return found

    def holding(self, query: Query, term: str, limit: int, deadline_s: float) -> list[Row]:
        found: list[int] = []
        with self._connections.until(deadline_s):
            found += self._matching.latest(rows.match_expression(query, rows.any_term([term])), limit)
        return self.rows_at(found, time.monotonic())

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        if not pieces:
            return Matches(())
        positions: list[int] = []

        def noted(columns: tuple[Any, ...]) -> bool:
            positions.append(columns[0])
            return False

        with self._connections.until(deadline_s) as cut:
            statement, values = (_by_index if all(map(has_unbroken, pieces)) else _by_reading)(query, pieces)
            self._connections.rows(statement, (*values, limit * 4), noted)
        readable = rows.readable(query)
        found = self._rows_at(positions, deadline_s, cut)
        own = (Match(row, 1.0) for row in found if row.standing in readable and query.admits(row.memory))
        return Matches(tuple(islice(own, limit)), bool(cut))

    def frequencies(
        self, query: Query, terms: Sequence[str], most: int, deadline_s: float = math.inf
    ) -> dict[str, int]:
        own = rows.project_expression(query.project)
        counted: dict[str, int] = {}
        with self._connections.until(deadline_s):
            for term in terms:
                expression = rows.any_term([term])
                found = self._all(sql.COUNT_OWN, (f"{own} AND {expression}", expression, most))
                counted[term] = int(found[0][0]) if found else 0
        return counted

    def vocabulary(self, length: int, limit: int, first: str = "") -> list[str]:
        structure = self._all(sql.STRUCTURE, ())  # before the words, so that these are never older

        def read() -> list[str]:
            return [word for (word,) in self._all(sql.WORDS, (length, first, first + _LAST_CHARACTER, limit))]

        return self._words.of((length, first, limit), structure, read)

    def corpus(self) -> Corpus:
        found = self._all(sql.AVERAGES, ())
        return parsing.corpus(found[0][0] if found else b"")

    def beside(self, query: Query, said_in: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        standings = " ".join(map(rows.standing_token, rows.readable(query)))
        said = (rows.project_in_tag(query.project), rows.type_in_tag(MemoryType.EPISODIC), f" {standings} ")
        lenders = [(position, rows.context_digest(context_id)) for position, context_id in said_in.items()]
        found: dict[int, Beside] = {}
        with self._connections.until(deadline_s):
            for first in range(0, len(lenders), _LENDERS_AT_ONCE):
                some = json.dumps(lenders[first : first + _LENDERS_AT_ONCE])
                for at, before, after in self._all(sql.NEAR, (some, reach, *said)):
                    found[at] = Beside(_nearest(before, at), _nearest(after, at))
        return found

    def rows_at(self, positions: Sequence[int], deadline_s: float) -> list[Row]:
        return list(self._rows_at(positions, deadline_s, []))

    def _rows_at(self, positions: Sequence[int], deadline_s: float, cut: list[bool]) -> Iterator[Row]:
        """Few at a time, since a memory may be a thousand times as long as most. Ended by the deadline, which `cut`
        then notes, but not before a little was read: on a crowded machine the time may be over at the start."""
        waiting, read = list(positions), 0
        while waiting:
            some = waiting[:_ROWS_AT_ONCE]
            found, is_all = self._some_rows(some)
            left = [] if is_all else [position for position in some if position not in found]
            waiting = left + waiting[_ROWS_AT_ONCE:]
            for columns in (found[position] for position in some if position in found):
                if read > _READ_AT_ONCE and time.monotonic() >= deadline_s:
                    cut.append(True)
                    return
                read += len(columns[1])
                row = parsing.row(*columns)
                if row is not None:
                    yield row

    def _some_rows(self, positions: list[int]) -> tuple[dict[int, Any], bool]:
        """The columns of these rows, or only of some when they are long, and whether it is all that are there."""
        read = 0

        def enough(columns: tuple[Any, ...]) -> bool:
            nonlocal read
            read += len(columns[1])
            return read > _READ_AT_ONCE

        marked = [*positions, *(positions[-1:] * (_ROWS_AT_ONCE - len(positions)))]  # always the same statement
        found = {one[0]: one for one in self._connections.rows(_ROWS_AT, marked, enough)}
        return found, read <= _READ_AT_ONCE

    def outbox_counts(self, remote: str) -> Mapping[str, int]:
        return {"pending": 0, "leased": 0, "dead": 0, **dict(self._all(sql.OUTBOX_COUNTS, (remote,)))}

    def outbox_page(self, remote: str, states: Sequence[str], limit: int) -> list[tuple[MemoryId, JsonObject]]:
        found = [row for state in states for row in self._all(sql.OUTBOX_PAGE, (remote, state, limit))]
        facets = ((MemoryId(memory_id), parsing.facet("delivery", value)) for memory_id, value in sorted(found)[:limit])
        return [(memory_id, facet) for memory_id, facet in facets if facet is not None]

    def delivered_count(self, remote: str) -> int:
        beginning = rows.facet_row("delivery", remote)
        found = self._all(sql.DELIVERED_COUNT, (f"{beginning}:", f"{beginning};"))
        return int(found[0][0]) if found else 0

    def next_due_s(self, remote: str) -> float | None:
        found = [self._all(sql.NEXT_DUE, (remote, state))[0:1] for state in ("pending", "leased")]
        times = [one[0][0] for one in found if one and one[0][0] is not None]
        return min(times, default=None)

    def by_remote_id(self, remote: str, remote_ids: Sequence[str]) -> dict[str, MemoryId]:
        if not remote_ids:
            return {}
        found = self._all(sql.BY_REMOTE_ID.format(marks=sql.marks(remote_ids)), (*remote_ids, remote))
        return {remote_id: MemoryId(memory_id) for remote_id, memory_id in found}

    def _all(self, statement: str, values: Iterable[Any]) -> list[Any]:
        return self._connections.rows(statement, values)


def _by_index(query: Query, pieces: Sequence[str]) -> tuple[str, list[str]]:
    """By the piece index, which holds every memory with a script without word breaks."""
    long = [piece for piece in pieces if len(piece) >= _TRIGRAM]
    short = [_like(piece) for piece in pieces if len(piece) < _TRIGRAM]
    conditions = " AND ".join([sql.PIECE] * bool(long) + [sql.SHORT_PIECE] * len(short))
    expression = [rows.all_pieces(long)] if long else []
    return sql.PIECES.format(conditions=conditions), [rows.project_in_tag(query.project), *expression, *short]


def _by_reading(query: Query, pieces: Sequence[str]) -> tuple[str, list[str]]:
    """By reading what the project holds, the latest first: for emoji and the like."""
    conditions = " AND ".join([sql.LITERAL_PIECE] * len(pieces))
    written = [one for piece in pieces for one in (rows.dump_text(piece), piece)]
    return sql.LITERAL.format(conditions=conditions), [rows.match_expression(query), *written]


def _nearest(positions: str | None, lender: int) -> tuple[int, ...]:
    """Positions as SQLite lists them, the nearest first."""
    found = map(int, positions.split(",")) if positions else ()
    return tuple(sorted(found, key=lambda position: abs(position - lender)))


def _like(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
