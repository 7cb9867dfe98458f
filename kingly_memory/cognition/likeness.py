"""How much two tasks are alike, by what they are called. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kingly_memory.cognition.outcomes import outcome_of
from kingly_memory.models import Hit
from kingly_memory.writing import stems

READ = 4_096
"""Characters of either description that are compared."""


def likeness(one: str, other: str) -> float:
    """The share of words that two descriptions have in common (Dice 1945), in [0, 1]; forms of a word count as one."""
    said, too = stems(one[:READ]), stems(other[:READ])
    return 2 * len(said & too) / (len(said) + len(too)) if said and too else 0.0


def by_likeness(description: str, hits: Iterable[Hit]) -> list[Hit]:
    """The outcomes among the hits with their likeness to the description as relevance, or with what a remote says of
    their meaning where that is more.

    A search ranks by how rare words are in the store: right for finding, and wrong for weighing, since the words of a
    task that is done every day are not rare.
    """
    found = []
    for hit in hits:
        outcome = outcome_of(hit.memory)
        if outcome is not None:
            alike = max(likeness(description, outcome.task), hit.scores.get("remote", 0.0))
            found.append(replace(hit, relevance=alike))
    return found
