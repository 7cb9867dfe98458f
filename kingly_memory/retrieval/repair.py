"""Typo repair: a word that no memory contains is replaced by its one best match among the words that exist.

A word that is right is never replaced, for what is most like it may mean the opposite.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

LEAST_RATIO = 70.0
"""rapidfuzz `ratio` (0-100) below which two words are not taken for the same one (retrieval brief: 70)."""
SURE_RATIO = 85.0
"""From which somebody else, who may know the word as it was typed, is told the other one."""
SHORTEST_REPAIRED = 4
SHORT, LONG = 5, 7
"""Characters up to which one error (a letter too few, too many, wrong, or swapped with the next) is all that is
believed, and from which two are even when one of them is in the first letter."""
LIKELY = 32
"""Words of the vocabulary that are looked at closely."""
CANDIDATES = 8
"""Of the own scope's words, those of which its memories are read."""
_ENDINGS = ("s", "es", "d", "ed", "ing")
_OPPOSITES = (
    "un in im ir il de dis non mis en ex on off up down over under inter intra pre post re anti any no every some"
).split()
_LEAST_REST = 3
"""Characters behind a prefix."""


class Meant(NamedTuple):
    """A word that may be meant: how many errors that takes, a half of one more for another form of the word, and how
    alike both are, in [0, 1]."""

    word: str
    likeness: float
    errors: float

    @property
    def rank(self) -> tuple[float, float, str]:
        """The best first."""
        return self.errors, -self.likeness, self.word


def load() -> None:
    """Load rapidfuzz, which takes a process that has not used it yet about 10 ms."""
    importlib.import_module("rapidfuzz.process")


def is_doubtful(word: str) -> bool:
    """Whether a word in lower case, which no memory has, may be mistyped: frequent words are right as they are."""
    if len(word) < SHORTEST_REPAIRED:
        return False
    from kingly_memory.retrieval.everyday import is_everyday  # thousands of words that few questions need

    return not is_everyday(word)


def best_match(
    word: str,
    vocabulary: Sequence[str],
    own_words: Callable[[str], Collection[str]],
    own: Callable[[Sequence[str]], Iterable[str]] = lambda found: found,
) -> Meant | None:
    """The word that the asking scope itself uses and that `word` most likely is with its typing errors mended.

    `own` is asked which words of the vocabulary the own scope may have, before `own_words` is asked about the best of
    them and answers with words of the own scope, among them those that the index takes for the same.
    """
    if not is_doubtful(word):
        return None
    likely = _likely(word, vocabulary)
    for candidate in islice(own([one.word for one in likely]) if likely else (), CANDIDATES):
        meant = _likely(word, list(own_words(candidate)))
        if meant:
            return meant[0]
    return None


def is_sure(word: str, meant: str) -> bool:
    """Whether what was found for a word is hardly anything else: very like it, or one error in a longer word away."""
    from rapidfuzz import fuzz
    from rapidfuzz.distance import DamerauLevenshtein

    one_error = len(word) > SHORT and DamerauLevenshtein.distance(word, meant) == 1
    return one_error or fuzz.ratio(word, meant) >= SURE_RATIO


def _likely(word: str, vocabulary: Sequence[str]) -> list[Meant]:
    """The words that `word` may be meant for, the best first."""
    from rapidfuzz import fuzz, process

    found = process.extract(word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_RATIO, limit=LIKELY)
    counted = [(candidate, ratio, _errors(word, candidate)) for candidate, ratio, _ in found]
    likely = [Meant(candidate, ratio / 100, errors) for candidate, ratio, errors in counted if errors is not None]
    return sorted((one for one in likely if not _is_opposite(word, one.word)), key=lambda one: one.rank)


def _errors(word: str, candidate: str) -> float | None:
    """Typing errors between both; None when those are too many.

    The first letter is the one that is seen best, and in words of four letters another one makes another word.
    """
    from rapidfuzz.distance import DamerauLevenshtein

    if _digits(word) != _digits(candidate):
        return None
    length = max(len(word), len(candidate) - 1)  # two letters too few are seen in what is meant
    most = 1 if length <= SHORT or (word[0] != candidate[0] and length < LONG) else 2
    errors = DamerauLevenshtein.distance(word, candidate, score_cutoff=most)
    if errors <= most:
        is_exchange = len(word) == len(candidate) and sorted(word) != sorted(candidate)
        return None if len(word) == SHORTEST_REPAIRED and is_exchange else float(errors)
    if len(word) == SHORTEST_REPAIRED:
        return None
    least = min(DamerauLevenshtein.distance(word, form, score_cutoff=most) for form in _forms(candidate))
    return least + 0.5 if least <= most else None


def _forms(word: str) -> Iterator[str]:
    """Words that may have the same stem."""
    stems = {word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= SHORTEST_REPAIRED}
    for stem in {word, *stems}:
        yield stem
        for ending in _ENDINGS:
            yield stem + ending


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))


def _is_opposite(word: str, candidate: str) -> bool:
    """Whether both are the same but for what stands before it: offline and online, encrypted and unencrypted."""
    return not _rests(word).isdisjoint(_rests(candidate))


def _rests(word: str) -> set[str]:
    """The word, and what is left of it behind a prefix."""
    behind = {word.removeprefix(prefix) for prefix in _OPPOSITES}
    return {word, *(rest for rest in behind if len(rest) >= _LEAST_REST)}


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
