"""From what a search has found to what a mode answers: filter, score, lift, fold, diversify, group. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kingly_memory.models import Hit
from kingly_memory.retrieval.diversity import Alike, clusters, pick
from kingly_memory.retrieval.folding import groups
from kingly_memory.retrieval.fusion import is_ours, local_places
from kingly_memory.retrieval.modes import ModeConfig
from kingly_memory.retrieval.scoring import Figures, boost, is_exact, recency, weighted

LOW_CONFIDENCE = "low_confidence"
ANTI_PATTERN = "anti_pattern"
LOW_SIMILARITY = "low_similarity"
BEYOND_TOP_K = "beyond_top_k"
"""Why a candidate is left out."""

WORTH_A_LOOK = 0.5
"""A failure goes first when it answers at least half as well as the best candidate. Below that it only shares a word
with the question."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit and what is known of it. `success` is in [0, 1]; `cosine` is its likeness to the question by vectors, None
    without vectors; an anti-pattern says what failed and why."""

    hit: Hit
    success: float
    is_failure: bool = False
    is_anti_pattern: bool = False
    is_worded: bool = True
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Hits in the mode's order, with the figures of their scores; how many candidates were left out for which reason;
    the number of each hit's cluster, by id, where the mode groups; and the ids of what says the same as a hit, by its
    id."""

    hits: tuple[Hit, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)
    clusters: Mapping[str, int] = field(default_factory=dict)
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A hit that stays: its place among the candidates, and the hits that it stands for besides."""

    place: int
    hit: Hit
    repeats: tuple[Hit, ...] = ()

    @property
    def worth(self) -> float:
        return self.hit.scores["boosted"]


def select(
    candidates: Sequence[Candidate],
    config: ModeConfig,
    *,
    query: str,
    now: datetime,
    alike: Alike,
    min_similarity: float | None = None,
    fold: bool = False,
) -> Selection:
    """The answer of a mode, best first, at most `top_k` hits.

    `alike` is asked about places in `candidates`. `min_similarity` leaves out what neither shares a word with the
    question nor is that near to it. `fold` lets the best of several that say the same stand for them.
    """
    reasons = [_reason(one, config, min_similarity) for one in candidates]
    scored = [
        _Scored(place, _scored(one, config, query, now))
        for place, (one, reason) in enumerate(zip(candidates, reasons, strict=True))
        if reason is None
    ]
    kept = _folded(scored) if fold else scored

    def alike_kept(one: int, other: int) -> float:
        return alike(kept[one].place, kept[other].place)

    best = max((one.worth for one in kept), default=0.0) or 1.0
    first = _first([candidates[one.place] for one in kept]) if config.prioritize_failures else frozenset[int]()
    ours = frozenset(place for place, one in enumerate(kept) if "local" in one.hit.layers and is_ours(one.hit.memory))
    picks = pick(
        [one.worth / best for one in kept],
        config.diversity_factor,
        alike_kept,
        config.top_k,
        first=first,
        owed=(ours, local_places(config.top_k)),
    )
    hits = {one.place: _picked(kept[one.place].hit, one.penalty * best, config, one.place in first) for one in picks}
    repeats = {kept[place].hit.memory.id: kept[place].repeats for place in hits}
    excluded = Counter(reason for reason in reasons if reason is not None)
    excluded[BEYOND_TOP_K] = len(scored) - len(hits) - sum(map(len, repeats.values()))
    left_out = {reason: count for reason, count in excluded.items() if count}
    folded: dict[str, tuple[str, ...]] = {
        one: tuple(other.memory.id for other in others) for one, others in repeats.items() if others
    }
    if not config.cluster_similar:
        return Selection(tuple(hits.values()), left_out, folded=folded)
    grouped = [[hits[place] for place in group] for group in clusters(list(hits), alike_kept)]
    return Selection(tuple(hit for group in grouped for hit in group), left_out, _numbered(grouped), folded)


def _folded(scored: Sequence[_Scored]) -> list[_Scored]:
    """Of those that say the same the best one, in its place."""
    told = [[scored[one] for one in group] for group in groups([one.hit.memory for one in scored])]
    return sorted(map(_best, told), key=lambda one: one.place)


def _best(group: Sequence[_Scored]) -> _Scored:
    best = max(group, key=lambda one: one.worth)
    return replace(best, repeats=tuple(one.hit for one in group if one is not best))


def _numbered(groups: Sequence[Sequence[Hit]]) -> dict[str, int]:
    return {hit.memory.id: number for number, group in enumerate(groups, start=1) for hit in group}


def _reason(one: Candidate, config: ModeConfig, min_similarity: float | None) -> str | None:
    """Why a candidate is left out; None when it stays."""
    if one.is_anti_pattern and not config.include_anti_patterns:
        return ANTI_PATTERN
    if one.hit.memory.confidence < config.min_confidence:
        return LOW_CONFIDENCE
    if min_similarity is not None and not one.is_worded and max(_nearness(one)) < min_similarity:
        return LOW_SIMILARITY
    return None


def _nearness(one: Candidate) -> Iterator[float]:
    """By our own vectors, and as the remote says."""
    yield one.hit.scores.get("remote", one.hit.relevance)
    if one.cosine is not None:
        yield one.cosine


def _scored(one: Candidate, config: ModeConfig, query: str, now: datetime) -> Hit:
    memory = one.hit.memory
    figures = Figures(one.hit.relevance, recency(memory.updated_at, now), one.success, memory.confidence)
    score = weighted(config.weights, figures)
    lift = boost(config, exact=is_exact(query, memory, one.cosine))
    said = {"recency": figures.recency, "success": figures.success, "score": score, "boosted": score * lift}
    known = {} if one.cosine is None else {"cosine": one.cosine}
    return replace(one.hit, scores={**one.hit.scores, **known, **said})


def _first(kept: Sequence[Candidate]) -> frozenset[int]:
    """The failures that answer the question."""
    least = WORTH_A_LOOK * max((one.hit.relevance for one in kept), default=0.0)
    return frozenset(index for index, one in enumerate(kept) if one.is_failure and one.hit.relevance >= least)


def _picked(hit: Hit, penalty: float, config: ModeConfig, is_first: bool) -> Hit:
    """The hit with what happened to it on the way to its place; the penalty on the scale of its score."""
    scores = dict(hit.scores)
    if config.diversity_factor > 0:
        scores["penalty"] = penalty
    if is_first:
        scores["failure_first"] = 1.0
    return replace(hit, scores=scores)
