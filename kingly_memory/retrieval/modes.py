"""Modes: what a search is for, what follows from that, and how a question tells (seed 000, priority 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kingly_memory.models import RetrievalMode
from kingly_memory.writing import words

AUTO = "auto"
"""The mode that leaves it to the question."""

POOL = 3
"""Candidates per memory wanted, so that there is something to choose from (seed 000)."""


class Weights(NamedTuple):
    """The share of each figure in a score; they add up to 1."""

    similarity: float
    recency: float
    success: float
    confidence: float


@dataclass(frozen=True, slots=True)
class ModeConfig:
    """What a mode means. `diversity_factor` is 0 (focused) to 1 (diverse); a boost of 1 is none."""

    top_k: int
    min_confidence: float
    weights: Weights
    include_anti_patterns: bool
    diversity_factor: float
    prioritize_failures: bool = False
    cluster_similar: bool = False
    exact_match_boost: float = 1.0


MODES: Mapping[RetrievalMode, ModeConfig] = {
    RetrievalMode.SIMILARITY: ModeConfig(10, 0.0, Weights(1.0, 0.0, 0.0, 0.0), True, 0.0),
    RetrievalMode.BROAD: ModeConfig(15, 0.3, Weights(0.70, 0.10, 0.10, 0.10), False, 0.8),
    RetrievalMode.PRECISE: ModeConfig(5, 0.7, Weights(0.30, 0.10, 0.40, 0.20), True, 0.2, exact_match_boost=2.0),
    RetrievalMode.DIAGNOSTIC: ModeConfig(10, 0.4, Weights(0.40, 0.30, 0.00, 0.30), True, 0.5, prioritize_failures=True),
    RetrievalMode.LEARNING: ModeConfig(20, 0.2, Weights(0.90, 0.00, 0.05, 0.05), True, 0.3, cluster_similar=True),
    RetrievalMode.RECALL: ModeConfig(3, 0.5, Weights(0.95, 0.00, 0.00, 0.05), False, 0.0, exact_match_boost=3.0),
}
"""The seed's values; `similarity` is ours, and leaves the order as it was found."""


class Inference(NamedTuple):
    """The mode of a question and the words of it that decided; None when none did."""

    mode: RetrievalMode
    decided_by: str | None


def inferred(query: str, default: RetrievalMode = RetrievalMode.PRECISE) -> Inference:
    """What a question asks for. The first mode that any of its words points to, in the order of precedence:
    diagnostic, broad, recall, learning; else the default."""
    said = words(query)
    for mode, table in _SIGNS.items():
        for start in range(len(said)):
            length = _sign_at(said, start, table)
            if length:
                return Inference(mode, " ".join(said[start : start + length]))
    return Inference(default, None)


_ENDINGS = ("es", "ed", "ing", "ly", "y", "ure", "ures", "ural", "ion", "ions", "ity", "ities", "ence", "ences", "ent")
"""What a word may grow without becoming another one. With any ending, a plan would be a planet."""

_SEEDS_SIGNS: Mapping[RetrievalMode, str] = {
    RetrievalMode.DIAGNOSTIC: "error, bug/bugg, fail, broken, issue/issu, problem, debug/debugg, fix, wrong",
    RetrievalMode.BROAD: "how should, what approach, options for, ways to, plan/plann, design, architect",
    RetrievalMode.RECALL: "what was, when did, remember when, last time, previously",
    RetrievalMode.LEARNING: "pattern, similar, consolidate/consolidat, common, recur/recurr",
}
"""In the order of precedence. Behind a slash stands what the endings are added to, where that is not the word."""

_FURTHER_SIGNS: Mapping[RetrievalMode, str] = {
    RetrievalMode.DIAGNOSTIC: "not working, doesn t work, does not work, broke, crash, exception, traceback, debugger",
    RetrievalMode.BROAD: "brainstorm, how could, ideas for, alternatives",
    RetrievalMode.RECALL: "what did we, what did i, what were, remind me, where did",
    RetrievalMode.LEARNING: "lesson, what have we learned, what have we learnt, trend",
}
"""What people say who mean the same and use none of the seed's words."""

_Sign = tuple[frozenset[str], ...]
"""Words in a row, each in any of its forms."""


def _signs(listed: str) -> Iterator[_Sign]:
    for one in listed.split(", "):
        yield tuple(_forms(*word.split("/")) for word in one.split())


def _forms(word: str, root: str | None = None) -> frozenset[str]:
    return frozenset({word, f"{word}s", *((root or word) + ending for ending in _ENDINGS)})


_SIGNS: Mapping[RetrievalMode, tuple[_Sign, ...]] = {
    mode: (*_signs(listed), *_signs(_FURTHER_SIGNS[mode])) for mode, listed in _SEEDS_SIGNS.items()
}


def _sign_at(said: list[str], start: int, table: Iterable[_Sign]) -> int:
    """How many words make the sign that begins there; 0 when none does."""
    for sign in table:
        here = said[start : start + len(sign)]
        if len(here) == len(sign) and all(word in forms for word, forms in zip(here, sign, strict=True)):
            return len(sign)
    return 0
