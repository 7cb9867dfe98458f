"""Answers as JSON, made of the fields of a value, so that no class lists its fields twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kingly_memory.dataclass import fields
from kingly_memory.models import JsonObject


class Plain:
    """A dataclass whose JSON is its `message`, if it has one, its fields by name, and the properties in `SHOWN`.

    Fields in `OPTIONAL` are left out where they say nothing (None, False or empty), and those with `repr=False` always.
    Figures are rounded to `DIGITS`, None for as they are.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    DIGITS: ClassVar[int | None] = 4

    def to_json(self) -> JsonObject:
        own = [one.name for one in fields(self) if one.repr]  # type: ignore[arg-type]  # it is one
        names = (*(("message",) if hasattr(self, "message") else ()), *own, *self.SHOWN)
        values = {name: getattr(self, name) for name in names}
        return {
            name: round(value, self.DIGITS) if isinstance(value, float) and self.DIGITS is not None else plain(value)
            for name, value in values.items()
            if value or name not in self.OPTIONAL
        }


def plain(value: Any) -> Any:
    """A value out of JSON's own types: names of enumerations, times as ISO 8601, sequences as lists."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value.isoformat()
