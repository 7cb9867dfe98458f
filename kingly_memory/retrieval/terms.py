"""From a question to the words that are looked up."""

from __future__ import annotations

from typing import NamedTuple

from kingly_memory.writing import STOP_WORDS, unbroken_runs, without_unbroken, words

MOST_TERMS = 32
LONGEST_PIECE = 64


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


def _first(items: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))[:MOST_TERMS]
