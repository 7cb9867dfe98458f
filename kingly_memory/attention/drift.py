"""Finds where a thread moves from one topic to another, from its messages alone. Pure.

At each gap between two messages the words of the five before are compared with those of the five after (after
TextTiling, Hearst 1997). A shift is where they have next to nothing in common, and clearly less than on either side.
Words that are said all over a thread count little: else its usual phrases would hold any two topics together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from kingly_memory.attention.pertinence import FILLERS, telling
from kingly_memory.ports import Line
from kingly_memory.text.topics import READ, cosine, stems_of
from kingly_memory.text.writing import words

_AROUND = 5
"""Messages on each side of a gap that are compared."""
_COMMON = 4
"""A word counts less, the more messages beyond this many say it."""
_SAME = 0.15
"""Two parts of a thread that are at least so alike are about the same."""
_LONGEST_WORD = 24
DRIFTED, LOOKED_AT, DISTINCT = 3, 5, 3
"""A thread is adrift when it had more than three topics, of the last five at least three different ones (seed 002)."""


class Care(NamedTuple):
    """How sure a shift has to be: how alike both sides may be at most, how much less alike than their surroundings, how
    many different words each side must have, and how many messages lie between two shifts."""

    most_alike: float
    depth: float
    fewest_words: int
    between: int


UNASKED = Care(0.07, 0.1, 8, 3)
"""When nobody asked: rather no shift than a false one."""
ASKED = Care(0.0, 0.0, 3, 1)
"""When somebody says that there are several topics."""


class Segment(NamedTuple):
    """The messages from `first` up to `end`. Segments about the same have the same number and label."""

    first: int
    end: int
    number: int
    label: str


def history(messages: Sequence[Line]) -> tuple[str, ...]:
    """What a thread was about, in order; nothing for a thread that stays with one topic."""
    parts = segments(messages)
    return tuple(one.label for one in parts) if len(parts) > 1 else ()


def is_adrift(history: Sequence[str]) -> bool:
    """Whether the thread had better be split."""
    return len(history) > DRIFTED and len(set(history[-LOOKED_AT:])) >= DISTINCT


def segments(messages: Sequence[Line], care: Care = UNASKED) -> tuple[Segment, ...]:
    """The parts of a thread between its shifts, in order."""
    stems = [frozenset((*telling(_text(one)), *(f"#{tag.casefold()}" for tag in one.tags))) for one in messages]
    weights = {word: min(1.0, _COMMON / times) for word, times in Counter(chain.from_iterable(stems)).items()}
    shifts = _shifts(stems, weights, care)
    ends = (*shifts, len(messages))
    spans = list(zip((0, *ends), ends, strict=False))
    numbers = _numbered([_weighed(stems[first:end], weights) for first, end in spans])
    labels = _labels([messages[first:end] for first, end in spans], numbers) if shifts else {0: "part 1"}
    return tuple(Segment(*span, number, labels[number]) for span, number in zip(spans, numbers, strict=True))


def by_drift(messages: Sequence[Line]) -> list[list[int]]:
    """The places of the messages of each topic that the thread came to, the first topic first; one list when there is
    nothing to tell apart. Who divides a thread says that it has several topics."""
    parts = segments(messages)
    places: dict[int, list[int]] = {}
    for one in parts if len(parts) > 1 else segments(messages, ASKED):
        places.setdefault(one.number, []).extend(range(one.first, one.end))
    return list(places.values())


def telling_of(spoken: Mapping[str, int], most: int, elsewhere: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """The words that tell best what was said, in small letters: said most often, and seldom `elsewhere`. Forms of a
    word count as one, shown as it is written most often."""
    forms: dict[str, list[str]] = {}
    for word in spoken:
        if (stem := _topic_stem(word)) is not None:
            forms.setdefault(stem, []).append(word)
    away: Counter[str] = Counter()
    for word, count in (elsewhere or {}).items():
        if (stem := _topic_stem(word)) in forms:
            away[stem] += count
    times = {stem: sum(spoken[word] for word in written) for stem, written in forms.items()}
    scores = {stem: count * count / (count + away[stem]) for stem, count in times.items()}
    ranked = nsmallest(most, scores, key=lambda stem: (-scores[stem], -len(stem), stem))
    return tuple(min(forms[stem], key=lambda word: (-spoken[word], len(word), word)) for stem in ranked)


def _text(line: Line) -> str:
    return f"{line.title} {line.text}"[:READ].strip()


def _weighed(stems: Sequence[frozenset[str]], weights: Mapping[str, float]) -> dict[str, float]:
    return {word: count * weights[word] for word, count in Counter(chain.from_iterable(stems)).items()}


def _shifts(stems: Sequence[frozenset[str]], weights: Mapping[str, float], care: Care) -> list[int]:
    """Before which messages the topic shifts, in order."""
    alike: list[float] = []
    fewest: list[int] = []
    for at in range(1, len(stems)):
        before = _weighed(stems[max(0, at - _AROUND) : at], weights)
        after = _weighed(stems[at : at + _AROUND], weights)
        alike.append(cosine(before, after))
        fewest.append(min(len(before), len(after)))
    candidates: list[tuple[float, int]] = []
    for gap, value in enumerate(alike):
        if value > care.most_alike or fewest[gap] < care.fewest_words:
            continue
        left = right = gap  # the nearest summits before and after
        while left > 0 and alike[left - 1] >= alike[left]:
            left -= 1
        while right < len(alike) - 1 and alike[right + 1] >= alike[right]:
            right += 1
        depth = alike[left] + alike[right] - 2 * value
        if depth >= care.depth:
            candidates.append((value - depth, gap + 1))
    taken: list[int] = []
    for _, at in sorted(candidates):
        if all(abs(at - other) >= care.between for other in taken):
            taken.append(at)
    return sorted(taken)


def _numbered(topics: Sequence[Mapping[str, float]]) -> list[int]:
    """Each part gets the number of the earlier ones that it is most like, else a new one."""
    counted: list[Counter[str]] = []
    numbers: list[int] = []
    for topic in topics:
        likeness = [cosine(topic, one) for one in counted]
        best = max(range(len(counted)), key=likeness.__getitem__, default=0)
        if not counted or likeness[best] < _SAME:
            best = len(counted)
            counted.append(Counter())
        counted[best].update(topic)
        numbers.append(best)
    return numbers


def _labels(parts: Sequence[Sequence[Line]], numbers: Sequence[int]) -> dict[int, str]:
    """By number: a tag that no other part bears, else the words that tell it from the others."""
    spoken: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    tags: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    for number, messages in zip(numbers, parts, strict=True):
        for message in messages:
            spoken[number].update(words(_text(message)))
            tags[number].update(message.tags)
    labels: dict[int, str] = {}
    everywhere = sum(spoken.values(), Counter[str]())
    for number, own in spoken.items():
        elsewhere = {tag for other, counted in tags.items() if other != number for tag in counted}
        tag = next((tag for tag, _ in tags[number].most_common() if tag not in elsewhere), None)
        label = tag or " ".join(telling_of(own, 2, everywhere - own)) or f"part {number + 1}"
        labels[number] = f"{label} {number + 1}" if label in labels.values() else label
    return labels


@lru_cache(maxsize=1 << 16)
def _topic_stem(word: str) -> str | None:
    """None for what names no topic: words that are everywhere, numbers, and overlong runs of characters."""
    if word.isdigit() or not 1 < len(word) <= _LONGEST_WORD:
        return None
    return next((stem for stem in stems_of(word) if stem not in FILLERS), None)
