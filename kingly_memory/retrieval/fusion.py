"""One ranking out of two lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kingly_memory.models import Hit, Memory


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that one or both layers found. Relevances are in [0, 1]; None means "not in that layer's list".

    `in_local` and `in_remote` say which layers could have known it at all.
    """

    memory: Memory
    local: float | None
    remote: float | None
    in_local: bool
    in_remote: bool
    scores: dict[str, float] = field(default_factory=dict)


def fuse(candidates: Sequence[Candidate], *, local_weight: float, limit: int) -> tuple[Hit, ...]:
    """The best candidates by weighted relevance, best first; newer memories first among equals.

    A weighted sum of calibrated scores: equal-weight rank fusion pushes a strong single-list match down. A layer that
    could not know a memory (never delivered, or only remote) does not count against it.
    """
    hits = [Hit(one.memory, _relevance(one, local_weight), _layers(one), _scores(one)) for one in candidates]
    hits.sort(key=lambda hit: hit.memory.id, reverse=True)
    hits.sort(key=lambda hit: hit.relevance, reverse=True)
    return tuple(hits[:limit])


def _relevance(one: Candidate, local_weight: float) -> float:
    if not one.in_remote:
        return one.local or 0.0
    if not one.in_local:
        return one.remote or 0.0
    return local_weight * (one.local or 0.0) + (1 - local_weight) * (one.remote or 0.0)


def _layers(one: Candidate) -> tuple[str, ...]:
    found = (("local", one.local), ("remote", one.remote))
    return tuple(name for name, relevance in found if relevance is not None)


def _scores(one: Candidate) -> dict[str, float]:
    named = {"local": one.local, "remote": one.remote}
    return {**one.scores, **{name: value for name, value in named.items() if value is not None}}
