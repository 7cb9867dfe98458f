"""Typo repair: a word that no memory contains is replaced by its one best match among the words that exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence

LEAST_RATIO = 70.0
"""rapidfuzz `ratio` (0-100) below which two words are not taken for the same one (retrieval brief: 70)."""
SHORTEST_REPAIRED = 4
CANDIDATES = 8


def load() -> None:
    """Load rapidfuzz, which takes a process that has not used it yet about 10 ms."""
    importlib.import_module("rapidfuzz.process")


def best_match(
    word: str, vocabulary: Sequence[str], own_words: Callable[[str], Collection[str]]
) -> tuple[str, float] | None:
    """The word most like `word` that the asking scope itself uses, and their likeness in [0, 1].

    `own_words` is asked about the best few of the vocabulary and answers with words of the own scope, among them
    those that the index takes for the same. None when nothing there is alike enough.
    """
    if len(word) < SHORTEST_REPAIRED:
        return None
    from rapidfuzz import fuzz, process

    likely = process.extract(word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_RATIO, limit=CANDIDATES)
    own = {one for candidate, _, _ in likely for one in own_words(candidate)}
    best = process.extractOne(word, sorted(own), scorer=fuzz.ratio, score_cutoff=LEAST_RATIO)
    return None if best is None else (best[0], best[1] / 100)


def rewritten(text: str, repaired: Mapping[str, str]) -> str:
    """The text with each mistyped word (in lower case in `repaired`) replaced where it stands, capitals as they were;
    every other character stays."""
    if not repaired:
        return text

    def instead(found: re.Match[str]) -> str:
        word = found.group()
        right = repaired.get(word.casefold())
        if right is None:
            return word
        if word.isupper():
            return right.upper()
        return right.capitalize() if word[0].isupper() else right

    return re.sub(r"[^\W_]+", instead, text)


def similarity(query: str, content: str) -> float:
    """How alike two texts are word by word, in [0, 1]. Capped, since rapidfuzz holds the interpreter while it works."""
    from rapidfuzz import fuzz

    return float(fuzz.token_set_ratio(query[:256], content[:2_000])) / 100
