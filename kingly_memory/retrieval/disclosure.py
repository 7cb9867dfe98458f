"""How much of each hit is shown: all of it, the part that answers, or its title; and what fits into a budget. Pure.

An agent pays for every token it is shown, so it can look at titles first and ask for the text of what it wants.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from kingly_memory.models import Detail, Hit, Shown
from kingly_memory.stemming import stem
from kingly_memory.writing import (
    CHARACTERS_PER_TOKEN,
    STOP_WORDS,
    estimated_tokens,
    unbroken_runs,
    without_unbroken,
    words,
)

PASSAGE = 480
"""Characters of a passage, and of the shorter ones that are tried where that does not fit."""
_SHORTER = (240, 120)
TITLE = 80
"""Characters of a title."""
FRAME_TOKENS = 12
"""What a face adds to a hit: layers, and longer names of fields."""
_QUOTED_TOKENS = 2
"""What stands around an id in a list of them."""
_FIELD_TOKENS = 5
"""The name of a field, and a number."""
LATER_SHARE = 0.5
"""Of a budget, at most: what is kept for the titles of hits, before the best of them are shown in more than that."""

_READ = 16_384
"""Characters of a memory that are looked through for its passage, and counted for an estimate."""
_READ_LATE = 320
"""The same when the time is over."""
_MOST_ROOTS = 16
_MOST_SPOTS = 200
_ALIKE = 2
"""Letters at the beginning of a word that its stem has too."""
_CUT = "…"
_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s+")
_NEAR = 40
"""Characters within which a passage is made to begin and end with a word."""
_SENTENCE_END = re.compile(r"[.!?]\s+|[\n。！？]")


class Disclosed(NamedTuple):
    """The hits that are shown and how, by id; the others had no room. Of what says the same as a hit those ids that had
    room, and how many more there are. `cut`: there was no time to look for passages in all of them."""

    hits: tuple[Hit, ...]
    shown: dict[str, Shown]
    left_out: int
    named: dict[str, tuple[str, ...]]
    unnamed: dict[str, int]
    cut: bool = False


def disclose(
    hits: Sequence[Hit],
    most: Detail,
    *,
    asked: Iterable[str],
    budget_tokens: int | None = None,
    repeats: Mapping[str, Sequence[str]] | None = None,
    deadline_s: float = inf,
) -> Disclosed:
    """Each hit in as much detail as `most` or, within a budget, in as much as fits, the best hits first.

    `asked` are the texts whose words make a passage relevant, `repeats` the ids of what says the same as a hit. A
    budget counts the JSON of the hits as they are shown and of their repeats, which are named last. After `deadline_s`,
    on the monotonic clock, hits are shown by title.
    """
    own = {hit.memory.id for hit in hits}
    known = {one: tuple(others) for one, others in (repeats or {}).items() if others and one in own}
    told = [_Telling(hit, most, known.get(hit.memory.id, ()), deadline_s) for hit in hits]
    roots = _roots(asked)
    if budget_tokens is None:
        shown = {one.id: next(one.views(roots), one.title) for one in told}
        return Disclosed(tuple(hits), shown, 0, known, {}, any(one.is_late for one in told))
    kept = _kept([one.least for one in told], budget_tokens, 1.0 if most is Detail.TITLE else LATER_SHARE)
    left = budget_tokens - sum(told[place].least for place in kept)
    shown = {}
    for place, one in enumerate(told):
        room = left + (one.least if place in kept else 0)
        if room < one.least:
            continue
        affordable = (view for view in one.views(roots, room) if one.price(view) <= room)
        shown[one.id] = next(affordable, one.title)
        left = room - one.price(shown[one.id])
    seen = [one for one in told if one.id in shown]
    named, unnamed = _named(seen, left)
    is_cut = any(one.is_late for one in told)
    return Disclosed(tuple(one.hit for one in seen), shown, len(told) - len(seen), named, unnamed, is_cut)


def cost(hit: Hit, shown: Shown) -> int:
    """Tokens of a hit as it is shown, estimated from its JSON."""
    return estimated_tokens(json.dumps(shown.to_json(hit), ensure_ascii=False)) + FRAME_TOKENS


def spent(hit: Hit, shown: Shown, named: Sequence[str] = (), unnamed: int = 0) -> int:
    """Tokens of a hit as it is shown, with the ids of its repeats, and with how many more there are."""
    counted = naming_cost([hit.memory.id]) + _FIELD_TOKENS if named or unnamed else 0
    return cost(hit, shown) + counted + (naming_cost([hit.memory.id, *named]) if named else 0)


def naming_cost(ids: Iterable[str]) -> int:
    """Tokens of ids in a list of repeats."""
    return sum(estimated_tokens(one) + _QUOTED_TOKENS for one in ids)


class _Telling:
    """One hit on the way to how it is shown. What it costs at least is its title, and how often it was said again."""

    def __init__(self, hit: Hit, most: Detail, repeats: tuple[str, ...], deadline_s: float) -> None:
        self.hit = hit
        self.repeats = repeats
        self.is_late = False
        self._most = most
        self._deadline_s = deadline_s
        self.title = _title_only(hit, _READ if time.monotonic() < deadline_s else _READ_LATE)
        self.least = self.price(self.title)

    @property
    def id(self) -> str:
        return self.hit.memory.id

    def price(self, shown: Shown) -> int:
        """Without the ids of its repeats, which are named where there is room in the end."""
        return spent(self.hit, shown, unnamed=len(self.repeats))

    def views(self, roots: Roots, tokens: int | None = None) -> Iterator[Shown]:
        """More than its title, the fullest first; what is as short as a passage is shown whole in its place."""
        memory, length = self.hit.memory, len(self.hit.memory.content)
        is_whole = self._most is Detail.FULL or (self._most is Detail.PASSAGE and length <= PASSAGE)
        if is_whole and (tokens is None or length <= tokens * CHARACTERS_PER_TOKEN):
            yield Shown(Detail.FULL, memory.title, memory.content, self.title.tokens)
        if self._most is Detail.TITLE or length <= _SHORTER[-1]:
            return
        self.is_late = time.monotonic() >= self._deadline_s
        if self.is_late:
            return
        spots = _spots(memory.content[:_READ], roots)
        for most in (PASSAGE, *_SHORTER):
            if length > most:
                told = _passage(memory.content, spots, most)
                yield Shown(Detail.PASSAGE, _title(memory.title), told, self.title.tokens)


def _kept(costs: Sequence[int], budget: int, share: float) -> frozenset[int]:
    """For which hits a title's room is kept: as many as that share of the budget holds, and the best one."""
    kept: set[int] = set()
    spent = 0
    for place, one in enumerate(costs):
        if spent + one <= budget * (share if kept else 1.0):
            spent += one
            kept.add(place)
    return frozenset(kept)


