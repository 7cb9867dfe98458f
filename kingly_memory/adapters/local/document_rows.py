"""Documents and the items of logs: a table beside the memories, in the same file and the same transactions."""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kingly_memory import ports
from kingly_memory.adapters.local import rows, sql
from kingly_memory.adapters.local.expressions import any_of
from kingly_memory.documents import LOG, Document, LogSession, Namespace, Place, namespace_of, session_of, text_of
from kingly_memory.models import JsonObject

log = logging.getLogger("kingly_memory.store")

_SEPARATOR = "\x1f"
"""Ends each label of a namespace in its column. No label can hold a control character."""
_BEHIND = "\x20"
"""The character after the separator."""
_LAST = "\U0010ffff" * 2
_AT_ONCE = 1_000
_LAST_VERSION = "documents"
"""The facet of a project with the highest version that a removed document had."""


class DocumentReader:
    """Implements ports.DocumentReader over whatever answers statements: a connection to read, or a transaction."""

    def __init__(self, ask: Callable[[str, Iterable[Any]], list[Any]]) -> None:
        self._ask = ask

    def document(self, space: str, namespace: Namespace, key: str) -> Document | None:
        found = self._ask(sql.GET_DOCUMENT, (space, _column(namespace), key))
        return next(iter(_documents(found)), None)

    def found_by(self, space: str, namespace: Namespace, key: str) -> str:
        found = self._ask(sql.TEXT_OF_DOCUMENT, (space, _column(namespace), key))
        return str(found[0][0]) if found else ""

    def documents(
        self, space: str, prefix: Namespace, now_s: float, limit: int, after: tuple[Namespace, str] | None
    ) -> list[Document]:
        behind = ("", "") if after is None else (_column(after[0]), after[1])
        return _documents(self._ask(sql.DOCUMENT_PAGE, (*_within(space, prefix, now_s), *behind, limit)))

    def namespaces(self, space: str, prefix: Namespace, now_s: float) -> list[Namespace]:
        return sorted(_labels(one) for (one,) in self._ask(sql.NAMESPACES, _within(space, prefix, now_s)))

    def found(
        self,
        space: str,
        prefix: Namespace,
        now_s: float,
        words: Sequence[str],
        pieces: Sequence[str],
        *,
        most: int | None,
    ) -> list[tuple[int, float | None]]:
        within, limit = _within(space, prefix, now_s), sys.maxsize if most is None else most
        if words:
            matched = self._ask(sql.DOCUMENT_MATCHES, (*within, any_of(words), limit))
            return [(position, -score) for position, score in matched]
        return [
            (position, None) for (position,) in self._ask(sql.newest_documents(len(pieces)), (*within, *pieces, limit))
        ]

    def documents_at(self, positions: Sequence[int]) -> list[tuple[int, Document]]:
        rows_at = self._ask(sql.DOCUMENTS_AT, (json.dumps(list(positions)),))
        found = {position: document for position, *columns in rows_at for document in _documents([columns])}
        return [(position, found[position]) for position in positions if position in found]

    def operation(self, space: str, operation: str) -> JsonObject | None:
        found = self._ask(sql.OPERATION, (space, operation))
        return rows.read_facet("of an operation", found[0][0]) if found else None

    def log(self, space: str, session: str, before: str | None, limit: int | None) -> list[Document]:
        found: list[Document] = []
        behind, most = _LAST if before is None else before, sys.maxsize if limit is None else limit
        within = (space, _column(namespace_of(session)))
        while len(found) < most and (page := self._ask(sql.LOG_PAGE, (*within, behind, most - len(found)))):
            found += _documents(page)
            behind = page[-1][1]
        return found

    def log_end(self, space: str, session: str) -> str | None:
        last: str | None = self._ask(sql.LOG_END, (space, _column(namespace_of(session))))[0][0]
        return last

    def sessions(self, space: str) -> list[LogSession]:
        found = self._ask(sql.LOG_SESSIONS, _within(space, (LOG,), 0.0)[:3])
        return [
            LogSession(session_of(_labels(namespace)), items, _moment(last_s)) for namespace, items, last_s in found
        ]

    def places(self, space: str, prefix: Namespace, limit: int, after: Place | None) -> list[Place]:
        found: list[tuple[str, str]] = []
        for beginning in ((LOG, *prefix), prefix):  # the namespaces of logs come before all others
            _, first, end, _ = _within(space, beginning, 0.0)
            behind = max((first, ""), ("", "") if after is None else (_column(after[0]), after[1]))
            found += self._ask(sql.DOCUMENT_PLACES, (space, end, *behind, limit - len(found)))
        return [(_labels(namespace), key) for namespace, key in found]

    def count(self, space: str) -> int:
        found = self._ask(sql.COUNT_DOCUMENTS, (space,))
        return int(found[0][0]) if found else 0


