"""What texts are about, as words with weights, and which of many are about the same."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from kingly_memory.text.writing import stems, words

READ = 2_048
"""Characters of a text that say what it is about."""
MOST_WORDS = 64
"""By which topics are compared, the most frequent of each."""
MOST_COUNTED = 1_024
"""Different words that are counted, after which the rarer half is left out."""
MOST_COMPARED = 100
"""Topics that one is held against, those it has the most rare words in common with."""

Topic = Mapping[str, float]
"""Stems and how much each weighs, above 0."""


def count(counts: Counter[str], text: str) -> None:
    """Add a text's words to the counts."""
    counts.update(words(text[:READ]))
    if len(counts) > MOST_COUNTED:
        kept = _most_frequent(counts, MOST_COUNTED // 2)
        counts.clear()
        counts.update(dict(kept))


def topic(counts: Counter[str]) -> Topic:
    """What all of it is about: the most frequent stems, each by the logarithm of its count."""
    by_stem: Counter[str] = Counter()
    for word, times in _most_frequent(counts, 2 * MOST_WORDS):
        for stem in stems_of(word):
            by_stem[stem] += times
    return {word: 1 + math.log(times) for word, times in _most_frequent(by_stem, MOST_WORDS)}


def _most_frequent(counted: Counter[str], most: int) -> list[tuple[str, int]]:
    """Among equals the first in the alphabet, so that the order of texts does not change the topic."""
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


@lru_cache(maxsize=1 << 16)
def stems_of(word: str) -> tuple[str, ...]:
    return tuple(stems(word))


def merged(left: Topic, right: Topic) -> Topic:
    """What two topics are about together."""
    return {word: left.get(word, 0.0) + right.get(word, 0.0) for word in {**left, **right}}


def cosine(left: Topic, right: Topic) -> float:
    """How alike two topics are, from 0 to 1."""
    return 0.0 if left.keys().isdisjoint(right) else dot(unit(left), unit(right))


def alike(named: Iterable[tuple[str, Topic]], threshold: float) -> Iterator[tuple[float, str, str]]:
    """Every pair above the threshold with its similarity, without looking at every pair.

    The words of a topic are taken in one order, the rarest first, and only as many that what is left of the topic
    cannot reach the threshold by itself: two topics that reach it have one of those words in common (prefix filtering,
    Bayardo 2007). Where very many are about the same, each is held against a part of them.
    """
    topics: Sequence[tuple[str, Topic]] = [(name, unit(counts)) for name, counts in named]
    spread = Counter(word for _, one in topics for word in one)
    earlier: defaultdict[str, list[int]] = defaultdict(list)
    for index, (name, vector) in enumerate(topics):
        heads = _heads(vector, spread, threshold)
        shared = Counter(other for word in heads for other in earlier[word])
        for other, _ in shared.most_common(MOST_COMPARED):
            similarity = dot(topics[other][1], vector)
            if similarity > threshold:
                yield similarity, topics[other][0], name
        for word in heads:
            earlier[word].append(index)


def _heads(vector: Topic, spread: Mapping[str, int], threshold: float) -> list[str]:
    heads: list[str] = []
    left = math.fsum(value * value for value in vector.values())
    for word in sorted(vector, key=lambda word: (spread[word], word)):
        if math.sqrt(max(left, 0.0)) < threshold * (1 - 1e-9):
            break
        heads.append(word)
        left -= vector[word] ** 2
    return heads


def unit(vector: Topic) -> Topic:
    """The same with length 1; empty for one that weighs nothing."""
    length = math.sqrt(math.fsum([value * value for value in vector.values()]))
    return {word: value / length for word, value in vector.items() if value} if length else {}


def dot(left: Topic, right: Topic) -> float:
    """How alike two topics of length 1 are, from 0 to 1."""
    return min(1.0, math.fsum([left[word] * right[word] for word in left.keys() & right.keys()]))
