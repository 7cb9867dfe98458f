"""Typing errors: a word that no memory contains is replaced by its one best match among the words that exist.

A word that is right is never replaced, since what is most like it may mean the opposite.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence

from kingly_memory.dataclass import NamedTuple
from kingly_memory.retrieval.lexical import SHORTEST_MISTYPED

LEAST_RATIO = 70.0
"""rapidfuzz `ratio` (0-100) below which two words are not taken for the same one (retrieval brief: 70)."""
SURE_RATIO = 85.0
"""From this ratio on a remote gets the repaired word. Below it the remote gets the word as it was typed, which it may
know."""
SHORT, LONG = 5, 7
"""Characters up to which one error (a letter too few, too many, wrong, or swapped with the next) is all that is
believed, and from which two are, even when one of them is in the first letter."""
LIKELY = 32
"""Words of the vocabulary that are compared letter by letter."""
_OPPOSITES = (
    "un in im ir il de dis non mis en ex on off up down over under inter intra pre post re anti any no every some"
).split()
_LEAST_REST = 3
"""Characters behind a prefix."""


class Meant(NamedTuple):
    """A word that may be meant: how alike both are, in [0, 1], and how many typing errors that takes, a half of one
    more for another form of the word."""

    word: str
    likeness: float
    errors: float


def load() -> None:
    """Load rapidfuzz, which takes a new process about 10 ms."""
    importlib.import_module("rapidfuzz.process")


def likely(word: str, vocabulary: Sequence[str]) -> list[Meant]:
    """The words that `word` may be meant for, the best first."""
    from rapidfuzz import fuzz, process
    from rapidfuzz.distance import DamerauLevenshtein

    found: list[Meant] = []
    for candidate, ratio, _ in process.extract(
        word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_RATIO, limit=LIKELY
    ):
        length = max(len(word), len(candidate) - 1)  # two letters too few are seen in what is meant
        # The first letter is the one that is typed right most often.
        most = 1 if length <= SHORT or (word[0] != candidate[0] and length < LONG) else 2
        errors = float(DamerauLevenshtein.distance(word, candidate, score_cutoff=most))
        is_exchange = len(word) == len(candidate) and sorted(word) != sorted(candidate)
        if errors > most and len(word) > SHORTEST_MISTYPED:
            distances = (DamerauLevenshtein.distance(word, form, score_cutoff=most) for form in _forms(candidate))
            errors = 0.5 + min(distances, default=most + 1)  # a word of three letters has no other forms
        elif len(word) == SHORTEST_MISTYPED and is_exchange:
            continue  # in four letters a wrong one makes another word
        if errors < most + 1 and _digits(word) == _digits(candidate):
            found.append(Meant(candidate, ratio / 100, errors))
    # Offline and online, encrypted and unencrypted differ by a prefix alone, and mean the opposite.
    kept = [meant for meant in found if _rests(word).isdisjoint(_rests(meant.word))]
    # Among equals first what has the same letters: fingers often swap two, and few words differ in that alone.
    letters = sorted(word)
    return sorted(kept, key=lambda one: (one.errors, sorted(one.word) != letters, -one.likeness, one.word))


def is_sure(word: str, meant: str) -> bool:
    """Whether what was found for a word is hardly anything else: very like it, or one error in a longer word away."""
    from rapidfuzz import fuzz
    from rapidfuzz.distance import DamerauLevenshtein

    one_error = len(word) > SHORT and DamerauLevenshtein.distance(word, meant) == 1
    return one_error or fuzz.ratio(word, meant) >= SURE_RATIO


def rewritten(text: str, repaired: Mapping[str, str]) -> str:
    """The text with each mistyped word (in lower case in `repaired`) replaced where it stands, capitals as they were;
    every other character stays."""

    def instead(match: re.Match[str]) -> str:
        word = match.group()
        right = repaired.get(word.casefold(), word)
        if right == word or word.islower():
            return right
        return right.upper() if word.isupper() else right.capitalize() if word[0].isupper() else right

    return re.sub(r"[^\W_]+", instead, text) if repaired else text


def _forms(word: str) -> set[str]:
    """Words that may have the same stem."""
    endings = ("", "s", "es", "d", "ed", "ing")
    plain = {word.removesuffix(ending) for ending in endings if len(word) - len(ending) >= SHORTEST_MISTYPED}
    return {form + ending for form in plain for ending in endings}


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))


def _rests(word: str) -> set[str]:
    """The word, and what is left of it behind a prefix."""
    behind = {word.removeprefix(prefix) for prefix in _OPPOSITES}
    return {word, *(rest for rest in behind if len(rest) >= _LEAST_REST)}
