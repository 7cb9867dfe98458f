"""How memories, facets and deliveries lie in the rows of the store, and how they are looked up and read back.

A row that is damaged, or that another program wrote, is left out and logged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from kingly_memory.adapters.local import sql
from kingly_memory.dataclass import replace
from kingly_memory.digests import blake2b, sha256
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, JsonObject, Memory, MemoryStatus, MemoryType, Origin, Scope
from kingly_memory.ports import Delivery, Row
from kingly_memory.text.writing import has_unbroken

if TYPE_CHECKING:
    from sqlite3 import Connection

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_decode = json.JSONDecoder().raw_decode
_DIGEST = ',"digest":"'
_STATES = {state.value: state for state in DeliveryState}
DAMAGED = "(what this memory said was damaged on disk)"
"""The text of a memory whose own text is lost, until it is forgotten."""
_STATUSES = {status.value: status for status in MemoryStatus}
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_ID = re.compile(r'\{"id":"([0-9a-f-]{36})"')
_PASSAGE_BITS = 16
"""The longest text that a memory may have has some thousands of passages."""
_UNREADABLE_DELIVERY = "what was noted of its delivery cannot be read"
_NONE = type(None)
_DELIVERY: Mapping[str, tuple[type, ...]] = {
    "state": (str,),
    "due": (float, int, _NONE),
    "wanted": (int,),
    "acknowledged": (int,),
    "first_sent": (int,),
    "attempts": (int,),
    "refusals": (int,),
    "owner": (str, _NONE),
    "remote_id": (str, _NONE),
    "last_error": (str, _NONE),
}
"""The fields of a delivery in the order of `sql.DELIVERY`, whose last column is their digest."""


# --- values -----------------------------------------------------------------------------------------------------------


def passage_row(position: int, number: int) -> int:
    """The rowid of a passage of the memory at that position; `position_of` tells which that is."""
    return position << _PASSAGE_BITS | number


def position_of(passage: int) -> int:
    return passage >> _PASSAGE_BITS


def dump(value: JsonObject) -> str:
    return _encoder.encode(value)


def facet(value: JsonObject) -> str:
    """How a facet lies in its row."""
    return sealed(dump(value))


def dump_text(text: str) -> str:
    """How a text stands within a dumped value."""
    return _encoder.encode(text)[1:-1]


def record(memory: Memory) -> str:
    """The record of a memory: its JSON object, of which the last member is a digest of all before it.

    As `dump` writes `memory.to_json()`, which takes three times as long: most of it is said of many memories.
    """
    scope, created = memory.scope, memory.created_at.isoformat()
    updated = created if memory.updated_at is memory.created_at else memory.updated_at.isoformat()
    body = (
        f'{{"id":{_encoder.encode(memory.id)},"key":{_often(memory.key)},"content":{_encoder.encode(memory.content)},'
        f'"type":"{memory.type}","significance":{_often(memory.significance)},"confidence":{_often(memory.confidence)},'
        f'"tags":{_often(memory.tags)},"title":{_often(memory.title)},'
        f'"scope":{_scope_text(scope.project, scope.user, scope.agent, scope.context_id)},"origin":"{memory.origin}",'
        f'"created_at":"{created}","updated_at":"{updated}","revision":{_often(memory.revision)},'
        f'"metadata":{dump(memory.metadata) if memory.metadata else "{}"}'
    )
    return f'{body}{_DIGEST}{_digest_of(body)}"}}'


@lru_cache(maxsize=4_096, typed=True)  # 1 and 1.0 are two texts
def _often(value: str | float | tuple[str, ...] | None) -> str:
    return _encoder.encode(value)


@lru_cache(maxsize=512)
def _scope_text(project: str | None, user: str | None, agent: str | None, context_id: str | None) -> str:
    return dump(Scope(project, user, agent, context_id).to_json())


def is_whole(value: str) -> bool:
    """Whether a memory's value is as it was written."""
    body, found, digest_of_it = value.rpartition(_DIGEST)
    return bool(found) and digest_of_it == f'{_digest_of(body)}"}}'


def sealed(text: str) -> str:
    """How facets, documents, items and outcomes lie in their rows: JSON on one line, and its digest on the next."""
    return f"{text}\n{_digest_of(text)}"


def unsealed(value: Any) -> str:
    """The JSON in such a row. Raises ValueError when it is not as it was written."""
    text, _, found = value.rpartition("\n") if isinstance(value, str) else ("", "", "")
    if found != _digest_of(text):
        raise ValueError("its digest is another one")
    return text


def teach(connection: Connection) -> None:
    """Make what tells damaged rows known to statements. They hand over bytes: they fail where they are to make text of
    what is none."""

    def is_sealed(value: bytes) -> bool:
        text, _, found = value.decode(errors="replace").rpartition("\n")
        return found == _digest_of(text)

    connection.create_function("is_whole", 1, lambda value: is_whole(value.decode(errors="replace")))
    connection.create_function("is_sealed", 1, is_sealed)
    connection.create_function("delivery_digest", -1, delivery_digest)


