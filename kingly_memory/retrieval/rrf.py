"""Reciprocal rank fusion: one ranking out of several, by ranks alone (Cormack, Clarke and Büttcher 2009, k = 60)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

K = 60
VECTOR_WEIGHT, KEYWORD_WEIGHT = 0.6, 0.4
"""Of the list by meaning and the list by words."""

T = TypeVar("T", bound=Hashable)


def fused(vectors: Sequence[T], keywords: Sequence[T]) -> list[tuple[T, float]]:
    """Each candidate of either list with Σ weight ÷ (60 + rank), ranks from 1; the best first.

    What only one list has stays in. Equals stay in the order in which they were first seen, and of a candidate that
    stands in a list twice the better rank counts.
    """
    scores: dict[T, float] = {}
    for weight, ranking in ((VECTOR_WEIGHT, vectors), (KEYWORD_WEIGHT, keywords)):
        for rank, one in enumerate(dict.fromkeys(ranking), start=1):
            scores[one] = scores.get(one, 0.0) + weight / (K + rank)
    return sorted(scores.items(), key=lambda scored: scored[1], reverse=True)
