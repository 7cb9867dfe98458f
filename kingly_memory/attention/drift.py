"""Where a thread moves from one topic to another, told from its messages alone. Pure.

Between two messages the words of the five before are held against those of the five after (after TextTiling, Hearst
1997): a shift is where they have next to nothing in common, and clearly less than on either side of it. What is said
all over a thread counts little, else a talk's usual phrases would hold any two topics together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from kingly_memory.attention.pertinence import FILLERS, telling
from kingly_memory.topics import cosine, stems_of
from kingly_memory.writing import words

READ = 2_048
"""Characters of a message that are looked at."""
AROUND = 5
"""Messages before and after a gap that are held against each other."""
COMMON = 4
"""A word said in more messages than that counts less, the more of them."""
SAME = 0.15
"""From this likeness on two parts of a thread are about the same."""
LABEL_WORDS = 2
LONGEST_WORD = 24
"""Characters; what runs on longer is no word that anybody would call a topic."""
DRIFTED, LOOKED_AT, DISTINCT = 3, 5, 3
"""Adrift is a thread with more than three topics behind it, if at least three of the last five differ (seed 002)."""


class Said(NamedTuple):
    """A message of a thread."""

    text: str
    tags: Sequence[str] = ()


class Care(NamedTuple):
    """How sure a shift has to be: at most so alike, so much deeper than what surrounds it, with so many different words
    on either side, and so many messages from the next one."""

    most_alike: float
    depth: float
    fewest_words: int
    apart: int


UNASKED = Care(0.07, 0.1, 8, 3)
"""Told without being asked: rather none than a false one."""
ASKED = Care(0.0, 0.0, 3, 1)
"""Somebody says that there are several topics: without a word in common there may be, however short the thread."""


class Segment(NamedTuple):
    """The messages from `first` up to `end`. Segments with the same number are about the same, and so called."""

    first: int
    end: int
    number: int
    label: str


def history(messages: Sequence[Said], earlier: Iterable[str] = ()) -> tuple[str, ...]:
    """What a thread was about, in order; `earlier` is what is known from before its first message. Nothing is added by
    a thread that stays with one topic."""
    said = [_stems(one) for one in messages]
    weights = _weights(said)
    shifts = _shifts(said, weights, UNASKED)
    found = _segments(messages, said, weights, shifts) if shifts else ()
    return (*earlier, *(one.label for one in found))


def is_adrift(history: Sequence[str]) -> bool:
    """Whether the thread had better be split."""
    return len(history) > DRIFTED and len(set(history[-LOOKED_AT:])) >= DISTINCT


def segments(messages: Sequence[Said], care: Care = UNASKED) -> tuple[Segment, ...]:
    """The parts of a thread between its shifts, in order. None for no messages."""
    if not messages:
        return ()
    said = [_stems(one) for one in messages]
    weights = _weights(said)
    return _segments(messages, said, weights, _shifts(said, weights, care))


def telling_of(said: Mapping[str, int], most: int) -> tuple[str, ...]:
    """The words that tell best what was said, as they are written, in small letters: those said most often."""
    return _best(said, {}, most)


def _segments(
    messages: Sequence[Said], said: Sequence[frozenset[str]], weights: Mapping[str, float], shifts: Sequence[int]
) -> tuple[Segment, ...]:
    ends = (*shifts, len(messages))
    spans = list(zip((0, *ends), ends, strict=False))
    numbers = _numbered([_weighed(said[first:end], weights) for first, end in spans])
    labels = _labels([messages[first:end] for first, end in spans], numbers)
    return tuple(
        Segment(first, end, number, labels[number]) for (first, end), number in zip(spans, numbers, strict=True)
    )


def _stems(message: Said) -> frozenset[str]:
    tags = (f"#{tag.casefold()}" for tag in message.tags)
    return frozenset((*telling(message.text[:READ]), *tags))


def _weights(said: Sequence[frozenset[str]]) -> dict[str, float]:
    spread = Counter(chain.from_iterable(said))
    return {word: min(1.0, COMMON / times) for word, times in spread.items()}


def _weighed(said: Sequence[frozenset[str]], weights: Mapping[str, float]) -> dict[str, float]:
    times = Counter(chain.from_iterable(said))
    return {word: count * weights[word] for word, count in times.items()}


def _shifts(said: Sequence[frozenset[str]], weights: Mapping[str, float], care: Care) -> list[int]:
    """Before which messages the topic shifts, in order."""
    alike: list[float] = []
    fewest: list[int] = []
    for at in range(1, len(said)):
        before = _weighed(said[max(0, at - AROUND) : at], weights)
        after = _weighed(said[at : at + AROUND], weights)
        alike.append(cosine(before, after))
        fewest.append(min(len(before), len(after)))
    found = sorted(
        (alike[gap] - depth, gap + 1)
        for gap in range(len(alike))
        if alike[gap] <= care.most_alike
        and fewest[gap] >= care.fewest_words
        and (depth := _depth(alike, gap)) >= care.depth
    )
    taken: list[int] = []
    for _, at in found:
        if all(abs(at - other) >= care.apart for other in taken):
            taken.append(at)
    return sorted(taken)


def _depth(alike: Sequence[float], gap: int) -> float:
    """How much less alike both sides are than at the nearest summits before and after."""
    left = right = gap
    while left > 0 and alike[left - 1] >= alike[left]:
        left -= 1
    while right < len(alike) - 1 and alike[right + 1] >= alike[right]:
        right += 1
    return alike[left] + alike[right] - 2 * alike[gap]


def _numbered(topics: Sequence[Mapping[str, float]]) -> list[int]:
    """Each part gets the number of the earlier ones that it is most like, else a new one."""
    known: list[Counter[str]] = []
    numbers: list[int] = []
    for topic in topics:
        likeness = [cosine(topic, one) for one in known]
        best = max(range(len(known)), key=lambda number: likeness[number], default=0)
        if not known or likeness[best] < SAME:
            best = len(known)
            known.append(Counter())
        known[best].update(topic)
        numbers.append(best)
    return numbers


def _labels(parts: Sequence[Sequence[Said]], numbers: Sequence[int]) -> dict[int, str]:
    """By number: a tag that all of it bears and no other part, else the words that tell it from the others."""
    said: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    tags: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    for number, part in zip(numbers, parts, strict=True):
        for message in part:
            said[number].update(words(message.text[:READ]))
            tags[number].update(message.tags)
    labels: dict[int, str] = {}
    everywhere = sum(said.values(), Counter[str]())
    for number, own in said.items():
        elsewhere = everywhere - own
        tag = next((tag for tag, _ in tags[number].most_common() if _is_own(tag, number, tags)), None)
        named = tag or " ".join(_best(own, elsewhere, LABEL_WORDS)) or f"part {number + 1}"
        labels[number] = f"{named} {number + 1}" if named in labels.values() else named
    return labels


def _is_own(tag: str, number: int, tags: Mapping[int, Counter[str]]) -> bool:
    return all(tag not in counted for other, counted in tags.items() if other != number)


def _best(said: Mapping[str, int], elsewhere: Mapping[str, int], most: int) -> tuple[str, ...]:
    """Forms of a word count as one, shown as it is written most often."""
    forms: dict[str, list[str]] = {}
    for word in said:
        if (stem := _stem(word)) is not None:
            forms.setdefault(stem, []).append(word)
    away: dict[str, int] = {}
    for word, count in elsewhere.items():
        if (stem := _stem(word)) in forms:
            away[stem] = away.get(stem, 0) + count
    times = {stem: sum(said[word] for word in several) for stem, several in forms.items()}
    scores = {stem: count * count / (count + away.get(stem, 0)) for stem, count in times.items()}
    ranked = nsmallest(most, scores, key=lambda stem: (-scores[stem], -len(stem), stem))
    return tuple(min(forms[stem], key=lambda word: (-said[word], len(word), word)) for stem in ranked)


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str | None:
    """None for what names no topic: words that are everywhere, numbers, and runs of characters."""
    if word.isdigit() or not 1 < len(word) <= LONGEST_WORD:
        return None
    return next((stem for stem in stems_of(word) if stem not in FILLERS), None)
