"""Hits that say the same, as one hit: a repeat takes no room from what else there is to know. Pure.

Texts say the same when they are the same words in the same order, said by the same. Case, the marks between words,
articles, and a date in front that is the day of storing make no difference; a number, a name, a negation, a sign or the
order of words does.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kingly_memory.models import Hit, Memory

READ = 2_048
"""Characters up to which texts are compared word by word; longer ones say the same when they are the same."""

_HEAD = 120
_HEAD_WORDS = 6
"""Texts that begin otherwise are compared no further: most do."""

_QUOTES = "\"'`“”„‘’«»"
_MARKS = ".,;:!…。、，！"
"""What only ends a word. A question mark is none of them: a question is no statement."""
_NUMBER_MARKS = ".,;:"
"""The same behind a number, where 5', 5" and 5! are three things."""
_ALONE = frozenset((*_MARKS, "—", "..."))
_ARTICLES = frozenset(("the", "The", "an", "An", "a"))
"""Not `A`, which may be a name; at the beginning it is an article."""
_NEGATIONS = frozenset("no not never none nothing nobody nowhere neither nor cannot without".split())
"""Behind one of these a mark decides what is denied: `No, deploys wait` and `No deploys wait`."""


class Folded(NamedTuple):
    """Hits that all say different things, and the ids of what each of them stands for besides, by its id."""

    hits: tuple[Hit, ...]
    under: dict[str, tuple[str, ...]]


def fold(hits: Sequence[Hit], limit: int) -> Folded:
    """The first `limit` hits that say something new, in their order; each stands for those behind it that repeat it."""
    told = groups([hit.memory for hit in hits])[:limit]
    under: dict[str, tuple[str, ...]] = {
        hits[first].memory.id: tuple(hits[one].memory.id for one in others) for first, *others in told if others
    }
    return Folded(tuple(hits[group[0]] for group in told), under)


def groups(memories: Sequence[Memory]) -> list[list[int]]:
    """The places of memories that say the same: groups in the order of their first members, members in theirs."""
    beginnings: dict[Hashable, list[int]] = {}
    for place, memory in enumerate(memories):
        beginnings.setdefault(_beginning(memory), []).append(place)
    alike = [group for places in beginnings.values() for group in _apart(memories, places)]
    return sorted(alike)


def _apart(memories: Sequence[Memory], places: list[int]) -> list[list[int]]:
    """Memories of one beginning, by all they say."""
    if len(places) == 1:
        return [places]
    said: dict[Hashable, list[int]] = {}
    for place in places:
        said.setdefault(_said(memories[place]), []).append(place)
    return list(said.values())


def _beginning(memory: Memory) -> Hashable:
    text = memory.content
    if len(text) > READ:
        return text[:_HEAD], len(text)
    head = text[:_HEAD]
    if len(text) > _HEAD:
        head = head.rpartition(" ")[0]  # the last word may be cut
    return tuple(_words(head, memory))[:_HEAD_WORDS]


def _said(memory: Memory) -> Hashable:
    text = memory.content
    words = text if len(text) > READ else tuple(_words(text, memory)) or text
    title = tuple(_words(memory.title or "", memory))
    return memory.origin, memory.metadata.get("record"), str(memory.metadata.get("status")), title, words


def _words(text: str, memory: Memory) -> list[str]:
    """The words as they are compared."""
    said = _composed(text).split()
    if len(said) > 1 and said[0].strip("[]():,") == memory.created_at.date().isoformat():
        del said[0]
    if len(said) > 1 and said[0] == "A":
        del said[0]
    return [
        plain for word in said if word not in _ARTICLES and (plain := word.lower() if word.isalpha() else _plain(word))
    ]


def _plain(word: str) -> str:
    """A word without the marks around it; empty when it is nothing else. What may be a code keeps its case."""
    core = word.rstrip(_MARKS)
    if not core.isalpha():
        if word in _ALONE:
            return ""
        if any(one.isnumeric() for one in word):
            return word.rstrip(_NUMBER_MARKS)
        core = word.lstrip(_QUOTES).rstrip(_QUOTES + _MARKS)
        if not core.replace("'", "").replace("-", "").isalpha():
            return core or word
    lower = core.lower()
    is_negation = lower in _NEGATIONS or lower.endswith("n't")
    return f"{lower}," if is_negation and word[-1] in _MARKS else lower


def _composed(text: str) -> str:
    """Letters with accents written in one way, and the apostrophe too."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text).replace("’", "'")
