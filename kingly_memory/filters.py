"""Filters on fields: which documents, and which memories by their metadata, have what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kingly_memory.errors import InvalidInput

Filter = Mapping[str, Any]
"""Field names with the value that each must have, or with comparisons: `{"status": "open", "score": {"$gt": 3}}`.
Objects are compared field by field, lists item by item."""

_COMPARED = {
    "$gt": lambda found, wanted: found > wanted,
    "$gte": lambda found, wanted: found >= wanted,
    "$lt": lambda found, wanted: found < wanted,
    "$lte": lambda found, wanted: found <= wanted,
}
NOTHING_FITS = (
    "  nothing has what the filter asks for; a field that is not there counts as null, "
    "and a number is never compared with a text"
)
DEEPEST = 30
"""Levels of objects and lists inside each other."""
LONGEST_BITS = 14_000
"""Of a whole number: Python refuses to write out one of more than 4,300 digits."""
OPERATORS = ("$eq", "$ne", *_COMPARED, "$in")


def check_filter(name: str, wanted: object, depth: int = 1) -> Filter:
    """Raises InvalidInput for operators that are not known, for those that are given something else than they compare,
    and for what is no JSON."""
    if not isinstance(wanted, Mapping) or not all(isinstance(operator, str) for operator in wanted):
        raise InvalidInput(name, "expected field names with the values that they must have")
    for field, value in wanted.items():
        if field.startswith("$"):
            raise InvalidInput(name, f"{field[:40]!r} stands where a field name should; name the field around it")
        _check_wanted(name, field, value, depth)
    return wanted


def _check_wanted(name: str, field: str, value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise InvalidInput(name, f"is nested deeper than {DEEPEST} levels")
    if isinstance(value, list | tuple):
        for member in value:
            _check_wanted(name, field, member, depth + 1)
    elif not isinstance(value, Mapping):
        if not isinstance(value, str | int | float | None):
            raise InvalidInput(name, f"{field[:40]} is compared with {type(value).__name__}, which JSON cannot hold")
        if isinstance(value, int) and value.bit_length() > LONGEST_BITS:
            raise InvalidInput(name, f"{field[:40]} is compared with a number of thousands of digits, which none has")
    elif not value:
        raise InvalidInput(name, f"{field[:40]} is compared with an empty object; name the fields that it must have")
    elif not any(str(operator).startswith("$") for operator in value):
        check_filter(name, value, depth + 1)
    else:
        if len({isinstance(operand, str) for operator, operand in value.items() if operator in _COMPARED}) > 1:
            raise InvalidInput(name, f"{field[:40]} is compared with a number and with a text, and nothing fits both")
        for operator, operand in value.items():
            _check_operator(name, field, operator, operand)
            _check_wanted(name, field, operand, depth + 1)


def _check_operator(name: str, field: str, operator: object, operand: object) -> None:
    if operator not in OPERATORS:
        raise InvalidInput(name, f"{str(operator)[:40]!r} is unknown; choose one of {', '.join(OPERATORS)}")
    if operator in _COMPARED and not (_is_number(operand) or isinstance(operand, str)):
        raise InvalidInput(name, f"{operator} of {field[:40]} compares numbers with numbers and texts with texts")
    if operator == "$in" and not isinstance(operand, list | tuple):
        raise InvalidInput(name, f"$in of {field[:40]} needs a list of values")
    if operator == "$in" and not operand:
        raise InvalidInput(name, f"$in of {field[:40]} has no values, and nothing fits that; name one")


def admits(wanted: Filter, value: object) -> bool:
    """Whether an object has all that is wanted. What it lacks counts as null."""
    return isinstance(value, Mapping) and all(
        _is(value.get(field), wanted_value) for field, wanted_value in wanted.items()
    )


def _is(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_holds(operator, found, operand) for operator, operand in wanted.items())
        return admits(wanted, found)
    if isinstance(wanted, list | tuple):
        is_list = isinstance(found, list | tuple) and len(found) == len(wanted)
        return is_list and all(_is(item, other) for item, other in zip(found, wanted, strict=True))
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def _holds(operator: str, found: Any, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _is(found, operand) == (operator == "$eq")
    if operator == "$in":
        return any(_is(found, item) for item in operand)
    comparable = (_is_number(found) and _is_number(operand)) or (isinstance(found, str) and isinstance(operand, str))
    return comparable and _COMPARED[operator](found, operand)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
