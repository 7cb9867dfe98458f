"""What the rows of the store say. A row that is damaged, or that another program wrote, is left out and logged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kingly_memory.adapters.local import sql
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Corpus, Row

_parse = json.JSONDecoder().raw_decode
_STANDINGS = {standing.value: standing for standing in Standing}

_LONGEST_RECORD = 64
"""Bytes of the index's own record that are looked at; a sound one has few."""
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def row(position: int, value: Any, tag: Any) -> Row | None:
    """The memory in a row, given its columns; None when there is none in it."""
    try:
        memory = Memory.from_json(_loaded(value))
        if not _is_sound(memory):
            raise TypeError("an unsound field")
        first = tag.partition(" ")[0][1:]
        return Row(position, memory, _STANDINGS.get(first) or Standing(first))
    except _UNREADABLE as error:
        _leave_out(position, error)
        return None


def rows(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The memories in rows that begin with position, value and tag."""
    parsed = (row(*columns[:3]) for columns in found)
    return [one for one in parsed if one is not None]


def facet(name: str, value: Any) -> JsonObject | None:
    """The JSON object in a facet's row; None when there is none in it."""
    try:
        parsed = _loaded(value)
        if not isinstance(parsed, dict):
            raise TypeError("no object")
    except _UNREADABLE as error:
        _leave_out(name, error)
        return None
    return parsed


def pointed_at(value: Any) -> MemoryId | None:
    """The memory id in the row of a key."""
    pointer = facet("key", value)
    memory_id = None if pointer is None else pointer.get("id")
    return MemoryId(memory_id) if isinstance(memory_id, str) else None


def corpus(averages: Any) -> Corpus:
    """How much the text index holds, from its own record; a record that is not one reads as an empty index.

    Its numbers have seven bits a byte, the highest first; the eighth bit says that more follow."""
    numbers, number = [], 0
    for byte in averages[:_LONGEST_RECORD] if isinstance(averages, bytes) else b"":
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if len(numbers) <= sql.TEXT_COLUMNS or not numbers[0]:
        return Corpus(0, 0.0)
    return Corpus(numbers[0], sum(numbers[1 : sql.TEXT_COLUMNS + 1]) / numbers[0])


def _loaded(value: Any) -> Any:
    """What `json.loads` says, in less time for what we wrote: a text with nothing around its value."""
    try:
        parsed, end = _parse(value)
    except (ValueError, TypeError):
        return json.loads(value)
    return parsed if end == len(value) else json.loads(value)


def _is_sound(memory: Any) -> bool:
    """Whether each field is what the record says, which `from_json` leaves open."""
    scope = memory.scope
    for text in (memory.id, memory.content, scope.project, *memory.tags):
        if not isinstance(text, str):
            return False
    for name in (memory.key, memory.title, scope.agent, scope.context_id):
        if name is not None and not isinstance(name, str):
            return False
    return (
        isinstance(memory.significance, (int, float))  # a union would be made anew for every memory
        and isinstance(memory.confidence, (int, float))
        and isinstance(memory.revision, int)
        and isinstance(memory.metadata, dict)
        and memory.created_at.tzinfo is not None
        and memory.updated_at.tzinfo is not None
    )


def _leave_out(which: int | str, error: Exception) -> None:
    """The error's own text may quote the row."""
    import logging  # loaded when there is something to say: most commands have nothing

    log = logging.getLogger("kingly_memory.store")
    log.warning("row %s of the memory store cannot be read and is left out (%s)", which, type(error).__name__)