def _named(told: Sequence[_Telling], tokens: int) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """The ids of repeats for which there is room when all is shown, and how many more each hit has."""
    named: dict[str, tuple[str, ...]] = {}
    unnamed: dict[str, int] = {}
    for one in told:
        left = tokens - naming_cost([one.id])
        several = []
        for other in one.repeats:
            left -= naming_cost([other])
            if left < 0:
                break
            several.append(other)
        if several:
            named[one.id] = tuple(several)
            tokens -= naming_cost([one.id, *several])
        if len(several) < len(one.repeats):
            unnamed[one.id] = len(one.repeats) - len(several)
    return named, unnamed


def passage(text: str, asked: Iterable[str], most: int = PASSAGE) -> str:
    """The part of a text with most of the words asked for, at most that many characters; its beginning when it has none
    of them. `…` stands where something is left out."""
    return _passage(text, _spots(text[:_READ], _roots(asked)), most)


def _title_only(hit: Hit, read: int) -> Shown:
    memory = hit.memory
    return Shown(Detail.TITLE, _title(memory.title or memory.content), None, _tokens(memory.content, read))


def _title(text: str | None) -> str | None:
    """On one line, shortened to its first words."""
    if text is None:
        return None
    line = " ".join(text[: TITLE * 4].split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1].rstrip()}{_CUT}"


