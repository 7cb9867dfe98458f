"""Hits that say the same, as one hit: a repeat takes no room from what else there is to know. Pure.

Texts say the same when they are the same words and marks in the same order, said by the same. Only the capital that a
text begins with, the mark that ends it, room between words, and a date in front that is the day of storing make no
difference. Everything else may: an article (`hepatitis a`), a comma (`the team lost, deploys won`), a capital (`US`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from kingly_memory.models import Hit, Memory

READ = 2_048
"""Characters up to which texts are compared word by word; longer ones say the same when they are the same."""
COMPARED = 128
"""Texts whose words are kept for the next comparison."""

_ENDS = ".!…。！"
"""What only ends a text. A question mark is none of them: a question is no statement."""
_LINE = "\n"
"""Where a line ends is a mark too: it keeps the items of a list apart."""
_AROUND_A_DATE = "[]():,"
_QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')


class Folded(NamedTuple):
    """Hits that all say different things, and the ids of what each of them stands for besides, by its id."""

    hits: tuple[Hit, ...]
    under: dict[str, tuple[str, ...]]


def fold(hits: Sequence[Hit]) -> Folded:
    """The hits that say something new, in their order; each stands for those behind it that repeat it."""
    told = groups([hit.memory for hit in hits])
    under: dict[str, tuple[str, ...]] = {
        hits[first].memory.id: tuple(hits[one].memory.id for one in others) for first, *others in told if others
    }
    return Folded(tuple(hits[group[0]] for group in told), under)


def groups(memories: Sequence[Memory]) -> list[list[int]]:
    """The places of memories that say the same: groups in the order of their first members, members in theirs."""
    said: dict[Hashable, list[int]] = {}
    for place, memory in enumerate(memories):
        said.setdefault(statement(memory), []).append(place)
    return list(said.values())


def statement(memory: Memory) -> Hashable:
    """What a memory says and who says it: equal for those that say the same."""
    text, known = memory.content, memory.metadata
    day = memory.created_at.date()
    words = text if len(text) > READ else _words(text, day) or text
    teller = memory.origin, memory.scope.agent, str(known.get("speaker"))
    about = frozenset(memory.tags), known.get("record"), str(known.get("status"))
    return teller, about, _words(memory.title or "", day), words


@lru_cache(maxsize=COMPARED)
def _words(text: str, day: date) -> tuple[str, ...]:
    """The words and the ends of lines, as they are compared. A search asks twice: whether enough of its hits differ,
    and which."""
    lines = [line.split() for line in _composed(text).splitlines()]
    words = [word for line in lines if line for word in (*line, _LINE)][:-1]
    if len(words) > 1 and words[0].strip(_AROUND_A_DATE) == day.isoformat():
        del words[: 2 if words[1] == _LINE else 1]
    if words:
        words[-1] = words[-1].rstrip(_ENDS) or words[-1]
        words[0] = _begun(words[0])
    return tuple(words)


def _begun(word: str) -> str:
    """The first word of a text without the capital that is owed to its place: not a name of letters, nor a code."""
    letters = word.replace("'", "").replace("-", "").strip('",;:()')
    return word.lower() if letters.isalpha() and letters[1:].islower() else word


def _composed(text: str) -> str:
    """Letters with accents written in one way, and quotes too."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text).translate(_QUOTES)
