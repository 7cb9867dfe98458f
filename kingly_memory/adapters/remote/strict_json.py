"""Reading JSON that a stranger wrote."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from kingly_memory.validation import mended

_DEEPEST = 64
_LONGEST_INT = 40
"""Digits; enough for any id or timestamp, and too few to overflow anything that looks at the number later."""
_MOST_PARTS = 40_000
"""A megabyte of `[],` would become 25 MB of lists. The largest list of tools that is known has half as many."""
_STRING_OR_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)


class NotJson(ValueError):
    """The text is not JSON that we are willing to read. The message never repeats any of it."""


def read(body: bytes | str) -> Any:
    """The value of a JSON text: finite numbers, at most 64 levels, no lone surrogates.

    Raises NotJson on bad UTF-8, NaN, Infinity, HTML, an empty text, numbers of more than 40 digits, deeper nesting,
    and more than 40,000 brackets and commas outside of strings.
    """
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        _check_parts(text)
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_short)
        if "\\ud" in text or "\\uD" in text:
            value = json.loads(mended(json.dumps(value, ensure_ascii=False)))
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson("the reply is not UTF-8") from None
    except RecursionError:
        raise NotJson("the reply is nested too deeply") from None
    except ValueError:
        raise NotJson("the reply is not JSON" if body else "the reply is empty") from None
    _check_depth(value)
    return value


def _no_constant(_name: str) -> NoReturn:
    raise NotJson("the reply contains NaN or Infinity")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJson("the reply contains a number that is too large")
    return number


def _short(digits: str) -> int:
    if len(digits) > _LONGEST_INT:
        raise NotJson("the reply contains a number that is too large")
    return int(digits)


def _check_parts(text: str) -> None:
    """Strings may hold as many commas as they like; they are told apart only where there are that many at all."""
    if sum(map(text.count, "[{,")) <= _MOST_PARTS:
        return
    parts = 0
    for found in _STRING_OR_PART.finditer(text):
        parts += text[found.start()] != '"'
        if parts > _MOST_PARTS:
            raise NotJson("the reply has too many parts")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise NotJson("the reply is nested too deeply")
