"""From a question to the words that are looked up."""

from __future__ import annotations

import re
from typing import NamedTuple

from kingly_memory.writing import unbroken_runs, without_unbroken

MOST_TERMS = 32
LONGEST_PIECE = 64

_WORD = re.compile(r"[^\W_]+")

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can could did
    do does doing down during each few for from further had has have having he her here hers him his how i if in into
    is it its itself just me more most my myself no nor not now of off on once only or other our ours out over own s
    same she should so some such t than that the their theirs them then there these they this those through to too
    under until up us very was we were what when where which while who whom whose why will with would you your yours
    """.split()
)


class Terms(NamedTuple):
    """`words` are looked up in the word index, `pieces` (unbroken scripts, emoji) in the piece index."""

    words: tuple[str, ...]
    pieces: tuple[str, ...]


def terms(text: str) -> Terms:
    """Words in the order of the question, without repeats and stop words; at most 32 of each kind.

    A question made of stop words alone keeps them. One without any word ("🎉") is looked up literally.
    """
    folded = text.casefold()
    pieces = unbroken_runs(folded)
    said = words(without_unbroken(folded))
    telling = [word for word in said if word not in STOP_WORDS]
    chosen = telling or ([] if pieces else said)
    if not chosen and not pieces:
        pieces = text.split()
    return Terms(_first(chosen), _first([piece[:LONGEST_PIECE] for piece in pieces]))


def words(text: str) -> list[str]:
    """The words of a text in lower case, as the index takes it apart."""
    return _WORD.findall(text.casefold())


def _first(items: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))[:MOST_TERMS]
