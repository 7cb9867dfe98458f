"""Money in what agents live through."""

from __future__ import annotations

import math
from numbers import Real

from kingly_memory import intake
from kingly_memory.errors import InvalidInput

MOST = 1e18
"""Dollars that anything can cost here: beyond that a figure is a mistake."""


def dollars(field: str, value: object) -> float:
    """An amount from 0. Raises InvalidInput."""
    amount = _figure(value)
    if not 0 <= amount <= MOST:
        raise InvalidInput(field, f"must be an amount of dollars from 0 to {MOST:,.0f}, not {intake.shown(value)}")
    return amount


def _figure(value: object) -> float:
    """Not a number for what is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
