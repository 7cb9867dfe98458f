"""Which memories only say again what another one says. Pure.

Two memories say nearly the same when they are of one agent, context, type, origin and title, carry the same metadata,
and have the same words in the same order. Case, the marks between words, contractions, articles, numbers in letters and
a few fillers may differ; a number, a name, a negation, a sign, a code, the order of words and any word that carries
something may not. How alike they are is the share of their words, articles aside, that both have.

What holds for its day only (`tomorrow`, `on Monday`), and what happened, is said again on the same day or not at all.
Nothing that stays on this machine is like anything that does not.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from kingly_memory.models import REMOTE_ABOVE, Memory, MemoryType

READ = 4_096
"""Characters up to which texts are compared word by word; longer ones say the same when they are the same."""

_ARTICLES = frozenset(("a", "an", "the"))
_FILLERS = frozenset("actually also basically indeed kindly please".split())
_LEADS = frozenset("btw fyi hey hi note ok okay reminder".split())
"""Fillers where a text begins with them."""
_TIMES = frozenset(
    """today tonight tomorrow yesterday now currently current ago last next this recent recently latest soon
    monday tuesday wednesday thursday friday saturday sunday""".split()
)
_NEGATIONS = frozenset("no not never none nothing nobody nowhere neither nor without".split())
"""Behind one of these a mark decides what is denied: `No, deploys wait` and `No deploys wait`."""
_CONTRACTED = {
    "can't": "can not",
    "cannot": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "i'm": "i am",
}
_ENDINGS = (("n't", "not"), ("'re", "are"), ("'ll", "will"), ("'ve", "have"))
_NUMBERS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}

_MARKS = ".,;:!…。、，！"
"""What only ends a word. A question mark is none of them: a question is no statement."""
_OPENING, _CLOSING = "\"'`“”„‘«([{", "\"'`“”‘»)]}"
_ENDS = (".", "!", "?", ":", "。", "！", "？")
_DASHES = frozenset(("—", "–", "...", "…"))
_NOT_PLAIN = frozenset((*_ARTICLES, *_FILLERS, *_LEADS, *_CONTRACTED, *_NUMBERS))
_LONG = re.compile(r"[^\W\d_]{5,}")
_LONG_ASCII = re.compile(r"[a-z]{5,}")
"""Finds the same in small letters of ASCII, in a quarter of the time."""
_NOT_LONG = frozenset((*_FILLERS, *_LEADS, *_NUMBERS, "cannot", "shall"))
_PLAIN = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Saying:
    """What of a memory has to be the same (`gist`), how many words of the text that is, and the fillers beside."""

    gist: Hashable
    words: int
    fillers: tuple[str, ...] = ()


def stands_for_itself(memory: Memory) -> bool:
    """However often it is said: working memories end soon, and records (of tasks, thoughts, …) are counted."""
    return memory.type is MemoryType.WORKING or "record" in memory.metadata


def glance(memory: Memory) -> int:
    """A number that memories which say nearly the same share, and few others: made of their long words, at a tenth of
    the cost of `saying`. Holds within one process."""
    text = memory.content
    if len(text) > READ:
        return hash(text)
    long = _LONG_ASCII if text.isascii() else _LONG
    said = long.findall(_composed(text).lower().replace("n't", " not"))
    return hash((memory.type, memory.scope.context_id, *[word for word in said if word not in _NOT_LONG]))


def saying(memory: Memory) -> Saying | None:
    """None for what stands for itself."""
    if stands_for_itself(memory):
        return None
    said, fillers = _taken_apart(memory.content)
    title = () if memory.title is None else _taken_apart(memory.title)[0]
    is_of_its_day = memory.type is MemoryType.EPISODIC or any(word.lower() in _TIMES for word in said)
    gist = (
        memory.scope,
        memory.type,
        memory.origin,
        memory.significance > REMOTE_ABOVE,
        memory.created_at.date() if is_of_its_day else None,
        json.dumps(memory.metadata, sort_keys=True) if memory.metadata else "",
        memory.title is None,
        title,
        said,
    )
    return Saying(gist, len(said), fillers)


def similarity(one: Saying, other: Saying) -> float:
    """From 0 (they say different things) to 1: the share of all their words that both have (Jaccard's)."""
    if one.gist != other.gist:
        return 0.0
    mine, theirs = Counter(one.fillers), Counter(other.fillers)
    every = one.words + (mine | theirs).total()
    return (one.words + (mine & theirs).total()) / every if every else 1.0


def _taken_apart(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that carry something, in their order, and the fillers."""
    if len(text) > READ:
        return (text,), ()
    said: list[str] = []
    fillers: list[str] = []
    is_beginning = True
    for raw in _composed(text).split():
        if raw.isalpha() and raw.islower() and raw not in _NOT_PLAIN:
            said.append(raw)  # as most words: there is nothing to take away
            is_beginning = False
            continue
        if raw in _DASHES:
            continue
        for word in _plain(raw, is_beginning=is_beginning):
            if word in _ARTICLES:
                continue
            (fillers if word in _FILLERS or (not said and word in _LEADS) else said).append(word)
        is_beginning = raw.rstrip(_CLOSING).endswith(_ENDS)
    if not said:  # a text of nothing but fillers, or of marks: it says what it says
        return tuple(text.split()), ()
    return tuple(said), tuple(sorted(fillers))


def _plain(raw: str, *, is_beginning: bool) -> list[str]:
    """A word without the marks around it. What may be a code stays as it is but for what ends a clause."""
    core = raw.lstrip(_OPENING).rstrip(_MARKS + _CLOSING)
    if not _PLAIN.fullmatch(core):
        return [raw.rstrip(".,;:")] if raw.strip(_MARKS + _OPENING + _CLOSING) else [raw]
    if is_beginning and (core[1:].islower() or core.lower() in _LEADS):
        core = core.lower()
    if not core.islower():  # a name, or one letter of which nobody knows
        return [core.lower()] if is_beginning and len(core) == 1 else [core]
    words = _CONTRACTED[core].split() if core in _CONTRACTED else _expanded(core)
    if words[-1] in _NEGATIONS and raw[-1] in _MARKS:
        words[-1] += ","
    return [_NUMBERS.get(word, word) for word in words]


def _expanded(word: str) -> list[str]:
    if "'" not in word:
        return [word]
    for ending, full in _ENDINGS:
        if len(word) > len(ending) and word.endswith(ending):
            return [word.removesuffix(ending), full]
    return [word]


def _composed(text: str) -> str:
    """Letters with accents written in one way, and the apostrophe too."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text).replace("’", "'")
