"""What of the hits is shown: all of it, the passage that answers, or its title; and what fits into a budget. Pure.

An agent pays for every token it is shown, so it can look at titles first and ask for the text of what it wants.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from kingly_memory.models import Detail, Hit, Shown
from kingly_memory.text import passages
from kingly_memory.text.writing import (
    CHARACTERS_PER_TOKEN,
    STOP_WORDS,
    estimated_tokens,
    stem,
    unbroken_runs,
    without_unbroken,
    words,
)

# --- how much is shown ----------------------------------------------------------------------------------------------

PASSAGE = 480
"""Characters of a passage; shorter ones are tried where that does not fit."""
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
_COUNTED, _COUNTED_LATE = 16_384, 320
"""Characters of a memory that are counted for an estimate, in time and after it."""


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
    roots = _roots(asked)
    ids_of: dict[str, tuple[str, ...]] = {hit.memory.id: tuple((repeats or {}).get(hit.memory.id, ())) for hit in hits}
    titles = [_title_only(hit, _COUNTED if time.monotonic() < deadline_s else _COUNTED_LATE) for hit in hits]
    shown: dict[str, Shown] = {}
    cut = False
    if budget_tokens is None:
        for hit, title in zip(hits, titles, strict=True):
            shown[hit.memory.id] = next(_views(hit, most, title, roots, room=inf, deadline_s=deadline_s), title)
            cut |= _is_late(hit, most, shown[hit.memory.id], deadline_s)
        return Disclosed(tuple(hits), shown, 0, {memory_id: ids for memory_id, ids in ids_of.items() if ids}, {}, cut)

    def price(hit: Hit, view: Shown) -> int:
        return spent(hit, view, unnamed=len(ids_of[hit.memory.id]))

    least = [price(hit, title) for hit, title in zip(hits, titles, strict=True)]
    kept, left = [0] * len(hits), budget_tokens  # room is kept for the title of the best, and for what follows it
    for index, cost in enumerate(least):
        later = budget_tokens * (LATER_SHARE if any(kept) and most is not Detail.TITLE else 1.0)
        if budget_tokens - left + cost <= later:
            kept[index] = cost
            left -= cost
    for index, (hit, title) in enumerate(zip(hits, titles, strict=True)):
        room = left + kept[index]
        if room >= least[index]:
            views = _views(hit, most, title, roots, room=room, deadline_s=deadline_s)
            view = next((view for view in views if price(hit, view) <= room), title)
            cut |= _is_late(hit, most, view, deadline_s)
            shown[hit.memory.id] = view
            left = room - price(hit, view)
    named: dict[str, tuple[str, ...]] = {}
    for memory_id in shown:
        room, others = left - naming_cost([memory_id]), []
        for other in ids_of[memory_id]:
            room -= naming_cost([other])
            if room < 0:
                break
            others.append(other)
        if others:
            named[memory_id] = tuple(others)
            left -= naming_cost([memory_id, *others])
    unnamed = {
        memory_id: more for memory_id in shown if (more := len(ids_of[memory_id]) - len(named.get(memory_id, ())))
    }
    seen = tuple(hit for hit in hits if hit.memory.id in shown)
    return Disclosed(seen, shown, len(hits) - len(seen), named, unnamed, cut)


def passage(text: str, query: str, most: int) -> str:
    """The part of a text, of so many characters at most, in which most words of the query stand; else its beginning."""
    return _passage(text, _spots(text, _roots([query]), 0, _LOOKED_THROUGH), most, 0)


def spent(hit: Hit, shown: Shown, unnamed: int) -> int:
    """Tokens of a hit as it is shown, estimated from its JSON, and of how many more say the same."""
    cost = estimated_tokens(json.dumps(shown.to_json(hit), ensure_ascii=False)) + FRAME_TOKENS
    return cost + (naming_cost([hit.memory.id]) + _FIELD_TOKENS if unnamed else 0)


def naming_cost(ids: Iterable[str]) -> int:
    """Tokens of ids in a list of repeats."""
    return sum(estimated_tokens(memory_id) + _QUOTED_TOKENS for memory_id in ids)


def _views(hit: Hit, most: Detail, title: Shown, roots: Roots, *, room: float, deadline_s: float) -> Iterator[Shown]:
    """More than its title, the fullest first; what is as short as a passage is shown whole in its place."""
    memory, length = hit.memory, len(hit.memory.content)
    is_whole = most is Detail.FULL or (most is Detail.PASSAGE and length <= PASSAGE)
    if is_whole and length <= room * CHARACTERS_PER_TOKEN:
        yield Shown(Detail.FULL, memory.title, memory.content, title.tokens)
    if most is Detail.TITLE or length <= _SHORTER[-1] or time.monotonic() >= deadline_s:
        return
    begin = int(hit.scores.get(passages.PASSAGE, 0))  # where the passage begins that the hit was found by
    end = begin + (passages.LONGEST if passages.PASSAGE in hit.scores else _LOOKED_THROUGH)
    spots = _spots(memory.content, roots, begin, end)
    # Where no word of the question stands, nothing says which part of the passage answers.
    for longest in (*(() if spots else (passages.LONGEST,)), PASSAGE, *_SHORTER):
        if length > longest:
            passage = _passage(memory.content, spots, longest, begin)
            yield Shown(Detail.PASSAGE, _title(memory.title), passage, title.tokens)


def _is_late(hit: Hit, most: Detail, shown: Shown, deadline_s: float) -> bool:
    """Whether it is shown by title because nobody had the time to look for a passage."""
    is_short = len(hit.memory.content) <= _SHORTER[-1]
    by_title = shown.view is Detail.TITLE and most is not Detail.TITLE
    return by_title and not is_short and time.monotonic() >= deadline_s


def _title_only(hit: Hit, read: int) -> Shown:
    """A title is what a hit costs at least. The estimate of its whole text is made from its first `read` characters."""
    memory, text = hit.memory, hit.memory.content
    tokens = estimated_tokens(text[:read])
    if len(text) > read:
        tokens = max(len(text) // CHARACTERS_PER_TOKEN, tokens * len(text) // read)
    return Shown(Detail.TITLE, _title(memory.title or text), None, tokens)


def _title(text: str | None) -> str | None:
    """On one line, shortened to its first words."""
    if text is None:
        return None
    line = " ".join(text[: TITLE * 4].split())
    return line if len(line) <= TITLE else f"{line[: TITLE - 1].rstrip()}{_CUT}"


# --- the part that answers ------------------------------------------------------------------------------------------

_LOOKED_THROUGH = 131_072
"""Characters of a memory that are looked through for a passage, where it was found by none."""
_MOST_ROOTS = 16
_CUT = "…"
_NEAR = 40
"""Characters within which a passage is made to begin and end with a word."""


class Roots(NamedTuple):
    """What to look for in a text: stems of words, and pieces of scripts without spaces."""

    stems: frozenset[str]
    pieces: tuple[str, ...]


class _Spot(NamedTuple):
    """Where a root stands."""

    begin: int
    end: int
    root: str


def _roots(asked: Iterable[str]) -> Roots:
    text = " ".join(asked)
    all_words = dict.fromkeys(words(without_unbroken(text)))
    telling = [word for word in all_words if word not in STOP_WORDS] or list(all_words)
    runs = unbroken_runs(text)
    pieces = dict.fromkeys(run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1)))
    return Roots(frozenset(map(stem, telling[:_MOST_ROOTS])), tuple(pieces)[:_MOST_ROOTS])


def _spots(text: str, roots: Roots, begin: int, end: int) -> list[_Spot]:
    """Where the roots stand in that part of a text, in its order."""
    beginnings = "|".join(sorted({re.escape(one[:2]) for one in roots.stems}))  # a word begins as its stem does
    word = re.compile(rf"(?<![^\W_])(?:{beginnings})[^\W_]*", re.IGNORECASE)
    matches = (
        (match, stem(match.group().casefold())) for match in (word.finditer(text, begin, end) if beginnings else ())
    )
    spots = [_Spot(one.start(), one.end(), root) for one, root in matches if root in roots.stems]
    for piece in roots.pieces:
        here = re.compile(re.escape(piece)).finditer(text, begin, end)
        spots += [_Spot(match.start(), match.end(), piece) for match in here]
    return sorted(spots)


def _passage(text: str, spots: Sequence[_Spot], most: int, begin: int) -> str:
    """The part of a text where the spots are; without any, what stands at `begin`."""
    if len(text) <= most:
        return text
    room = most - 2 * len(_CUT)
    first, last = _window(spots, room) if spots else (begin, begin)
    earliest = max(first - (room - (last - first)), 0)
    sentences = [match.end() for match in re.compile(r"[.!?]\s+|[\n。！？]").finditer(text, earliest, first)]
    if sentences:
        begin = sentences[-1]
    elif earliest:  # a few words before it, from the next word on
        begin = first - (first - earliest) // 2
        space = re.compile(r"\s+").search(text, begin, begin + _NEAR)
        begin = space.end() if space else begin
    else:
        begin = 0
    end, before = begin + room, _CUT if begin else ""
    if end >= len(text):
        return before + text[begin:].strip()
    spaces = [match.start() for match in re.compile(r"\s+").finditer(text, max(end - _NEAR, begin), end + 1)]
    return before + text[begin : spaces[-1] if spaces else end].strip() + _CUT


def _window(spots: Sequence[_Spot], most: int) -> tuple[int, int]:
    """The shortest stretch of so many characters at most in which the most different roots stand; the first among
    equals."""
    best, found = (0, 0), (0, 0)
    inside: Counter[str] = Counter()
    start = 0
    for at, last in enumerate(spots):
        inside[last.root] += 1
        while start <= at and (spots[start].begin < last.end - most or inside[spots[start].root] > 1):
            inside[spots[start].root] -= 1
            start += 1
        count, length = len(+inside), last.end - spots[start].begin if start <= at else 0
        if (count, -length) > found and count:
            best, found = (spots[start].begin, last.end), (count, -length)
    return best
