"""How well a memory's own words answer a question: BM25 (Robertson and Zaragoza, 2009) over a shortlist.

The index ranks by the same formula, but takes every word in more than half of its rows for worthless, which in a small
store is nearly every word. Here a word is never worthless, and neighbours in the question count as neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kingly_memory.models import Memory
from kingly_memory.ports import Corpus
from kingly_memory.stemming import SHARED, stem, without_marks
from kingly_memory.writing import STOP_WORDS, words

SATURATION = 0.9
"""k1: how soon it stops mattering how often a word stands there. Memories are short: once is nearly enough."""
LENGTH = 0.4
"""b: how much a long memory has to hold more, in [0, 1]."""
UNSEEN_ROWS = 100
"""A small store says little of how rare a word is: as if so many rows more were there, all without it."""
TITLE, BODY, TAGS = 2.0, 1.0, 1.0
BEGINNING = 0.3
"""What a longer word counts that begins with an asked one."""
SHORTEST_BEGINNING = 4
PHRASE = 0.1
"""Share of their worth that two words add when they stand side by side as they do in the question."""
READ = 8_192
"""Characters of a title or content that are looked at when there is time."""
TAGS_READ = 64
_SHORT = 2
"""Characters of words that are stems of others by chance: "us" is that of "use"."""
_VOWELS = "aeiou"
_INFLECTED = frozenset({"own"})
"""Stop words with forms that are none."""


class Term(NamedTuple):
    """A word that is asked for. `stems` are its own and those of its other forms, `weight` how sure we are of it."""

    word: str
    stems: frozenset[str]
    weight: float
    rows: int


class Own(NamedTuple):
    """What a memory's own words are worth, and how much of each term it holds, in [0, weight]. `by_chance`: it has a
    word that only looks like an asked one to the index."""

    score: float
    held: dict[int, float]
    by_chance: bool = False


def rarity(rows: int, corpus: Corpus) -> float:
    """How much it says that a memory holds a word that this many rows hold: > 0."""
    without = max(corpus.rows - rows, 0) + UNSEEN_ROWS
    return math.log(1 + (without + 0.5) / (rows + 0.5))


@dataclass(slots=True)
class _Counted:
    """The terms of one memory: how often each is there, and which ones directly follow the one before them."""

    times: dict[int, float] = field(default_factory=dict)
    following: set[int] = field(default_factory=set)
    words: float = 0.0
    by_chance: bool = False


class Question:
    """The terms of a question, ready to be looked for in any number of memories."""

    def __init__(self, terms: Sequence[Term], corpus: Corpus) -> None:
        """`terms` in the order of the question, none twice."""
        self.terms = terms
        self._worth = [term.weight * rarity(term.rows, corpus) for term in terms]
        self._mean_words = max(corpus.mean_words, 1.0)
        self._by_stem = {one: at for at, term in enumerate(terms) for one in term.stems}
        self._beginnings = {one[:SHARED] for one in self._by_stem} | {term.word[:SHARED] for term in terms}
        self._known: dict[str, tuple[int, float] | None] = {}

    @property
    def is_ambiguous(self) -> bool:
        """Whether the index takes another, frequent word for an asked one: "on" for "one", "out" for "outing"."""
        return any(
            term.word not in STOP_WORDS and any(len(one) <= _SHORT or one in STOP_WORDS for one in term.stems)
            for term in self.terms
        )

    def own(self, memory: Memory, read: int = READ) -> Own:
        """What the memory's title, content and tags hold of the terms, each in its first `read` characters."""
        counted = _Counted()
        self._count(counted, memory.title or "", TITLE, read)
        self._count(counted, memory.content, BODY, read)
        self._count(counted, " ".join(memory.tags[:TAGS_READ]), TAGS, read)
        if not counted.times:
            return Own(0.0, {}, counted.by_chance)
        length = 1 - LENGTH + LENGTH * counted.words / self._mean_words
        score = sum([self._worth[at] * _saturated(times, length) for at, times in counted.times.items()])
        score += PHRASE * sum([(self._worth[at - 1] + self._worth[at]) / 2 for at in counted.following])
        held = {at: min(times, 1.0) * self.terms[at].weight for at, times in counted.times.items()}
        return Own(score, held, counted.by_chance)

    def _count(self, counted: _Counted, text: str, column: float, read: int) -> None:
        if not text:
            return
        said = words(without_marks(text if len(text) <= read else text[:read]))
        counted.words += len(said) * max(len(text) / read, 1.0)
        beginnings, known = self._beginnings, self._known
        likely = [(place, word) for place, word in enumerate(said) if word[:SHARED] in beginnings]
        for _, word in likely:
            if word not in known:
                known[word] = self._looked_up(word)
        asked = {place: found for place, word in likely if (found := known[word]) is not None}
        if not asked:
            return
        before, behind = None, 0
        for place, (at, share) in asked.items():
            if not share:
                counted.by_chance = True
                continue
            counted.times[at] = counted.times.get(at, 0.0) + column * share
            if at - 1 == before and all(said[one] in STOP_WORDS or one in asked for one in range(behind + 1, place)):
                counted.following.add(at)
            before, behind = at, place

    def _looked_up(self, word: str) -> tuple[int, float] | None:
        """Which term the word is, and what it counts for it: nothing when only the stem is the same by chance."""
        at = self._by_stem.get(stem(word))
        if at is not None:
            return at, 0.0 if _is_other(word, self.terms[at]) else 1.0
        for at, term in enumerate(self.terms):
            if len(term.word) >= SHORTEST_BEGINNING and word.startswith(term.word):
                return at, BEGINNING
        return None


def _is_other(word: str, term: Term) -> bool:
    """Whether a word with one of the term's stems is another word, by itself or as a form of a short one."""
    asked = without_marks(term.word)
    if word == asked:
        return False
    if word in STOP_WORDS and word not in _INFLECTED and asked not in STOP_WORDS:
        return True
    short, long = sorted((word, asked), key=len)
    if len(short) > _SHORT or stem(long) != short:
        return False
    endings = ("s", "es", "ing") if short[-1] in _VOWELS else ("s",)
    return not any(long == short + ending for ending in endings)


def _saturated(times: float, length: float) -> float:
    return times * (SATURATION + 1) / (times + SATURATION * length)
