"""Figures of the policies' rules, checked where the rules are made. Pure."""

from __future__ import annotations

from kingly_memory.errors import InvalidSetting
from kingly_memory.intake import shown
from kingly_memory.settings import Range

POSITIVE = Range(above=True)
SHARE = Range(most=1)


def number(name: str, value: object, allowed: Range) -> None:
    """Raises InvalidSetting for what is no number, or none of that range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not allowed.holds(value):
        raise InvalidSetting(name, f"{shown(value)} is not a number {allowed}")


def whole(name: str, value: object) -> None:
    """Raises InvalidSetting for what is no whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidSetting(name, f"{shown(value)} is not a whole number of 1 or more")
