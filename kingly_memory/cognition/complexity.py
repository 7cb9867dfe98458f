"""How much a task's description asks for at once, by a rule that anybody can count after. Pure."""

from __future__ import annotations

import re

FREE_STEPS = 3
FREE_CHARACTERS = 1_000
MOST = 5

_BREAK = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]|[;；]|->|→|\bthen\b", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"\w")


def surplus(description: str) -> int:
    """What a description asks beyond an ordinary task, from 0 to 5.

    One for every step after the third, and one for every 1,000 characters begun after the first 1,000. A longer text
    than counts is not read.
    """
    too_long = -(-max(len(description) - FREE_CHARACTERS, 0) // FREE_CHARACTERS)
    if too_long >= MOST:
        return MOST
    return min(too_long + max(steps(description) - FREE_STEPS, 0), MOST)


def steps(description: str) -> int:
    """The parts that list marks at the beginning of a line, semicolons, arrows and the word "then" divide it into.

    "and" and commas divide nothing, for they join things as often as steps. A part without a word is no step, nor is
    one that ends in a colon and so announces the others.
    """
    parts = (part.rstrip() for part in _BREAK.split(description))
    return sum(1 for part in parts if _WORD.search(part) and not part.endswith((":", "：")))
