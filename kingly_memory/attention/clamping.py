"""Weights that somebody says, brought into their range."""

from __future__ import annotations

import math
from typing import NamedTuple

from kingly_memory.errors import InvalidInput
from kingly_memory.intake import shown


class Weight(NamedTuple):
    """`clamped`: what was said lay outside the range."""

    value: float
    clamped: bool = False


def clamped(field: str, said: object, most: float) -> Weight:
    """The nearest from 0 to `most`. Raises InvalidInput for what is no number, or no finite one."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise InvalidInput(field, f"expected a number from 0 to {most:g}, not {shown(said)!r}")
    if isinstance(said, float) and not math.isfinite(said):
        raise InvalidInput(field, f"expected a number from 0 to {most:g}, not {said}")
    if 0 <= said <= most:
        return Weight(float(said))
    return Weight(most if said > most else 0.0, clamped=True)
