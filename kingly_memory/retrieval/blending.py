"""One relevance out of two: how a memory's words answer a question, and how near its meaning lies. Pure."""

from __future__ import annotations

from collections.abc import Mapping

LEAST = 0.15
"""Similarity from which a memory that no word points to is a candidate: with static vectors half of all questions about
something else reach 0.2 in a small project, and half of the right answers in other words do not."""
WORDS, VECTORS = "words", "vectors"
"""The scores that a hit's relevance was made from. One that only the vectors found has no `words`."""


def is_worded(scores: Mapping[str, float]) -> bool:
    """Whether a local hit with these scores was found by its words, and not by its meaning alone."""
    return WORDS in scores or VECTORS not in scores


def blended(
    worded: Mapping[str, float], near: Mapping[str, float], without_vector: frozenset[str], *, words_weight: float
) -> dict[str, float]:
    """The relevance (0-1) of every candidate of either list, by id.

    `worded` and `near` are relevances by words and similarities by meaning, 0-1. No candidate is dropped: what only one
    list has is worth its share of that, but what only the vectors have must reach LEAST. A memory that has no vector
    yet is taken to be as near as the nearest, by the share of the question that it holds.
    """
    best = max(near.values(), default=0.0)

    def relevance(one: str) -> float:
        words = worded.get(one, 0.0)
        meaning = words * best if one in without_vector else near.get(one, 0.0)
        return words_weight * words + (1 - words_weight) * meaning

    candidates = {*worded, *(one for one, similarity in near.items() if similarity >= LEAST)}
    return {one: min(relevance(one), 1.0) for one in candidates}
