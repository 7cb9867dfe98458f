"""Documents and log items: JSON that agents and frameworks keep under a name of their own. No memory, and in no recall.

A document lies under a namespace and a key and is found by both, by its fields or by its words. An item lies in the log
of a session, in order. What was put in comes back exactly. In the store and between machines an item is a document,
too: its id is the key, and the session's name, as a path, the namespace behind the empty label `LOG`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from kingly_memory.dataclass import NamedTuple, dataclass
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.models import JsonObject, moment_text

MOST_BYTES = 16 * 2**20
"""Of one document or item, as JSON."""
PART_CHARACTERS = 196_608
"""In one call between machines: at most four bytes each, so that a reply of 1 MiB has room for them."""
DEEPEST = 100
"""Levels of objects and lists inside each other: Python's own reader ends at some hundreds."""

LOG = ""
"""The first label of a log's namespace. No document has an empty one."""
ITEM_ID = re.compile("[0-8][0-9]{15}[.]")
"""Begins the id of an item: its moment in microseconds."""
Namespace = tuple[str, ...]
"""The labels of a path."""
Place = tuple[Namespace, str]
"""A namespace and a key."""

APART_FOR = timedelta(days=30)
"""How long the earlier one of two texts stays that were written on machines that were apart."""
_KEY_LIMIT = 512


class Document(NamedTuple):
    """`value` is what JSON can say. `version` rises by 1 with each change and is never given again, also when
    the document was removed."""

    namespace: Namespace
    key: str
    value: Any
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    ttl_s: float | None = None

    def is_over(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def to_json(self) -> JsonObject:
        times = {"created_at": self.created_at, "updated_at": self.updated_at, "expires_at": self.expires_at}
        moments = {name: moment_text(time) for name, time in times.items()}
        place = {"namespace": list(self.namespace), "key": self.key}
        return {**place, "version": self.version, **moments, "value": self.value}


class FoundDocument(NamedTuple):
    """`relevance` is in (0, 1); None where nothing was asked by words."""

    document: Document
    relevance: float | None

    def to_json(self) -> JsonObject:
        return {"relevance": self.relevance, **self.document.to_json()}


@dataclass(frozen=True, slots=True)
class Put:
    """A document to be written: see `memory.documents.put`."""

    namespace: str | Sequence[str]
    key: str
    value: Any
    if_version: int | None = None
    ttl: Any = None
    index: bool | Sequence[str] = True


@dataclass(frozen=True, slots=True)
class Remove:
    """A document to be deleted: see `memory.documents.delete`."""

    namespace: str | Sequence[str]
    key: str
    if_version: int | None = None


class LogItem(NamedTuple):
    """An item of a session's log. Its `id` is the same on every machine, and so is the order of ids; none is given
    again."""

    id: str
    item: Any
    at: datetime

    def to_json(self) -> JsonObject:
        return {"id": self.id, "at": moment_text(self.at), "item": self.item}


class LogSession(NamedTuple):
    """A session that has items."""

    session: str
    items: int
    last_at: datetime

    def to_json(self) -> JsonObject:
        return {"session": self.session, "items": self.items, "last_at": moment_text(self.last_at)}


class VersionConflict(KinglyMemoryError):
    """A document has another version than the caller has seen, or the operation id was used before with other contents.
    Nothing was changed."""


def name_of(namespace: Sequence[str], key: str) -> str:
    """What a document is called between machines: a digest, so that what was purged leaves no name."""
    return sha256(as_json([*namespace, key]).encode()).hexdigest()[:32]


def namespace_of(session: str) -> Namespace:
    """Where the items of a session's log lie."""
    return (LOG, *session.split("/"))


def session_of(namespace: Sequence[str]) -> str:
    return "/".join(namespace[1:])


def shown_namespace(namespace: Sequence[str]) -> str:
    """A namespace for people: its path, or its labels as JSON where one holds a slash and the path would be that of
    another namespace."""
    return as_json([*namespace]) if any("/" in label for label in namespace) else "/".join(namespace)


def shown_place(labels: Sequence[str] | None) -> str:
    """Where a document or an item of a log lies, for people. A removed one has left no name."""
    if not labels:
        return "a removed document or log item"
    return f"an item of the log {session_of(labels[:-1])}" if labels[0] == LOG else "/".join(labels)


def ids_behind(last: str | None, now: datetime) -> Iterator[str]:
    """Ids of items that are appended behind the last one. An item is later than all that its machine has, whatever the
    clocks say, and machines that are apart make no two alike."""
    first = max(int(now.timestamp() * 1_000_000), 0 if last is None else int(last[:16]) + 1)
    who = os.urandom(4).hex()
    return (f"{moment:016d}.{who}" for moment in count(first))


def apart(key: str, at: datetime) -> str:
    """The key of what was written `at` that moment, on a machine that did not know of a later text."""
    suffix = f" (apart {at.isoformat()})"
    return key[: _KEY_LIMIT - len(suffix)] + suffix


def json_text(field: str, value: object) -> str:
    """The value as JSON, from which it comes back the same; tuples come back as lists. Raises InvalidInput."""
    _check_inside(field, value)
    try:
        text = as_json(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(field, f"is no JSON: {error}") from None
    size = len(text.encode())
    if size > MOST_BYTES:
        raise InvalidInput(field, f"has {size:,} bytes as JSON, at most {MOST_BYTES:,} are stored")
    return text


def as_json(value: object) -> str:
    """The same without a check, for values that were checked before and stand inside a larger one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8, but JSON can spell it
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def read_json(text: str) -> Any:
    """What a text says as JSON; the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def text_of(document: Document) -> str:
    """What a document is found by, where the writer did not name it. No word finds an item of a log."""
    return "" if document.namespace[0] == LOG else texts_in(document.value)


def _check_inside(field: str, value: object) -> None:
    """JSON would turn names that are no text into text, and break off where values lie too deep."""
    waiting = [(value, 1)]
    looked_at = 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, Mapping):
            if not all(isinstance(name, str) for name in item):
                raise InvalidInput(field, "has a name that is not text")
            inner = list(item.values())
        elif isinstance(item, list | tuple):
            inner = list(item)
        else:
            continue
        looked_at += len(inner)
        if inner and depth > DEEPEST:  # a value that holds itself is met here, the deepest first
            raise InvalidInput(field, f"is nested deeper than {DEEPEST} levels")
        if looked_at > MOST_BYTES:  # each takes a byte at least
            raise InvalidInput(field, f"has more than {MOST_BYTES:,} parts")
        waiting += [(part, depth + 1) for part in inner]


def texts_in(value: object, fields: Sequence[str] | None = None) -> str:
    """All texts inside a value, a line each, to find it by; of an object only those of the named fields."""
    if fields is not None:
        value = [value.get(name) for name in fields] if isinstance(value, Mapping) else None
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping):
            waiting += reversed(list(item.values()))
        elif isinstance(item, list | tuple):
            waiting += reversed(item)
    return "\n".join(found)
