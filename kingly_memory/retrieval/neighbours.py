"""What was said just before and just after belongs to what was said: a hit lends part of its score to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from kingly_memory.models import Memory, MemoryType
from kingly_memory.ports import Beside

FROM_BEFORE = (0.5, 0.25)
"""Shares of its score that a memory gets from the one before it, and from the one before that."""
FROM_AFTER = (0.25, 0.125)
REACH = 2


class Loan(NamedTuple):
    """What a memory gets from a lender: this share of the lender's score."""

    lender: int
    share: float


def lends(memory: Memory) -> bool:
    """Only what was said in a context has something said before and after it."""
    return memory.type is MemoryType.EPISODIC and memory.scope.context_id is not None


def loans(beside: Mapping[int, Beside]) -> dict[int, list[Loan]]:
    """What each position is lent, given who stands beside the lenders."""
    found: defaultdict[int, list[Loan]] = defaultdict(list)
    for lender, (before, after) in beside.items():
        for position, share in zip(before, FROM_AFTER, strict=False):
            found[position].append(Loan(lender, share))
        for position, share in zip(after, FROM_BEFORE, strict=False):
            found[position].append(Loan(lender, share))
    return dict(found)
