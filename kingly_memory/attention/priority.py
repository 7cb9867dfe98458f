"""In which order memories are put in: how well each fits, what its thread is worth, and what is in focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a hook without a focus loads neither
    from kingly_memory.attention.focus import Focus
    from kingly_memory.attention.threads import Thread


class Priority(NamedTuple):
    """What a candidate's place is made of: `similarity` in [0, 1], its thread's figures, and the boost of the focus."""

    similarity: float
    weight: float = 1.0
    relevance: float = 1.0
    boost: float = 0.0

    @property
    def total(self) -> float:
        """Similarity × weight × relevance + boost (seed 002, features 1 and 4)."""
        return self.similarity * self.weight * self.relevance + self.boost


def priority(similarity: float, thread: Thread | None, focuses: Sequence[Focus]) -> Priority:
    """A thread that nothing is known of counts as one that was never rated. What is not about the prompt at all is
    lifted only where a focus names the thread itself."""
    if thread is None:
        return Priority(similarity)
    if not focuses:
        return Priority(similarity, thread.weight, thread.relevance)
    from kingly_memory.attention.focus import boost

    counted = focuses if similarity > 0 else naming(thread, focuses)
    return Priority(similarity, thread.weight, thread.relevance, boost(thread, counted))


def lifting(similarity: float, thread: Thread | None, focuses: Sequence[Focus]) -> list[Focus]:
    """The focuses that lift what is as similar as that."""
    if thread is None:
        return []
    if similarity <= 0:
        return naming(thread, focuses)
    return [one for one in focuses if one.weight > 0 and one.lifts(thread)]


def naming(thread: Thread, focuses: Sequence[Focus]) -> list[Focus]:
    """The focuses that name the thread itself."""
    return [one for one in focuses if one.weight > 0 and one.names(thread)]
