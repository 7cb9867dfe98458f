"""What made a hit's place, in sentences: below each hit of `search --explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kingly_memory.models import Hit, Results, RetrievalMode
from kingly_memory.retrieval.modes import MODES

_SHARES = ("local", "remote")
_MODES_OWN = frozenset({"recency", "success", "score", "boosted", "penalty", "failure_first"})
_NAMES: Mapping[str, str] = {"similarity": "wording", "cosine": "vectors"}
"""The likeness of the letters and that of the vectors; `similarity` is in a score what relevance is to a hit."""


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
    if scores.get("penalty", 0.0) >= 0.005:  # noqa: PLR2004  # what two decimals can show
        yield f"      − {scores['penalty']:.2f} for being like hits above it"
    if "failure_first" in scores:
        yield "      put first, since it tells of a failure"


def _relevance(hit: Hit) -> str:
    shares = [f"{hit.scores[name]:.2f} {name}" for name in _SHARES if name in hit.scores]
    made_of = f" from {' and '.join(shares)}" if shares else ""
    others = {name: value for name, value in hit.scores.items() if name not in _MODES_OWN and name not in _SHARES}
    told = ", ".join(f"{_NAMES.get(name, name)} {value:.2f}" for name, value in others.items())
    return f"{hit.relevance:.2f}{made_of}{f' ({told})' if told else ''}"
