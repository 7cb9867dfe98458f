"""What made a hit's place, in sentences: above and below the hits of `search --explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kingly_memory.models import Hit, Results, RetrievalMode
from kingly_memory.retrieval.modes import MODES

_SHARES = ("local", "remote")
_MODES_OWN = frozenset({"recency", "success", "score", "boosted", "penalty", "failure_first"})
_PHRASES: Mapping[str, str] = {
    "bm25": "{:.2f} for its words (BM25)",
    "context": "{:.2f} lent by what was said beside it",
    "lift": "× {:.2f} for a name that the question has too",
    "similarity": "{:.2f} alike in its letters",
    "cosine": "{:.2f} alike by vectors",
    "words": "{:.2f} by its words",
    "vectors": "{:.2f} near in meaning",
    "key": "its key is the question",
    "local": "{:.2f} on this machine",
    "remote": "{:.2f} on the remote",
}
"""What each figure says. `similarity` is in a mode's score what relevance is to a hit."""


def legend(results: Results) -> Iterator[str]:
    """What the figures below are."""
    if not len(results):
        return
    if any({"local", "remote"} <= hit.scores.keys() for hit in results):
        yield "  relevance: how well a hit answers, 0 to 1, from what each layer says of it"
    else:
        yield "  relevance: how well a hit answers, 0 to 1; the best one's is the share of the question that it holds"
    if results.mode is not None:
        yield "  score: relevance (as similarity) and what else counts in this mode, each with its weight"
        yield "  hits stand by the last figure of their score, but for those that are put first or stand in groups"


def explanation(results: Results, hit: Hit) -> Iterator[str]:
    """The figures of one hit, and what they did."""
    if results.mode is not None:
        yield from _in_mode(results.mode, hit)
    if hit.memory.id in results.clusters:
        yield f"      in group {results.clusters[hit.memory.id]}, of hits that are alike"
    yield f"      relevance {_relevance(hit)}"


def _in_mode(mode: RetrievalMode, hit: Hit) -> Iterator[str]:
    scores = hit.scores
    figures = {
        "similarity": hit.relevance,
        "recency": scores["recency"],
        "success": scores["success"],
        "confidence": hit.memory.confidence,
    }
    weights = MODES[mode].weights._asdict()
    parts = (f"{weights[name]:.2f} × {figure:.2f} {name}" for name, figure in figures.items() if weights[name])
    yield f"      score {scores['score']:.2f} = {' + '.join(parts)}"
    if scores["boosted"] > scores["score"]:
        lift = scores["boosted"] / scores["score"]
        yield f"      × {lift:g} = {scores['boosted']:.2f}, since it says exactly what was asked"
    worth = round(scores["boosted"], 2)
    left = round(scores["boosted"] - scores.get("penalty", 0.0), 2)
    if left < worth:  # both as they are printed, so that they add up
        yield f"      − {worth - left:.2f} = {left:.2f}, for being like hits above it"
    if "failure_first" in scores:
        yield "      put first, since it tells of a failure"


def _relevance(hit: Hit) -> str:
    shares = [_phrase(name, hit.scores[name]) for name in _SHARES if name in hit.scores]
    made_of = f", from {' and '.join(shares)}" if shares else ""
    others = {name: value for name, value in hit.scores.items() if name not in _MODES_OWN and name not in _SHARES}
    told = ", ".join(_phrase(name, value) for name, value in others.items())
    return f"{hit.relevance:.2f}{made_of}{f': {told}' if told else ''}"


def _phrase(name: str, value: float) -> str:
    return _PHRASES.get(name, f"{name} {{:.2f}}").format(value)