class DocumentRows(DocumentReader):
    """Implements ports.DocumentRows inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(lambda statement, values: connection.execute(statement, tuple(values)).fetchall())
        self._connection = connection

    def put(self, space: str, document: Document, value: str, text: str) -> None:
        times = (document.created_at.timestamp(), document.updated_at.timestamp())
        ends_s = None if document.expires_at is None else document.expires_at.timestamp()
        place = (space, _column(document.namespace), document.key)
        ((position,),) = self._ask(
            sql.PUT_DOCUMENT, (*place, rows.sealed(value), document.version, *times, ends_s, document.ttl_s)
        )
        if text or document.version:  # an item that is appended takes no other's place
            self._connection.execute(sql.UNINDEX_DOCUMENTS, (json.dumps([position]),))
        if text:
            self._connection.execute(sql.INDEX_DOCUMENT, (position, text))

    def last_version(self, space: str) -> int:
        found = self._ask(sql.FACET, (_LAST_VERSION, space))
        last = rows.read_facet(_LAST_VERSION, found[0][0]) if found else None
        return int(last["version"]) if last else 0

    def remove(self, space: str, namespace: Namespace, key: str) -> None:
        self._drop(self._ask(sql.DOCUMENT_ROW, (space, _column(namespace), key)))

    def extend(self, space: str, namespace: Namespace, key: str, now_s: float) -> None:
        self._connection.execute(sql.EXTEND_DOCUMENT, (space, _column(namespace), key, now_s))

    def sweep(self, space: str, prefix: Namespace, now_s: float) -> list[tuple[str, Place]]:
        return self._end(self._ask(sql.ENDED_WITHIN, (*_within(space, prefix, now_s), _AT_ONCE)))

    def tidy(self, now_s: float, operations_before_s: float) -> list[tuple[str, Place]]:
        self._connection.execute(sql.DROP_OPERATIONS, (operations_before_s,))
        return self._end(self._ask(sql.ENDED_DOCUMENTS, (now_s, _AT_ONCE)))

    def _end(self, ended: Sequence[tuple[int, str, str, str]]) -> list[tuple[str, Place]]:
        self._drop([(at,) for at, *_ in ended])
        return [(space, (_labels(namespace), key)) for _, space, namespace, key in ended]

    def _drop(self, found: Sequence[tuple[int]]) -> None:
        positions = json.dumps([position for (position,) in found])
        for space, version in self._ask(sql.LAST_VERSIONS, (positions,)):
            facet = rows.facet({"version": max(version, self.last_version(space))})
            self._connection.execute(sql.SET_FACET, (_LAST_VERSION, space, facet))
        self._connection.execute(sql.UNINDEX_DOCUMENTS, (positions,))
        self._connection.execute(sql.DROP_DOCUMENTS, (positions,))

    def purge(self, space: str) -> int:
        self._connection.execute(sql.UNINDEX_PROJECT, (space,))
        self._connection.execute(sql.DROP_PROJECTS_OPERATIONS, (space,))
        return self._connection.execute(sql.DROP_PROJECT, (space,)).rowcount

    def move(self, space: str, to: str, suffix: str) -> int:
        moved, last = self.count(space), max(self.last_version(space), self.last_version(to))
        self._connection.execute(sql.EARLIER_HERE, (space, to, suffix))
        self._connection.execute(sql.EARLIER_HERE, (to, space, suffix))
        for statement in sql.MOVE_DOCUMENTS:
            self._connection.execute(statement, (space, to))
        if last:
            self._connection.execute(sql.SET_FACET, (_LAST_VERSION, to, rows.facet({"version": last})))
        return moved - self.count(space)

    def note_operation(self, space: str, operation: str, outcome: JsonObject, now_s: float) -> None:
        self._connection.execute(sql.NOTE_OPERATION, (space, operation, rows.facet(outcome), now_s))

    def cut(self, space: str, session: str, first: str) -> list[str]:
        found = self._ask(sql.CUT_LOG, (space, _column(namespace_of(session)), first))
        self._drop([(at,) for at, _ in found])
        return [key for _, key in found]


def _column(namespace: Namespace) -> str:
    return "".join(label + _SEPARATOR for label in namespace)


def _labels(column: str) -> Namespace:
    return tuple(column.split(_SEPARATOR)[:-1])


def _within(space: str, prefix: Namespace, now_s: float) -> tuple[str, str, str, float]:
    """The values for `_LIVING`: from the namespace itself to what begins behind its last separator. The empty prefix is
    every document's, and of no log."""
    beginning = _column(prefix)
    return (space, beginning, beginning[:-1] + _BEHIND, now_s) if beginning else (space, _BEHIND, _LAST, now_s)


def _documents(found: Iterable[Sequence[Any]]) -> list[Document]:
    documents = []
    for namespace, key, value, version, created_s, updated_s, expires_s, ttl_s in found:
        try:
            ends_at = None if expires_s is None else _moment(expires_s)
            content = json.loads(rows.unsealed(value))
            documents.append(
                Document(
                    _labels(namespace), key, content, version, _moment(created_s), _moment(updated_s), ends_at, ttl_s
                )
            )
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            log.warning("a document or an item cannot be read and is left out: %s", type(error).__name__)
    return documents


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# --- what is saved of a damaged store ---------------------------------------------------------------------------------


Writing = Callable[[ports.Transaction], object]
"""Writes a document or an item of a log again."""


def kept_document(columns: Sequence[Any]) -> Writing | None:
    """None when the row says nothing that we understand. What it is found by is as usual."""
    space, *read = columns
    found = _documents([read]) if isinstance(space, str) else []
    return (lambda tx: tx.documents.put(space, found[0], rows.unsealed(read[2]), text_of(found[0]))) if found else None
