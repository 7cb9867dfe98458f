"""One ranking out of two: of what this machine and its remotes found, or of any two lists by ranks alone. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import fsum
from typing import Protocol, TypeVar

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.models import Hit, Memory, Origin

WORDS, VECTORS = "words", "vectors"
"""The scores that a local hit's relevance was made from. One that only the vectors found has no `words`."""
NAMED = "key"
"""The score of the memory whose key is the question: it stays in front."""


def is_worded(scores: Mapping[str, float]) -> bool:
    """Whether a local hit with these scores was found by its words, and not by its meaning alone."""
    return WORDS in scores or VECTORS not in scores


# --- this machine and its remotes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that this machine, remotes or both found. Relevances are in [0, 1]; None means "not in that list".

    `in_local` and `in_remote` say who could have known it at all, `layers` the names of those who found it.
    """

    memory: Memory
    local: float | None
    remote: float | None
    in_local: bool
    in_remote: bool
    layers: tuple[str, ...]
    scores: Mapping[str, float] = field(default_factory=dict)


def fuse(candidates: Sequence[Candidate], *, local_weight: float, floor: float = 0.0) -> tuple[Hit, ...]:
    """All candidates, best first. Among equals those that this machine found come first, then newer ones.

    Each is worth its local relevance as a share of the best one's, and its remote relevance, by `local_weight`. A
    cosine says little by itself: with some embedders everything has 0.7, with others the best has 0.3. What counts is
    how much more than the rest it is. `floor` is the lowest relevance in the remote's list where that list was full:
    what it left out has at most that relevance. The best hit has the weighted relevance that it has by itself, the
    others their share of it.
    """
    if not candidates:
        return ()
    best_local = max(one.local or 0.0 for one in candidates)
    best = max(best_local, *(one.remote or 0.0 for one in candidates))
    remote_shares = {
        candidate.memory.id: max(candidate.remote or 0.0, floor) for candidate in candidates if candidate.in_remote
    }
    unknown = fsum(remote_shares.values()) / max(
        len(remote_shares), 1
    )  # neither for nor against what the remote could not know
    worth: dict[str, float] = {}
    for candidate in candidates:
        here = (
            (candidate.local or 0.0) / (best_local or 1.0)
            if candidate.in_local
            else (candidate.remote or 0.0) / (best or 1.0)
        )
        worth[candidate.memory.id] = local_weight * here + (1 - local_weight) * remote_shares.get(
            candidate.memory.id, unknown
        )

    def place(candidate: Candidate) -> tuple[bool, float, bool, str]:
        is_local = candidate.local is not None and is_ours(candidate.memory)
        return NAMED in candidate.scores, worth[candidate.memory.id], is_local, candidate.memory.id

    ranked = sorted(candidates, key=place, reverse=True)
    first = ranked[0]
    if not first.in_remote:  # a layer that could not know a memory does not count against it
        highest = first.local or 0.0
    elif not first.in_local:
        highest = first.remote or 0.0
    else:
        highest = local_weight * (first.local or 0.0) + (1 - local_weight) * (first.remote or 0.0)
    scale = highest / (worth[first.memory.id] or 1.0)
    hits = []
    for candidate in ranked:
        figures = {
            name: value
            for name, value in (("local", candidate.local), ("remote", candidate.remote))
            if value is not None
        }
        relevance = min(worth[candidate.memory.id] * scale, highest)
        hits.append(Hit(candidate.memory, relevance, candidate.layers, {**candidate.scores, **figures}))
    return tuple(hits)


# --- places ---------------------------------------------------------------------------------------------------------


class _Found(Protocol):
    @property
    def memory(self) -> Memory: ...


T = TypeVar("T", bound=_Found)


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
    kept = {hit.memory.id for hit in local[: local_places(limit)]}
    others = [hit.memory.id for hit in ranked if hit.memory.id not in kept]
    kept.update(others[: limit - len(kept)])
    return tuple(hit for hit in ranked if hit.memory.id in kept)


# --- by ranks alone -------------------------------------------------------------------------------------------------

RRF_K = 60
VECTOR_WEIGHT, KEYWORD_WEIGHT = 0.6, 0.4

H = TypeVar("H", bound=Hashable)


def rrf(vectors: Sequence[H], keywords: Sequence[H]) -> list[tuple[H, float]]:
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009, k = 60) of a list by meaning and one by words.

    Each candidate of either list with Σ weight ÷ (60 + rank), ranks from 1; the best first, equals in the order in
    which they were first seen. Of a candidate that stands in a list twice the better rank counts.
    """
    scores: dict[H, float] = {}
    for weight, ranking in ((VECTOR_WEIGHT, vectors), (KEYWORD_WEIGHT, keywords)):
        for rank, hit in enumerate(dict.fromkeys(ranking), start=1):
            scores[hit] = scores.get(hit, 0.0) + weight / (RRF_K + rank)
    return sorted(scores.items(), key=lambda scored: scored[1], reverse=True)


def by_ranks(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits in the order of reciprocal rank fusion, each with its `rrf` score: of the remote's ranking and this
    machine's, else of vectors and words. As they are where nothing ranked them by meaning. The memory whose key is the
    question stays in front."""
    named = [hit for hit in hits if NAMED in hit.scores]
    others: dict[str, Hit] = {hit.memory.id: hit for hit in hits if NAMED not in hit.scores}

    def ranked(figure: str) -> list[str]:
        listed = [memory_id for memory_id, hit in others.items() if figure in hit.scores]
        return sorted(listed, key=lambda memory_id: -others[memory_id].scores[figure])

    for meaning, words in (("remote", "local"), (VECTORS, WORDS)):
        if by_meaning := ranked(meaning):
            scores = rrf(by_meaning, ranked(words))
            fused = [
                replace(others[memory_id], scores={**others[memory_id].scores, "rrf": score})
                for memory_id, score in scores
            ]
            score_of = dict(scores)
            return (*named, *fused, *(hit for memory_id, hit in others.items() if memory_id not in score_of))
    return (*named, *others.values())
