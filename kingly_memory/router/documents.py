"""What the verbs on documents and logs do to the store: one transaction each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kingly_memory.dataclass import dataclass
from kingly_memory.digests import sha256
from kingly_memory.documents import (
    Document,
    FoundDocument,
    Namespace,
    VersionConflict,
    as_json,
    ids_behind,
    namespace_of,
)
from kingly_memory.filters import Filter, admits
from kingly_memory.models import just_after
from kingly_memory.ports import DocumentReader, DocumentRows, Transaction, in_transaction
from kingly_memory.retrieval.lexical import terms
from kingly_memory.router.delivery import shared
from kingly_memory.validation import mended

OPERATIONS_KEPT_S = 30 * 86_400.0
"""An operation that is told again after that time is done again."""
READ_TOGETHER = 50
"""Documents of up to 16 MiB each."""


@dataclass(frozen=True, slots=True)
class Write:
    """A checked change of one document: its removal, or its `value`, that as JSON, and the `text` to find it by."""

    namespace: Namespace
    key: str
    if_version: int | None
    removes: bool
    value: Any = None
    json: str = ""
    text: str = ""
    ttl_s: float | None = None

    @property
    def name(self) -> str:
        return "/".join((*self.namespace, self.key))


Outcome = Document | None
"""The document as it was written; for a removal the one that was there."""


@in_transaction
def write(
    transaction: Transaction, space: str, writes: Sequence[Write], now: datetime, operation: str | None
) -> list[Outcome]:
    """All of the changes or none of them. An operation that was done before is not done again: its outcome is told.

    The change raises VersionConflict."""
    rows = transaction.documents
    if operation is None:
        return [_write(transaction, space, one, now) for one in writes]
    contents = [[change.namespace, change.key, change.removes, change.ttl_s, change.json] for change in writes]
    digest = sha256(json.dumps(contents).encode()).hexdigest()
    known = rows.operation(space, operation)
    if known is None:
        outcomes = [_write(transaction, space, one, now) for one in writes]
        rows.note_operation(space, operation, {"of": digest, "outcomes": list(map(_noted, outcomes))}, now.timestamp())
        return outcomes
    if known["of"] != digest:
        raise VersionConflict(
            f"operation {operation[:80]!r} was done before with other contents; nothing was changed. "
            "Give what is new an operation id of its own"
        )
    return [_replayed(one, noted) for one, noted in zip(writes, known["outcomes"], strict=True)]


def existing(rows: DocumentRows, space: str, namespace: Namespace, key: str, now: datetime) -> Document | None:
    """The document in that place. One that has ended is removed."""
    found = rows.document(space, namespace, key)
    if found is not None and found.is_over(now):
        rows.remove(space, namespace, key)
        return None
    return found


def next_version(rows: DocumentRows, space: str, old: Document | None) -> int:
    """A version is never given again, so that nobody takes a stranger's document for the one that he has read."""
    return (rows.last_version(space) if old is None else old.version) + 1


def _write(transaction: Transaction, space: str, write: Write, now: datetime) -> Outcome:
    rows = transaction.documents
    old = existing(rows, space, write.namespace, write.key, now)
    place, at = (write.namespace, write.key), now if old is None else just_after(old.updated_at, now)
    found = 0 if old is None else old.version
    if write.if_version not in (None, found):
        is_now = f"has version {found}" if found else "is not there"
        raise VersionConflict(
            f"the document {write.name[:200]!r} {is_now}, not version {write.if_version}; nothing was changed. "
            "Read it again, and decide by what it says now"
        )
    if write.removes:
        if old is not None:
            rows.remove(space, *place)
            shared.note(transaction, space, place, now.timestamp(), removed_at=at)
        return old
    ends_at = None if write.ttl_s is None else now + timedelta(seconds=write.ttl_s)
    created_at = now if old is None else old.created_at
    version = next_version(rows, space, old)
    document = Document(*place, write.value, version, created_at, at, ends_at, write.ttl_s)
    rows.put(space, document, write.json, write.text)
    shared.note(transaction, space, place, now.timestamp())
    return document


