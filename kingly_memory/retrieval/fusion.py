"""One ranking out of two lists, in which remotes add to what this machine found and displace none of the best of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import fmean
from typing import Protocol, TypeVar

from kingly_memory.models import Hit, Memory, Origin
from kingly_memory.retrieval import rrf
from kingly_memory.retrieval.blending import VECTORS, WORDS

WEIGHTED, BY_RANKS = "weighted", "rrf"
NAMED = "key"
"""The score of the memory whose key is the question: it stays in front."""

_RANKINGS = (("remote", "local"), (VECTORS, WORDS))
"""By meaning and by words: the figures of a hit that rank it, from both layers, else from this machine's two lists."""


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
    scores: Mapping[str, float] = field(default_factory=dict)


class _Found(Protocol):
    @property
    def memory(self) -> Memory: ...


T = TypeVar("T", bound=_Found)


def fuse(
    candidates: Sequence[Candidate], *, local_weight: float, floor: float = 0.0, way: str = WEIGHTED
) -> tuple[Hit, ...]:
    """All candidates, best first. Among equals those that this machine found come first, then newer ones.

    `floor` is the least that the remote said of anything, when it may have known more than it named; 0 when it named
    all it found. `way` is `weighted`, a weighted sum of normalised relevances, or `rrf`, by ranks alone, which pushes a
    strong match of one list down. The best hit has the weighted relevance that it has by itself, the others their
    share of it.
    """
    if not candidates:
        return ()
    worth = _by_ranks(candidates) if way == BY_RANKS else _weighted(candidates, local_weight, floor)

    def place(one: Candidate) -> tuple[bool, float, bool, str]:
        is_local = one.local is not None and is_ours(one.memory)
        return NAMED in one.scores, worth[one.memory.id], is_local, one.memory.id

    ranked = sorted(candidates, key=place, reverse=True)
    best = _calibrated(ranked[0], local_weight)
    scale = best / (worth[ranked[0].memory.id] or 1.0)
    return tuple(_hit(one, min(worth[one.memory.id] * scale, best)) for one in ranked)


def is_ours(memory: Memory) -> bool:
    """Whether a memory was stored here. Copies of what only a remote holds count as the remote's, wherever they were
    found: else a remote could fill the local list with copies that repeat the question."""
    return memory.origin is not Origin.REMOTE


def local_places(limit: int) -> int:
    """How many of so many places belong to what this machine found."""
    return (limit + 1) // 2


def cut(hits: Sequence[Hit], limit: int) -> tuple[Hit, ...]:
    """The first `limit` hits of a ranking, in its order, but always with the best that this machine found: half of the
    places, rounded up, are for those of the highest local relevance, which no remote has a say in."""
    local = [hit for hit in hits if "local" in hit.layers and is_ours(hit.memory)]
    local.sort(key=lambda hit: (NAMED in hit.scores, hit.scores.get("local", hit.relevance)), reverse=True)
    return cut_with(hits, limit, local)


def cut_with(ranked: Sequence[T], limit: int, local: Sequence[T]) -> tuple[T, ...]:
    """The first `limit` of a ranking, in its order; half of the places, rounded up, are for the first of `local`."""
    kept = {one.memory.id for one in local[: local_places(limit)]}
    others = [one.memory.id for one in ranked if one.memory.id not in kept]
    kept.update(others[: limit - len(kept)])
    return tuple(one for one in ranked if one.memory.id in kept)


def by_ranks(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits in the order of reciprocal rank fusion, each with its `rrf` score; as they are where nothing ranked them by
    meaning. The memory whose key is the question stays in front."""
    named = tuple(hit for hit in hits if NAMED in hit.scores)
    others: dict[str, Hit] = {hit.memory.id: hit for hit in hits if NAMED not in hit.scores}
    rankings = (pair for pair in _RANKINGS if any(pair[0] in hit.scores for hit in others.values()))
    meaning, words = next(rankings, (None, None))
    if meaning is None or words is None:
        return (*named, *others.values())
    for one, score in rrf.fused(_ranked(others, meaning), _ranked(others, words)):
        hit = others.pop(one)
        named = (*named, replace(hit, scores={**hit.scores, "rrf": score}))
    return (*named, *others.values())


def _ranked(hits: Mapping[str, Hit], figure: str) -> list[str]:
    listed = [one for one, hit in hits.items() if figure in hit.scores]
    return sorted(listed, key=lambda one: -hits[one].scores[figure])


def _weighted(candidates: Sequence[Candidate], local_weight: float, floor: float) -> dict[str, float]:
    """What each is worth: local relevance as a share of the best one's, and the remote's, of which nobody has less than
    its floor.

    A cosine says little by itself: with some embedders everything has 0.7, with others the best has 0.3. What counts is
    how much more than the rest it is, and what a full list leaves out is not nothing: it is at most the floor.
    """
    best_local = max(one.local or 0.0 for one in candidates)
    best_remote = max(one.remote or 0.0 for one in candidates)
    there = {one.memory.id: max(one.remote or 0.0, floor) for one in candidates if one.in_remote}
    unknown = fmean(there.values()) if there else 0.0  # neither for nor against what the remote could not know

    def here(one: Candidate) -> float:
        if one.in_local:
            return (one.local or 0.0) / (best_local or 1.0)
        return (one.remote or 0.0) / (max(best_local, best_remote) or 1.0)

    return {
        one.memory.id: local_weight * here(one) + (1 - local_weight) * there.get(one.memory.id, unknown)
        for one in candidates
    }


def _by_ranks(candidates: Sequence[Candidate]) -> dict[str, float]:
    return dict(rrf.fused(_ranking(candidates, "remote"), _ranking(candidates, "local")))


def _ranking(candidates: Sequence[Candidate], layer: str) -> list[str]:
    relevance = attrgetter(layer)
    listed = [one for one in candidates if relevance(one) is not None]
    return [one.memory.id for one in sorted(listed, key=lambda one: (-relevance(one), one.memory.id))]


def _calibrated(one: Candidate, local_weight: float) -> float:
    """The weighted relevance by itself. A layer that could not know a memory does not count against it."""
    if not one.in_remote:
        return one.local or 0.0
    if not one.in_local:
        return one.remote or 0.0
    return local_weight * (one.local or 0.0) + (1 - local_weight) * (one.remote or 0.0)


def _hit(one: Candidate, relevance: float) -> Hit:
    found = {name: value for name, value in (("local", one.local), ("remote", one.remote)) if value is not None}
    return Hit(one.memory, relevance, tuple(found), {**one.scores, **found})
