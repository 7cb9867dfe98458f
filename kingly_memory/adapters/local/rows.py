"""How memories and facets lie in the rows of the store: their names, values and tags, and how they are read back.

A row that is damaged, or that another program wrote, is left out and logged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from kingly_memory.adapters.local.sql import UNBROKEN
from kingly_memory.digests import blake2b, sha256
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryType, Standing
from kingly_memory.ports import Row
from kingly_memory.writing import has_unbroken

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_DIGEST = ',"digest":"'
_STANDINGS = {f"v{standing.value}": standing for standing in Standing}
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_ID = re.compile(r'\{"id":"([0-9a-f-]{36})"')
_PASSAGE_BITS = 16
"""The longest text that a memory may have has some thousands of passages."""


# --- names ------------------------------------------------------------------------------------------------------------


def memory_row(memory_id: str) -> str:
    return "m:" + memory_id


def facet_row(name: str, owner: str) -> str:
    return f"{name}:{owner}"


def key_row(space: str, key: str) -> str:
    """Keys are digested: no text of a user's is ever part of a row name, and lengths stay small."""
    return "key:" + digest(f"{len(space)}:{space}{key}", 40)


def said_digest(memory: Memory) -> int:
    """Of what makes two memories without a key the same: their words, type and metadata, where and by whom they were
    said."""
    scope = memory.scope
    where = f"{scope.space}\0{scope.agent}\0{scope.context_id}\0{memory.type.value}\0{memory.origin.value}"
    text = f"{where}\0{memory.title}\0{dump(memory.metadata) if memory.metadata else ''}\0{memory.content}"
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


def passage_row(position: int, number: int) -> int:
    """The rowid of a passage of the memory at that position; `position_of` tells which that is."""
    return position << _PASSAGE_BITS | number


def position_of(passage: int) -> int:
    return passage >> _PASSAGE_BITS


# --- values -----------------------------------------------------------------------------------------------------------


def dump(value: JsonObject) -> str:
    return _encoder.encode(value)


def dump_text(text: str) -> str:
    """How a text stands within a dumped value."""
    return _encoder.encode(text)[1:-1]


def record(memory: Memory) -> str:
    """The value of a memory's row: its JSON object, of which the last member is a digest of all before it."""
    said = dump(memory.to_json())[:-1]
    return f'{said}{_DIGEST}{_digest_of(said)}"}}'


def is_whole(value: str) -> bool:
    """Whether a memory's value is as it was written."""
    said, found, digest_of_it = value.rpartition(_DIGEST)
    return bool(found) and digest_of_it == f'{_digest_of(said)}"}}'


def is_whole_bytes(value: bytes) -> bool:
    """The same for statements, which fail where they are to make text of what is none."""
    return is_whole(value.decode(errors="replace"))


def _digest_of(text: str) -> str:
    """A CRC of 32 bits would let pass one of four billion damages; this is as quick."""
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


# --- tags -------------------------------------------------------------------------------------------------------------


def tokens(memory: Memory, standing: Standing) -> str:
    """The tag of a memory row: its standing first, then its scope, type and tags, each as one index token."""
    scope = memory.scope
    found = [standing_token(standing), token("p", scope.space)]
    if scope.agent is not None:
        found.append(token("a", scope.agent))
    if scope.context_id is not None:
        found.append(token("c", scope.context_id))
    found.append(type_token(memory.type))
    found += [token("g", tag) for tag in memory.tags]
    return " ".join([*found, UNBROKEN] if has_unbroken(memory.content) else found)


def token(kind: Literal["p", "a", "c", "g"], text: str) -> str:
    """The index token of a project, agent, context or tag. Digested, because the stemmer of the index would match `app`
    with `apps`."""
    return kind + digest(text)


def type_token(kind: MemoryType) -> str:
    return "y" + kind.value


def standing_token(standing: Standing) -> str:
    return "v" + standing.value


def project_in_tag(space: str) -> str:
    """How the project's token stands in the tag of a memory row."""
    return f" {token('p', space)} "


def live_in_tag(space: str) -> str:
    """How the tag of a live memory row of the project begins."""
    return standing_token(Standing.LIVE) + project_in_tag(space)


def counted_as(tag: object) -> tuple[str, str] | None:
    """Under which project and name `counts` counts a row with that tag, if it does."""
    found = tag.split() if isinstance(tag, str) else []
    if len(found) > 1 and found[0] == standing_token(Standing.ARCHIVED):
        return found[1], "archived"
    if len(found) > 1 and found[0] == standing_token(Standing.LIVE):
        return found[1], next((one[1:] for one in found if one.startswith("y")), "")
    return None


@lru_cache(maxsize=512)
def digest(text: str, length: int = 20) -> str:
    return sha256(text.encode()).hexdigest()[:length]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_row(position: int, value: Any, tag: Any, memory_id: str | None = None) -> Row | None:
    """The memory in a row, given its columns; None when there is none in it, or not the one that was looked up by its
    id: an index may be damaged, too."""
    try:
        row = Row(position, _memory(value), _STANDINGS[tag.partition(" ")[0]])
        if memory_id not in (None, row.memory.id):
            raise ValueError("another memory lies there")
        return row
    except _UNREADABLE as error:
        _leave_out(f"row {position}", value, error)
        return None


def read_rows(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The memories in rows that begin with position, value and tag."""
    parsed = (read_row(*columns[:3]) for columns in found)
    return [one for one in parsed if one is not None]


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
        parsed = json.loads(value)
        if not isinstance(parsed, dict):
            raise TypeError("no object")
    except _UNREADABLE as error:
        _leave_out(f"row {name}", value, error)
        return None
    return parsed


def read_key(value: Any) -> MemoryId | None:
    """The memory id in the row of a key."""
    pointer = read_facet("key", value)
    memory_id = None if pointer is None else pointer.get("id")
    return MemoryId(memory_id) if isinstance(memory_id, str) else None


def _memory(value: Any) -> Memory:
    """Whoever prepares a store can write a digest too, so each field is looked at, which `from_json` does not."""
    if not is_whole(value):
        raise ValueError("its digest is another one")
    memory: Any = Memory.from_json(json.loads(value))
    scope = memory.scope
    texts = (memory.id, memory.content, scope.space, *memory.tags)
    labels = [one for one in (memory.key, memory.title, scope.agent, scope.context_id) if one is not None]
    is_sound = (
        all(isinstance(one, str) for one in (*texts, *labels))
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


def _leave_out(which: str, value: Any, error: Exception) -> None:
    """The error's own text may quote the row."""
    import logging  # loaded when there is something to say: most commands have nothing

    found = _ID.match(value) if isinstance(value, str) else None
    told = which if found is None else f"{which}, memory {found[1]},"
    log = logging.getLogger("kingly_memory.store")
    log.warning("%s of the memory store cannot be read and is left out (%s)", told, type(error).__name__)