def _noted(outcome: Outcome) -> list[float | None] | None:
    if outcome is None:
        return None
    times = (outcome.created_at, outcome.updated_at, outcome.expires_at)
    return [outcome.version, *(None if one is None else one.timestamp() for one in times)]


def _replayed(write: Write, noted: list[Any] | None) -> Outcome:
    if noted is None:
        return None
    version, *times, ends_s = noted
    created_at, updated_at = (datetime.fromtimestamp(one, UTC) for one in times)
    ends_at = None if ends_s is None else datetime.fromtimestamp(ends_s, UTC)
    return Document(write.namespace, write.key, write.value, version, created_at, updated_at, ends_at, write.ttl_s)


# --- logs -------------------------------------------------------------------------------------------------------------


@in_transaction
def append(
    transaction: Transaction, space: str, session: str, items: Sequence[str], now: datetime, *, first: str | None = None
) -> list[str]:
    """Append items, each as JSON; with `first` in the place of those from that id on. Returns their ids."""
    if first is not None:
        cut(transaction, space, session, first, now)
    return _append(transaction, space, session, [(one, now) for one in items], now)


@in_transaction
def copy(transaction: Transaction, space: str, session: str, to: str, *, until: str | None, now: datetime) -> int:
    """Append the items of a session, up to that id, to another one."""
    found = transaction.documents.log(space, session, None if until is None else f"{until}\0", None)
    return len(_append(transaction, space, to, [(as_json(one.value), one.created_at) for one in reversed(found)], now))


@in_transaction
def pop(transaction: Transaction, space: str, session: str, now: datetime) -> Any | None:
    """Take off the last item that can be read, with those behind it."""
    found = transaction.documents.log(space, session, None, 1)
    cut(transaction, space, session, found[0].key if found else "", now)
    return found[0].value if found else None


def cut(transaction: Transaction, space: str, session: str, first: str, now: datetime) -> int:
    """Remove the items from that id on."""
    removed = transaction.documents.cut(space, session, first)
    for key in removed:
        shared.note(transaction, space, (namespace_of(session), key), now.timestamp(), removed_at=now)
    return len(removed)


def _append(
    transaction: Transaction, space: str, session: str, items: Sequence[tuple[str, datetime]], now: datetime
) -> list[str]:
    rows, namespace, ids = transaction.documents, namespace_of(session), list[str]()
    for key, (item, at) in zip(ids_behind(rows.log_end(space, session), now), items, strict=False):
        rows.put(space, Document(namespace, key, None, 0, at, at), item, "")
        shared.note(transaction, space, (namespace, key), now.timestamp())
        ids.append(key)
    return ids


@in_transaction
def tidy(transaction: Transaction, now_s: float) -> int:
    """Remove some documents that have ended, and what was noted of old operations. Returns how many documents."""
    return shared.end(transaction, transaction.documents.tidy(now_s, now_s - OPERATIONS_KEPT_S), now_s)


@in_transaction
def sweep(transaction: Transaction, space: str, prefix: Namespace, now_s: float) -> int:
    """The same for some documents of those namespaces."""
    return shared.end(transaction, transaction.documents.sweep(space, prefix, now_s), now_s)


def search(
    reader: DocumentReader,
    space: str,
    prefix: Namespace,
    query: str,
    *,
    wanted: Filter | None,
    now_s: float,
    most: int,
) -> Iterator[FoundDocument]:
    """The documents that hold a word of the query and pass the filter, best first; without a query the last changed
    first. `most` is how many the caller looks at."""
    query = mended(query)
    words, pieces = terms(query) if query.strip() else ((), ())
    limit = most if wanted is None else None
    hits = reader.found(space, prefix, now_s, words, (), most=limit) if words or not pieces else []
    if pieces:
        known = {position for position, _ in hits}
        hits += [hit for hit in reader.found(space, prefix, now_s, (), pieces, most=limit) if hit[0] not in known]
    relevance = {position: None if score is None else score / (score + 1) for position, score in hits}
    for first in range(0, len(hits), READ_TOGETHER):
        some = [position for position, _ in hits[first : first + READ_TOGETHER]]
        for position, document in reader.documents_at(some):
            if wanted is None or admits(wanted, document.value):
                yield FoundDocument(document, relevance[position])
