"""How much of each hit is shown: all of it, the part that answers, or its title; and what fits into a budget. Pure.

An agent pays for every token it is shown, so it can look at titles first and ask for the text of what it wants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple

from kingly_memory.models import Hit, Shown, View
from kingly_memory.stemming import stem
from kingly_memory.writing import (
    CHARACTERS_PER_TOKEN,
    STOP_WORDS,
    estimated_tokens,
    token_spans,
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
_ID_TOKENS = 15
"""An id in a list of them."""
LATER_SHARE = 0.5
"""Of a budget, at most: what is kept for the titles of hits, before the best of them are shown in more than that."""

_READ = 16_384
"""Characters of a memory that are looked through for its passage, and counted for an estimate."""
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
    """The hits that are shown and how, by id; the others had no room."""

    hits: tuple[Hit, ...]
    shown: dict[str, Shown]
    left_out: int


def disclose(
    hits: Sequence[Hit],
    most: View,
    *,
    asked: Iterable[str],
    budget_tokens: int | None = None,
    repeats: Mapping[str, Sequence[str]] | None = None,
) -> Disclosed:
    """Each hit in the view `most` or, within a budget, in the fullest view that fits, the best hits first.

    `asked` are the texts whose words make a passage relevant, `repeats` the ids of what says the same as a hit. A
    budget counts the JSON of the hits as they are shown, and those ids.
    """
    roots = _roots(asked)
    shown: dict[str, Shown]
    if budget_tokens is None:
        shown = {hit.memory.id: next(_views(hit, most, roots)) for hit in hits}
        return Disclosed(tuple(hits), shown, 0)
    titles = [_title_only(hit) for hit in hits]
    named = repeats or {}
    costs = [cost(hit, one) + _naming(named.get(hit.memory.id, ())) for hit, one in zip(hits, titles, strict=True)]
    kept = _kept(costs, budget_tokens, 1.0 if most is View.TITLE else LATER_SHARE)
    left = budget_tokens - sum(costs[:kept])
    shown = {}
    for place, (hit, title) in enumerate(zip(hits, titles, strict=True)):
        left -= costs[place] if place >= kept else 0
        if left < 0:
            break
        best = next(_affordable(hit, most, roots, left + cost(hit, title)), title)
        left -= cost(hit, best) - cost(hit, title)
        shown[hit.memory.id] = best
    return Disclosed(tuple(hits[: len(shown)]), shown, len(hits) - len(shown))


def cost(hit: Hit, shown: Shown) -> int:
    """Tokens of a hit as it is shown, estimated from its JSON."""
    return estimated_tokens(json.dumps(shown.to_json(hit), ensure_ascii=False)) + FRAME_TOKENS


def _naming(ids: Sequence[str]) -> int:
    return _ID_TOKENS * (1 + len(ids)) if ids else 0


def passage(text: str, asked: Iterable[str], most: int = PASSAGE) -> str:
    """The part of a text with most of the words asked for, at most that many characters; its beginning when it has none
    of them. `…` stands where something is left out."""
    return _passage(text, _roots(asked), most)


def _kept(costs: Sequence[int], budget: int, share: float) -> int:
    """For how many hits a title's room is kept: as many as that share of the budget holds, and the best one."""
    kept, spent = 0, 0
    for one in costs:
        spent += one
        if spent > budget * (share if kept else 1.0):
            break
        kept += 1
    return kept


def _affordable(hit: Hit, most: View, roots: Roots, tokens: int) -> Iterator[Shown]:
    """Its views from the fullest one on that cost at most so many tokens, titles aside."""
    if most is View.FULL and len(hit.memory.content) > tokens * CHARACTERS_PER_TOKEN:
        most = View.PASSAGE
    for one in _views(hit, most, roots):
        if one.view is not View.TITLE and cost(hit, one) <= tokens:
            yield one


def _views(hit: Hit, most: View, roots: Roots) -> Iterator[Shown]:
    """Its views, the fullest first; what is as short as a passage is shown whole in its place."""
    text, tokens = hit.memory.content, _tokens(hit.memory.content)
    if most is View.FULL or (most is View.PASSAGE and len(text) <= PASSAGE):
        yield Shown(View.FULL, hit.memory.title, text, tokens)
    if most is not View.TITLE:
        for length in (PASSAGE, *_SHORTER):
            if len(text) > length:
                yield Shown(View.PASSAGE, _title(hit.memory.title), _passage(text, roots, length), tokens)
    yield _title_only(hit)


def _title_only(hit: Hit) -> Shown:
    memory = hit.memory
    return Shown(View.TITLE, _title(memory.title or memory.content), None, _tokens(memory.content))


def _title(text: str | None) -> str | None:
    """On one line, shortened to its first words."""
    if text is None:
        return None
    line = " ".join(text[: TITLE * 4].split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1].rstrip()}{_CUT}"


def _tokens(text: str) -> int:
    """The estimate, from the beginning alone where a text is long."""
    if len(text) <= _READ:
        return estimated_tokens(text)
    return max(len(text) // CHARACTERS_PER_TOKEN, len(token_spans(text[:_READ])) * len(text) // _READ)


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


def _passage(text: str, roots: Roots, most: int) -> str:
    if len(text) <= most:
        return text
    room = most - 2 * len(_CUT)
    first, last = _window(_spots(text[:_READ], roots), room)
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
    for at, first in enumerate(spots):
        inside = _within(spots, at, first.begin + most)
        count = len({one.root for one in inside})
        if count > found:
            begin, end, found = first.begin, inside[-1].end, count
    return begin, end


def _within(spots: Sequence[_Spot], at: int, reach: int) -> list[_Spot]:
    return list(takewhile(lambda one: one.end <= reach, islice(spots, at, None)))


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
