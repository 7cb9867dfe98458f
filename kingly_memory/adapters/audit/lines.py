"""A record as a line of JSON. What JSON cannot hold is written as a text, for an audit must not depend on it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

from kingly_memory.intake import mended
from kingly_memory.models import JsonObject

DEPTH = 32
LONGEST_BYTES = 4 * 1_048_576
"""Of a line; a trace of a household usually takes some 5,000."""
_MOST_PARTS = 100_000


class Unwritable(Exception):
    """The record is too large or too deep for a line; `args[0]` says which."""


def line_of(record: JsonObject) -> bytes:
    """One line with its end. Raises Unwritable."""
    try:
        text = json.dumps(_Plain().value(record, DEPTH), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a whole number of thousands of digits
        raise Unwritable("holds a number with too many digits") from None
    line = text.encode() + b"\n"
    if len(line) > LONGEST_BYTES:
        raise Unwritable(f"takes {len(line):,} bytes, at most {LONGEST_BYTES:,} are written")
    return line


def record_in(line: bytes) -> JsonObject | None:
    """The record of a line; None for what is none: torn by a crash, or somebody else's."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Plain:
    """A copy out of JSON's own types. Counts its parts, since a value may hold itself."""

    def __init__(self) -> None:
        self._parts = 0

    def value(self, value: Any, depth: int) -> Any:
        self._parts += 1
        if depth < 0 or self._parts > _MOST_PARTS:
            raise Unwritable("is nested too deeply or has too many parts")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return mended(str.__str__(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, Mapping):
            return {self._name(name): self.value(one, depth - 1) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(one, depth - 1) for one in value]
        return self._other(value, depth)

    def _other(self, value: Any, depth: int) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return {one.name: self.value(getattr(value, one.name), depth - 1) for one in fields(value)}
        if isinstance(value, Enum):
            return self.value(value.value, depth - 1)
        if isinstance(value, date | datetime):
            return value.isoformat()
        try:
            return self._number(value)
        except (TypeError, ValueError, OverflowError):
            return f"<{type(value).__name__}>"

    @staticmethod
    def _number(value: Any) -> float | int | None:
        """Of numpy and the like."""
        number = float(value)
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() and hasattr(value, "__index__") else number

    @staticmethod
    def _name(name: Any) -> str:
        return mended(name) if isinstance(name, str) else mended(str(name)[:200])
