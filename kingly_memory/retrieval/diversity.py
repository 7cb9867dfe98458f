"""Saying different things: maximal marginal relevance (Carbonell and Goldstein 1998), and grouping what is alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import NamedTuple

from kingly_memory.writing import stems

ALIKE = 0.45
"""Similarity from which two memories are of one cluster: with the built-in vectors two wordings of one thing lie
above it, and two things about one subject, which share the words they were found by, below."""

Alike = Callable[[int, int], float]
"""How alike two candidates are, by their places in the list: at most 1, and 1 for the same text."""


class Pick(NamedTuple):
    """The place of a candidate in the list that was given, and what likeness to earlier picks has cost it."""

    place: int
    penalty: float


def pick(
    scores: Sequence[float],
    factor: float,
    alike: Alike,
    limit: int,
    *,
    first: frozenset[int] = frozenset(),
    owed: tuple[frozenset[int], int] = (frozenset(), 0),
) -> list[Pick]:
    """Up to `limit` candidates, each time the one with the highest score − factor × its greatest similarity to those
    already picked; the earlier one among equals. Those in `first` come before all others, diverse among themselves.
    `owed` are candidates and how many of the places are for them: the last places go to them alone where they must, and
    only their own kind makes them redundant."""
    picked: list[Pick] = []
    nearest = [0.0] * len(scores)
    waiting = list(range(len(scores)))
    theirs, owing = owed[0], min(len(owed[0]), owed[1])
    while waiting and len(picked) < limit:
        free = [one for one in waiting if one in theirs] if owing >= limit - len(picked) else waiting
        among = [one for one in free if one in first] or free
        best = max(among, key=lambda one: scores[one] - factor * nearest[one])
        waiting.remove(best)
        owing -= best in theirs
        picked.append(Pick(best, factor * nearest[best]))
        if factor > 0:
            for one in waiting:
                if best in theirs or one not in theirs:
                    nearest[one] = max(nearest[one], alike(one, best))
    return picked


def clusters(indexes: Sequence[int], alike: Alike) -> list[list[int]]:
    """The candidates in groups: each joins the first group whose first member it resembles. Stable: groups stand in
    the order of their first members, and members in their own order."""
    groups: list[list[int]] = []
    for one in indexes:
        home = next((group for group in groups if alike(group[0], one) >= ALIKE), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return groups


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors of unit length: their inner product, kept within -1 and 1."""
    product: float = sum(map(mul, one, other))
    return min(max(product, -1.0), 1.0)


def overlap(one: str, other: str) -> float:
    """The share of their word stems that two texts have in common (Jaccard), for want of vectors."""
    said, also = stems(one), stems(other)
    return len(said & also) / len(said | also) if said | also else float(one == other)
