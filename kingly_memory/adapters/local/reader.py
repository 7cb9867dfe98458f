"""Reading the store: memories and their revisions, words, what waits for a remote, contexts and vectors."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kingly_memory.adapters.local import matching, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Standing
from kingly_memory.ports import (
    Beside,
    Change,
    Corpus,
    Ends,
    Line,
    Looked,
    Made,
    Mark,
    Match,
    Matches,
    Row,
    Talk,
)
from kingly_memory.writing import has_unbroken

if TYPE_CHECKING:
    from kingly_memory.adapters.local.document_rows import DocumentReader

T = TypeVar("T")

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
_MEMORIES_AT_ONCE = 8
_MEMORIES = sql.MEMORIES.format(marks=sql.marks(range(_MEMORIES_AT_ONCE)))
_MOST_WORDS = 100_000
"""Words that a reader keeps between two searches."""
LOOKED_AT = 2_000
"""Rows that one look for vectors goes over: some milliseconds."""
_LENDERS_AT_ONCE = 16
"""Between two looks at the deadline."""


class Reader:
    """Implements ports.StoreReader. A store that does not exist yet reads as empty."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.vectors = VectorRows(connections)
        self.threads = ThreadRows(connections)
        self._matching = matching.Matching(self._all, self._rows_at, connections.until)
        self._words: tuple[object, dict[object, list[str]]] = (None, {})

    @cached_property
    def documents(self) -> DocumentReader:
        from kingly_memory.adapters.local.document_rows import DocumentReader

        return DocumentReader(self._connections.rows)

    def row(self, memory_id: str) -> Row | None:
        for position, value, tag in self._all(sql.GET_MEMORY, (rows.memory_row(memory_id),)):
            return rows.read_row(position, value, tag, memory_id)
        return None

    def ids_beginning(self, beginning: str, limit: int) -> list[MemoryId]:
        """Ids of memories of every project, whatever their standing, that begin so."""
        first = rows.memory_row(beginning)
        found = self._all(sql.NAMED, (first, f"{first}~", limit))
        return [MemoryId(key.removeprefix(rows.memory_row(""))) for key, _ in found]

    def id_of_key(self, space: str, key: str) -> MemoryId | None:
        found = self._all(sql.GET, (rows.key_row(space, key),))
        return rows.read_key(found[0][0]) if found else None

    def is_there(self, memory_id: str) -> bool:
        return bool(self._all(sql.GET_MEMORY, (rows.memory_row(memory_id),)))

    def damaged(self) -> list[str]:
        return list(dict.fromkeys(str(memory_id) for (memory_id,) in self._all(sql.DAMAGED, ())))

    def revisions(self, memory_id: str) -> list[Memory]:
        found = (rows.read_record(record) for (record,) in self._all(sql.REVISIONS, (memory_id,)))
        return [one for one in found if one is not None and one.id == memory_id]

    def with_revisions(self, more_than: int) -> dict[MemoryId, int]:
        return {MemoryId(one): count for one, count in self._all(sql.WITH_REVISIONS, (more_than,))}

    def changes(self, after: int, limit: int) -> list[Change]:
        return [Change(*columns) for columns in self._all(sql.CHANGES, (after, limit))]

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        return self.facets_of({name: owners})[name]

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        names = {rows.facet_row(name, owner): (name, owner) for name, owners in wanted.items() for owner in owners}
        found: dict[str, dict[str, JsonObject]] = {name: {} for name in wanted}
        for row, value in self._all(sql.GET_MANY, (json.dumps(list(names)),)):
            facet = rows.read_facet(row, value)
            if facet is not None and row in names:
                name, owner = names[row]
                found[name][owner] = facet
        return found

    def page(
        self, query: Query, standings: Sequence[Standing], limit: int, start: int | None, *, oldest_first: bool = False
    ) -> list[Row]:
        expression = matching.match_expression(query, standings=standings)
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

    def in_time(self, query: Query, standings: Sequence[Standing], limit: int | None = None) -> list[int]:
        since, until = query.since or _FIRST_MOMENT, query.until or _LAST_MOMENT
        expression = matching.match_expression(query, standings=standings)
        within = (since.isoformat(), until.isoformat())
        found = self._all(sql.IN_TIME, (expression, *within, _ALL if limit is None else limit))
        return [position for (position,) in found]

    def expired(self, now_s: float, limit: int, offset: int = 0) -> list[MemoryId]:
        return [MemoryId(one) for (one,) in self._all(sql.EXPIRED, (now_s, limit, offset))]

    def counts(self, space: str) -> Mapping[str, int]:
        counted = dict(self._all(sql.COUNTS, (rows.token("p", space),)))
        return {name: counted.get(name, 0) for name in (*map(str, MemoryType), "archived")}

    def ends(self, space: str, now_s: float) -> Ends:
        of_project = rows.live_in_tag(space)
        over = self._all(sql.ENDED, (of_project, now_s, *(f" {rows.type_token(kind)} " for kind in MemoryType)))
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
            expression = matching.match_expression(query, f"body : ({matching.any_of(terms)})")
            only, values = matching.admitted(query, "km_passages.rowid >> 16")
            for passage, start, score in self._all(sql.PASSAGES.format(admitted=only), (expression, *values, limit)):
                found.setdefault(rows.position_of(passage), (start, -score))
        return found

    def holding(self, query: Query, term: str, limit: int, deadline_s: float) -> list[Row]:
        found: list[int] = []
        with self._connections.until(deadline_s):
            found += self._matching.latest(matching.match_expression(query, matching.any_term([term])), limit)
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
            self._connections.rows(statement, (*values, limit), noted)
        readable = matching.readable(query)
        found = self._rows_at(positions, deadline_s, cut)
        own = (Match(row, 1.0) for row in found if row.standing in readable and query.admits(row.memory))
        return Matches(tuple(own), bool(cut))

    def frequencies(
        self, query: Query, terms: Sequence[str], most: int, deadline_s: float = math.inf
    ) -> dict[str, int]:
        own = matching.in_scope([rows.token("p", query.space)])
        counted: dict[str, int] = {}
        with self._connections.until(deadline_s):
            for term in terms:
                expression = matching.any_term([term])
                found = self._all(sql.COUNT_OWN, (f"{own} AND {expression}", expression, most))
                counted[term] = int(found[0][0]) if found else 0
        return counted

    def vocabulary(self, length: int, limit: int, first: str = "") -> list[str]:
        # What was read holds for as long as the index stays as it is; asked first, so that it is never older.
        structure = self._all(sql.STRUCTURE, ())
        read_of, known = self._words
        if structure != read_of or sum(map(len, known.values())) > _MOST_WORDS:
            self._words = (structure, known := {})
        if (length, limit, first) not in known:
            found = self._all(sql.WORDS, (length, first, first + _LAST_CHARACTER, limit))
            known[length, limit, first] = [word for (word,) in found]
        return known[length, limit, first]

    def corpus(self) -> Corpus:
        found = self._all(sql.AVERAGES, ())
        return matching.corpus(found[0][0] if found else b"")

    def beside(self, query: Query, said_in: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        standings = " ".join(map(rows.standing_token, matching.readable(query)))
        episodic = f" {rows.type_token(MemoryType.EPISODIC)} "
        said = (rows.project_in_tag(query.space), episodic, f" {standings} ")
        lenders = [(position, rows.digest(context_id)) for position, context_id in said_in.items()]
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
            raw, is_all = _some(self._connections, _ROWS_AT, some, _ROWS_AT_ONCE)
            found = {columns[0]: columns for columns in raw}
            left = [] if is_all else [position for position in some if position not in found]
            waiting = left + waiting[_ROWS_AT_ONCE:]
            for columns in (found[position] for position in some if position in found):
                if read > _READ_AT_ONCE and time.monotonic() >= deadline_s:
                    cut.append(True)
                    return
                read += len(columns[1])
                row = rows.read_row(*columns)
                if row is not None:
                    yield row

    def outbox_counts(self, remote: str) -> Mapping[str, int]:
        return {"pending": 0, "leased": 0, "dead": 0, **dict(self._all(sql.OUTBOX_COUNTS, (remote,)))}

    def outbox_page(self, remote: str, states: Sequence[str], limit: int) -> list[tuple[MemoryId, JsonObject]]:
        found = [row for state in states for row in self._all(sql.OUTBOX_PAGE, (remote, state, limit))]
        facets = (
            (MemoryId(memory_id), rows.read_facet("delivery", value)) for memory_id, value in sorted(found)[:limit]
        )
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


class ThreadRows:
    """Implements ports.ThreadRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def talks(self, space: str, now_s: float) -> list[Talk]:
        found = self._connections.rows(sql.TALKS, (rows.live_in_tag(space), now_s))
        return [
            Talk(context_id, memories, mark, _time_s(first), _time_s(last))
            for context_id, memories, mark, first, last in found
            if isinstance(context_id, str)
        ]

    def said(self, space: str, context_ids: Sequence[str], now_s: float, most: int) -> list[Line]:
        from kingly_memory.topics import READ

        if not context_ids:
            return []
        values = (
            rows.live_in_tag(space),
            now_s,
            matching.in_scope(rows.token("c", one) for one in context_ids),
            READ,
            most,
        )
        return [
            Line(context_id, title if isinstance(title, str) else "", text, _texts(tags))
            for context_id, title, text, tags in self._connections.rows(sql.SAID, values)
            if isinstance(context_id, str) and isinstance(text, str)
        ]

    def named(self, facet: str, limit: int, after: str = "") -> list[tuple[str, JsonObject]]:
        prefix, beyond = rows.facet_row(facet, ""), after
        found: list[tuple[str, JsonObject]] = []
        while not found:
            raw = self._connections.rows(sql.NAMED, (prefix + beyond, facet + ";", limit))
            parsed = ((key[len(prefix) :], rows.read_facet(facet, value)) for key, value in raw)
            found += [(owner, value) for owner, value in parsed if value is not None]
            if len(raw) < limit:
                break
            beyond = raw[-1][0][len(prefix) :]
        return found


class VectorRows:
    """Implements ports.VectorRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def made(self, facet: str, space: str, mark: Mark, limit: int, deadline_s: float = math.inf) -> Looked[Made]:
        prefix = rows.facet_row(facet, "")

        def look(end: int) -> tuple[list[Made], list[Mark]]:
            asked = (len(prefix) + 1, mark.position, end, prefix, facet + ";", space, limit)
            found = self._connections.rows(sql.MADE, asked)
            parsed = ((row, rows.read_facet(facet, value), bool(gone)) for _, row, value, gone in found)
            made = [Made(MemoryId(row[len(prefix) :]), value, gone) for row, value, gone in parsed]
            return made, [Mark(at, row) for at, row, *_ in found]

        return self._looked(mark, limit, deadline_s, look)

    def lacking(self, facet: str, space: str, mark: Mark, limit: int, deadline_s: float = math.inf) -> Looked[Row]:
        prefix, own = rows.facet_row(facet, ""), rows.project_in_tag(space)

        def look(end: int) -> tuple[list[Row], list[Mark]]:
            found = self._connections.rows(sql.LACKING, (mark.position, end, own, prefix, limit))
            return rows.read_rows(found), [Mark(at, row) for at, *_, row in found]

        return self._looked(mark, limit, deadline_s, look)

    def rows(self, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        known: dict[str, Row | None] = {}
        waiting = list(memory_ids)
        while waiting and time.monotonic() < deadline_s:
            some = waiting[:_MEMORIES_AT_ONCE]
            names = [rows.memory_row(one) for one in some]
            raw, is_all = _some(self._connections, _MEMORIES, names, _MEMORIES_AT_ONCE)
            found = {name[2:]: rows.read_row(at, value, tag, name[2:]) for at, value, tag, name in raw}
            known |= {one: found.get(one) for one in some} if is_all else found
            waiting = [one for one in waiting if one not in known]
        return known

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


def _by_index(query: Query, pieces: Sequence[str]) -> tuple[str, list[Any]]:
    """By the piece index, which holds every memory with a script without word breaks."""
    long = [piece for piece in pieces if len(piece) >= _TRIGRAM]
    short = [_like(piece) for piece in pieces if len(piece) < _TRIGRAM]
    expression = [" AND ".join(map(matching.quoted, long))] if long else []
    tags, tag_values = matching.tag_conditions(query)
    fields, field_values = matching.field_condition(query)
    conditions = [*tags, *[sql.PIECE] * bool(long), *[sql.SHORT_PIECE] * len(short), fields]
    values = [*tag_values, *expression, *short, *field_values]
    return sql.PIECES.format(conditions=" AND ".join(filter(None, conditions))), values


def _by_reading(query: Query, pieces: Sequence[str]) -> tuple[str, list[Any]]:
    """By reading what the project holds, the latest first: for emoji and the like."""
    fields, values = matching.field_condition(query)
    conditions = " AND ".join(filter(None, [*[sql.LITERAL_PIECE] * len(pieces), fields]))
    written = [one for piece in pieces for one in (rows.dump_text(piece), piece)]
    return sql.LITERAL.format(conditions=conditions), [matching.match_expression(query), *written, *values]


def _nearest(positions: str | None, lender: int) -> tuple[int, ...]:
    """Positions as SQLite lists them, the nearest first."""
    found = map(int, positions.split(",")) if positions else ()
    return tuple(sorted(found, key=lambda position: abs(position - lender)))


def _like(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _some(
    connections: Connections, statement: str, names: list[Any], at_once: int
) -> tuple[list[tuple[Any, ...]], bool]:
    """The columns of the rows of those names, or only of the first where they are long, and whether it is all that are
    there."""
    read = 0

    def enough(columns: tuple[Any, ...]) -> bool:
        nonlocal read
        read += len(columns[1])
        return read > _READ_AT_ONCE

    marked = [*names, *(names[-1:] * (at_once - len(names)))]  # always the same statement
    return connections.rows(statement, marked, enough), read <= _READ_AT_ONCE


def _texts(said: object) -> tuple[str, ...]:
    """The texts in a JSON list."""
    found = json.loads(said) if isinstance(said, str) and said.startswith("[") else []
    return tuple(one for one in found if isinstance(one, str))


def _time_s(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except (ValueError, OverflowError):
        return math.inf