def _digest_of(text: str) -> str:
    """A CRC of 32 bits would let pass one of four billion damages; this is as quick."""
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


# --- columns ----------------------------------------------------------------------------------------------------------


def columns(memory: Memory, status: MemoryStatus, now_s: float) -> tuple[Any, ...]:
    """What km_memory says of a memory, in the order of its columns."""
    scope, created_s = memory.scope, memory.created_at.timestamp()
    return (
        memory.id,
        str(status),
        scope.space,
        scope.context_id,
        str(memory.type),
        memory.key,
        memory.revision,
        memory.significance,
        created_s,
        created_s if memory.updated_at is memory.created_at else memory.updated_at.timestamp(),
        now_s,
        not memory.content.isascii() and has_unbroken(memory.content),
        said(memory) if memory.key is None else None,
        scope_tokens(scope.space, scope.agent, scope.context_id, memory.type, memory.tags),
    )


def said(memory: Memory) -> int:
    """A digest of what makes two memories without a key the same: their words, type and metadata, where and by whom
    they were said. A signed number of 64 bits."""
    scope, metadata = memory.scope, json.dumps(memory.metadata) if memory.metadata else ""
    where = f"{scope.space}\0{scope.agent}\0{scope.context_id}\0{memory.type}\0{memory.origin}"
    text = f"{where}\0{memory.title}\0{metadata}\0{memory.content}".encode(errors="replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


Texts = tuple[str | None, str, str, str]
"""Title, text, tags and scope."""


def texts(memory: Memory, status: MemoryStatus, scope: str) -> Texts:
    """What the text index is told of a memory, just as `km_text_source` has it."""
    title = memory.title and memory.title.replace("\0", " ")
    return title, memory.content.replace("\0", " "), _often(memory.tags), f"{status_token(status)} {scope}"


def counted_as(space: str, kind: str, status: str) -> tuple[str, str] | None:
    """Under which project and name `counts` counts a memory, if it does."""
    if status == MemoryStatus.ARCHIVED:
        return space, "archived"
    return (space, kind) if status == MemoryStatus.LIVE else None


# --- tokens -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def scope_tokens(space: str, agent: str | None, context_id: str | None, kind: MemoryType, tags: tuple[str, ...]) -> str:
    """The scope, type and tags of a memory, each as one token of the text index."""
    found = [token("p", space)]
    if agent is not None:
        found.append(token("a", agent))
    if context_id is not None:
        found.append(token("c", context_id))
    return " ".join([*found, type_token(kind), *[token("g", tag) for tag in tags]])


def token(kind: Literal["p", "a", "c", "g"], text: str) -> str:
    """The index token of a project, agent, context or tag. Digested, because the stemmer of the index would match `app`
    with `apps`."""
    return kind + digest(text)


def type_token(kind: MemoryType) -> str:
    return "y" + kind


def status_token(status: MemoryStatus) -> str:
    return "v" + status


@lru_cache(maxsize=512)
def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:20]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_row(position: int, value: Any, status: Any, memory_id: str | None = None) -> Row | None:
    """The memory in a row, given its columns; None when there is none in it, or not the one that was looked up by its
    id: an index may be damaged, too."""
    try:
        row = Row(position, _memory(value), _STATUSES[status])
        if memory_id not in (None, row.memory.id):
            raise ValueError("another memory lies there")
        return row
    except _UNREADABLE as error:
        _leave_out(f"row {position}", value, error)
        return None


def read_remains(columns: Sequence[Any], earlier: Sequence[Memory]) -> Row | None:
    """What is known of a memory whose record is damaged, given the columns of `REMAINS` and its earlier revisions: it
    says what it said last, or that it is damaged. None where these columns are damaged, too."""
    from datetime import UTC, datetime  # few stores are damaged

    try:
        position, status, memory_id, space, context, kind, key, revision, significance, created_s, updated_s = columns
        scope = Scope.within(space, context_id=context)
        created, updated = (datetime.fromtimestamp(at_s, UTC) for at_s in (created_s, updated_s))
        memory = earlier[0] if earlier else Memory(
            memory_id, key, DAMAGED, MemoryType(kind), significance, 1.0, (), None, scope, Origin.USER,
            created, updated, revision,
        )  # fmt: skip
        scope = replace(memory.scope, project=scope.project, user=scope.user, context_id=context)
        return Row(position, replace(memory, key=key, scope=scope, revision=revision), _STATUSES[status])
    except _UNREADABLE as error:
        _leave_out("what lies beside a damaged row", None, error)
        return None


