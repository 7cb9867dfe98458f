"""Reading the store over raw read-only connections, one per thread. Loads neither diskcache nor asyncio.

Opening diskcache costs dozens of write statements and waits for a held lock; a hook or `search --local` must not.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kingly_memory.adapters.local import inspection, rows, sql
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.errors import StoreDamaged
from kingly_memory.models import JsonObject, MemoryId, MemoryType, Query, Standing
from kingly_memory.ports import Match, Matches, Row

_STEPS_BETWEEN_LOOKS = 2_000
"""SQLite instructions between two looks at the deadline: about 20 µs."""
_LAST_POSITION = 2**62
_ROWS_FOR_SPELLING = 5
_STEM_KEPT = 3
"""Letters that a stem shares with its word: the stemmer may change the end (`happy` → `happi`)."""
_WORD = re.compile(r"[^\W_]+")


class Reader:
    """Implements ports.StoreReader. A store that does not exist yet reads as empty."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._local = threading.local()

    def row(self, memory_id: str) -> Row | None:
        found = self._all(sql.GET_MEMORY, (rows.memory_row(memory_id),))
        return rows.row(*found[0]) if found else None

    def id_of_key(self, project: str, key: str) -> MemoryId | None:
        found = self._all(sql.GET, (rows.key_row(project, key),))
        return MemoryId(rows.load(found[0][0])["id"]) if found else None

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        prefix = rows.facet_row(name, "")
        found = self._all(sql.GET_MANY.format(marks=_marks(owners)), [prefix + owner for owner in owners])
        return {key[len(prefix) :]: rows.load(value) for key, value in found}

    def page(self, query: Query, standings: Sequence[Standing], limit: int, before: int | None) -> list[Row]:
        expression = rows.filter_expression(query, standings)
        position = _LAST_POSITION if before is None else before
        found: list[Row] = []
        while len(found) < limit:
            raw = self._all(sql.PAGE, (expression, position, limit))
            candidates = [rows.row(*one) for one in raw]
            found += [row for row in candidates if query.admits(row.memory)]
            if len(raw) < limit:
                break
            position = candidates[-1].position
        return found[:limit]

    def counts(self, project: str) -> Mapping[str, int]:
        live = rows.standing_token(Standing.LIVE)
        archived = rows.standing_token(Standing.ARCHIVED)
        counts = {
            kind.value: self._count(rows.counted_expression(project, live, rows.type_token(kind)))
            for kind in MemoryType
        }
        return {**counts, "archived": self._count(rows.counted_expression(project, archived))}

    def matches(self, query: Query, terms: Sequence[str], limit: int, offset: int, deadline_s: float) -> Matches:
        if not terms:
            return Matches(())
        expression = f"{rows.filter_expression(query)} AND {rows.any_term(terms)}"
        with self._until(deadline_s) as cut:
            found = self._all(sql.MATCHES, (expression, limit, offset))
            return Matches(tuple(Match(rows.row(*one[:3]), -one[3]) for one in found))
        return Matches((), cut=bool(cut))

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        if not pieces:
            return Matches(())
        with self._until(deadline_s) as cut:
            found = self._pieces(pieces, limit * 4) or self._literal(query, pieces, limit)
            candidates = (rows.row(*one) for one in found)
            readable = rows.readable(query)
            kept = [row for row in candidates if row.standing in readable and query.admits(row.memory)]
            return Matches(tuple(Match(row, 1.0) for row in kept[:limit]))
        return Matches((), cut=bool(cut))

    def frequencies(self, query: Query, terms: Sequence[str], most: int) -> dict[str, int]:
        own = rows.project_expression(query.project)
        counted: dict[str, int] = {}
        for term in terms:
            expression = rows.any_term([term])
            known = self._count(f"{own} AND {expression}", 1)
            counted[term] = self._count(expression, most) if known else 0
        return counted

    def vocabulary(self, length: int, spread: int, limit: int) -> list[str]:
        return [term for (term,) in self._all(sql.WORDS, (length - spread, length + spread, limit))]

    def spellings(self, query: Query, stem: str) -> set[str]:
        expression = f"{rows.filter_expression(query)} AND {rows.words_beginning(stem)}"
        found = self._all(sql.PAGE, (expression, _LAST_POSITION, _ROWS_FOR_SPELLING))
        memories = [row.memory for row in (rows.row(*one) for one in found) if query.admits(row.memory)]
        said = " ".join(" ".join((one.title or "", one.content, *one.tags)) for one in memories).casefold()
        return {word for word in _WORD.findall(said) if word.startswith(stem[:_STEM_KEPT])}

    def holds(self, position: int, terms: Sequence[str]) -> set[str]:
        return {term for term in terms if self._all(sql.HOLDS, (rows.any_term([term]), position))}

    def outbox_counts(self, remote: str) -> Mapping[str, int]:
        return {"pending": 0, "leased": 0, "dead": 0, **dict(self._all(sql.OUTBOX_COUNTS, (remote,)))}

    def outbox_page(self, remote: str, states: Sequence[str], limit: int) -> list[tuple[MemoryId, JsonObject]]:
        found = [row for state in states for row in self._all(sql.OUTBOX_PAGE, (remote, state, limit))]
        return [(MemoryId(memory_id), rows.load(value)) for memory_id, value in sorted(found)[:limit]]

    def next_due_s(self, remote: str) -> float | None:
        found = [self._all(sql.NEXT_DUE, (remote, state))[0:1] for state in ("pending", "leased")]
        times = [one[0][0] for one in found if one and one[0][0] is not None]
        return min(times, default=None)

    def by_remote_id(self, remote: str, remote_ids: Sequence[str]) -> dict[str, MemoryId]:
        if not remote_ids:
            return {}
        found = self._all(sql.BY_REMOTE_ID.format(marks=_marks(remote_ids)), (*remote_ids, remote))
        return {remote_id: MemoryId(memory_id) for remote_id, memory_id in found}

    def layout(self) -> int:
        """The layout number of the store on disk, 0 when there is none."""
        connection = self._connection()
        return 0 if connection is None else inspection.layout_of(connection)

    def close(self) -> None:
        """Close this thread's connection; those of other threads go with their threads."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid == os.getpid():
            connection.close()
        self._local.connection = None

    def _pieces(self, pieces: Sequence[str], limit: int) -> list[Any]:
        conditions = " AND ".join([sql.PIECE] * len(pieces))
        return self._all(sql.PIECES.format(conditions=conditions), (*map(_like, pieces), limit))

    def _literal(self, query: Query, pieces: Sequence[str], limit: int) -> list[Any]:
        conditions = " AND ".join([sql.LITERAL_PIECE] * len(pieces))
        return self._all(sql.LITERAL.format(conditions=conditions), (rows.filter_expression(query), *pieces, limit))

    def _count(self, expression: str, most: int = -1) -> int:
        found = self._all(sql.COUNT_MATCHES, (expression, most))
        return int(found[0][0]) if found else 0

    def _all(self, statement: str, values: Iterable[Any]) -> list[Any]:
        connection = self._connection()
        if connection is None:
            return []
        try:
            return connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(str(self._folder.store), str(error)) from error

    def _connection(self) -> sqlite3.Connection | None:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid == os.getpid():
            return connection
        if not self._folder.exists():
            return None
        self._folder.check()
        connection = inspection.connect_read_only(self._folder.database)
        inspection.check_objects(connection, self._folder.store)
        if not inspection.layout_of(connection):
            connection.close()
            return None
        self._local.connection, self._local.pid = connection, os.getpid()
        return connection

    @contextmanager
    def _until(self, deadline_s: float) -> Iterator[list[bool]]:
        """Interrupt SQLite at the deadline. The body is left early then, and the list is no longer empty."""
        connection = self._connection()
        cut: list[bool] = []
        if connection is None:
            yield cut
            return
        connection.set_progress_handler(lambda: time.monotonic() > deadline_s, _STEPS_BETWEEN_LOOKS)
        try:
            yield cut
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            cut.append(True)
        finally:
            connection.set_progress_handler(None, 0)


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


def _like(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
