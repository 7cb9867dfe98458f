"""Typo repair: a word that no memory contains is replaced by its one best match among the words that exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable

LEAST_RATIO = 70.0
"""rapidfuzz `ratio` (0-100) below which two words are not taken for the same one (retrieval brief: 70)."""
SHORTEST_REPAIRED = 4
CANDIDATES = 8


def best_match(word: str, vocabulary: Iterable[str], is_own: Callable[[str], bool]) -> tuple[str, float] | None:
    """The vocabulary word most like `word` that the asking scope itself uses, and their likeness in [0, 1].

    None when nothing is alike enough. `is_own` is asked for the best few only.
    """
    if len(word) < SHORTEST_REPAIRED:
        return None
    from rapidfuzz import fuzz, process

    best = process.extract(word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_RATIO, limit=CANDIDATES)
    for candidate, ratio, _ in best:
        if is_own(candidate):
            return candidate, ratio / 100
    return None


def similarity(query: str, content: str) -> float:
    """How alike two texts are word by word, in [0, 1]. Capped, since rapidfuzz holds the interpreter while it works."""
    from rapidfuzz import fuzz

    return float(fuzz.token_set_ratio(query[:256], content[:2_000])) / 100