def read_rows(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The memories in rows that begin with position, value and status."""
    parsed = (read_row(*columns[:3]) for columns in found)
    return [row for row in parsed if row is not None]


def read_record(value: Any) -> Memory | None:
    """The memory in an earlier revision; None when there is none in it."""
    try:
        return _memory(value)
    except _UNREADABLE as error:
        _leave_out("an earlier revision", value, error)
        return None


def read_facet(name: str, value: Any) -> JsonObject | None:
    """The JSON object in a facet's row; None when there is none in it."""
    try:
        parsed = json.loads(unsealed(value))
        if not isinstance(parsed, dict):
            raise TypeError("no object")
    except _UNREADABLE as error:
        _leave_out(f"row {name}", value, error)
        return None
    return parsed


_delivery_values: Callable[[Delivery], tuple[Any, ...]] = attrgetter("state.value", *[*_DELIVERY][1:])


def delivery_columns(remote: str, item: str, delivery: Delivery) -> tuple[Any, ...]:
    """How a delivery lies in its row, whose last column is a digest of the others."""
    values = remote, item, *_delivery_values(delivery)
    return *values, delivery_digest(*values)


def delivery_digest(*values: Any) -> str:
    """SQLite gives back some whole numbers as floats."""
    return _digest_of(repr([float(value) if isinstance(value, int) else value for value in values]))


def read_delivery(remote: str, item: str, found: Sequence[Any]) -> Delivery:
    """A delivery, given its columns. What cannot be read, or is not as it was written, becomes a dead one, which may
    have been sent: it is in nobody's way, and the user can have it tried again."""
    *values, digest = found
    fields: dict[str, Any] = {
        name: value for (name, kinds), value in zip(_DELIVERY.items(), values, strict=True) if isinstance(value, kinds)
    }
    is_sound = fields.keys() == _DELIVERY.keys() and fields["state"] in _STATES
    if is_sound and digest == delivery_digest(remote, item, *values):
        return Delivery(**{**fields, "state": _STATES[fields["state"]]})
    change, remote_id = fields.get("wanted", 1), fields.get("remote_id")
    return Delivery(
        change, None, DeliveryState.DEAD, first_sent=change, remote_id=remote_id, last_error=_UNREADABLE_DELIVERY
    )


def _memory(value: Any) -> Memory:
    """Whoever prepares a store can write a digest too, so each field is looked at, which `from_json` does not."""
    if not is_whole(value):
        raise ValueError("its digest is another one")
    memory: Any = Memory.from_json(_decode(value)[0])
    scope = memory.scope
    is_sound = (
        {type(memory.id), type(memory.content), type(scope.space), *map(type, memory.tags)} == {str}
        and {type(memory.key), type(memory.title), type(scope.agent), type(scope.context_id)} <= {str, _NONE}
        and isinstance(memory.significance, (int, float))  # a union would be made anew for every memory
        and isinstance(memory.confidence, (int, float))
        and isinstance(memory.revision, int)
        and isinstance(memory.metadata, dict)
        and memory.created_at.tzinfo is not None
        and memory.updated_at.tzinfo is not None
    )
    if not is_sound:
        raise TypeError("an unsound field")
    found: Memory = memory
    return found


def _leave_out(row_name: str, value: Any, error: Exception) -> None:
    """The error's own text may quote the row."""
    import logging  # loaded when there is something to say: most commands have nothing

    found = _ID.match(value) if isinstance(value, str) else None
    described = row_name if found is None else f"{row_name}, memory {found[1]},"
    log = logging.getLogger("kingly_memory.store")
    log.warning("%s of the memory store cannot be read and is left out (%s)", described, type(error).__name__)


# --- looking up -------------------------------------------------------------------------------------------------------


class SqlLookups:
    """What a change and a reader look up alike, in a home's store and in a hub's PostgreSQL: implements what both have
    of ports.Lookups, and only the statements differ. `_all` gives all rows of a statement."""

    _all: Callable[[str, tuple[Any, ...]], list[Any]]
    _get_memory, _id_of_key, _revisions = sql.GET_MEMORY, sql.ID_OF_KEY, sql.REVISIONS
    _facet, _facets = sql.FACET, sql.FACETS
    """`_facets` is given a JSON object: the owners by name."""

    def row(self, memory_id: str) -> Row | None:
        for position, record, status in self._all(self._get_memory, (memory_id,)):
            return read_row(position, record, status, memory_id)
        return None

    def id_of_key(self, space: str, key: str) -> MemoryId | None:
        for (memory_id,) in self._all(self._id_of_key, (space, key)):
            return MemoryId(memory_id)
        return None

    def revisions(self, memory_id: str) -> list[Memory]:
        found = (read_record(record) for (record,) in self._all(self._revisions, (memory_id,)))
        return [memory for memory in found if memory is not None and memory.id == memory_id]

    def facet(self, name: str, owner: str) -> JsonObject | None:
        for (value,) in self._all(self._facet, (name, owner)):
            return read_facet(name, value)
        return None

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        return self.facets_of({name: owners})[name]

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        owners_of = {name: list(owners) for name, owners in wanted.items()}
        found: dict[str, dict[str, JsonObject]] = {name: {} for name in wanted}
        for name, owner, value in self._all(self._facets, (json.dumps(owners_of),)) if any(owners_of.values()) else ():
            if (facet := read_facet(name, value)) is not None:
                found[name][owner] = facet
        return found