def _tokens(text: str, read: int) -> int:
    """The estimate, from the beginning alone where a text is longer than that."""
    if len(text) <= read:
        return estimated_tokens(text)
    return max(len(text) // CHARACTERS_PER_TOKEN, estimated_tokens(text[:read]) * len(text) // read)


# --- the part that answers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roots:
    """What to look for in a text: stems of words, and pieces of scripts without spaces."""

    stems: frozenset[str]
    pieces: tuple[str, ...]

    @property
    def beginnings(self) -> tuple[str, ...]:
        """How every word begins that has one of the stems."""
        return tuple({one[:_ALIKE] for one in self.stems})


class _Spot(NamedTuple):
    """Where a root stands."""

    begin: int
    end: int
    root: str


def _roots(asked: Iterable[str]) -> Roots:
    text = " ".join(asked)
    said = dict.fromkeys(words(without_unbroken(text)))
    telling = [word for word in said if word not in STOP_WORDS] or list(said)
    runs = unbroken_runs(text)
    pieces = dict.fromkeys(run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1)))
    return Roots(frozenset(map(stem, telling[:_MOST_ROOTS])), tuple(pieces)[:_MOST_ROOTS])


def _passage(text: str, spots: Sequence[_Spot], most: int) -> str:
    if len(text) <= most:
        return text
    room = most - 2 * len(_CUT)
    first, last = _window(spots, room)
    begin = _sentence_begin(text, first, room - (last - first))
    end = begin + room
    before = _CUT if begin else ""
    if end >= len(text):
        return before + text[begin:].strip()
    return before + text[begin : _word_end(text, end, begin)].strip() + _CUT


def _spots(text: str, roots: Roots) -> list[_Spot]:
    """Where the roots stand, in the order of the text."""
    spots = list(_word_spots(text, roots)) if roots.stems else []
    for piece in roots.pieces:
        spots += [_Spot(one.start(), one.end(), piece) for one in re.finditer(re.escape(piece), text)]
    return sorted(spots)[:_MOST_SPOTS]


def _word_spots(text: str, roots: Roots) -> Iterator[_Spot]:
    beginnings = roots.beginnings
    for one in _WORD.finditer(text):
        word = one.group().casefold()
        if word.startswith(beginnings) and (root := stem(word)) in roots.stems:
            yield _Spot(one.start(), one.end(), root)


def _window(spots: Sequence[_Spot], most: int) -> tuple[int, int]:
    """From where to where the most different roots stand within so many characters, the first time among equals."""
    begin, end, found = 0, 0, 0
    inside: Counter[str] = Counter()
    after = 0
    for at, first in enumerate(spots):
        while after < len(spots) and spots[after].end <= first.begin + most:
            inside[spots[after].root] += 1
            after += 1
        if after == at:  # longer than there is room for
            after += 1
            continue
        if len(inside) > found:
            begin, end, found = first.begin, spots[after - 1].end, len(inside)
        inside[first.root] -= 1
        if not inside[first.root]:
            del inside[first.root]
    return begin, end


def _sentence_begin(text: str, at: int, spare: int) -> int:
    """Where the sentence begins that holds that place, if that is near enough; else a few words before it."""
    earliest = max(at - spare, 0)
    ends = [one.end() for one in _SENTENCE_END.finditer(text, earliest, at)]
    if ends:
        return ends[-1]
    return _word_begin(text, at - spare // 2) if earliest else 0


def _word_begin(text: str, at: int) -> int:
    """The beginning of the next word, unless there is none near."""
    found = _SPACE.search(text, at, at + _NEAR)
    return found.end() if found else at


def _word_end(text: str, at: int, after: int) -> int:
    """The end of the word before, unless there is none near."""
    spaces = [one.start() for one in _SPACE.finditer(text, max(at - _NEAR, after), at + 1)]
    return spaces[-1] if spaces else at
