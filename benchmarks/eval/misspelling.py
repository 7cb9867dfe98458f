"""Typing errors on purpose, the same ones in every process: how an evaluation asks like somebody in a hurry."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from string import ascii_lowercase

_LONG_WORD = re.compile(r"[^\W\d_]{6,}")
_MOST_ERRORS = 2


def misspelt(text: str, seed: int = 0) -> str:
    """The text with one or two typing errors in each word of six letters or more; every other character stays.

    An error is a letter left out, doubled, mistyped or swapped with the next one. The same text and seed give the same
    errors.
    """
    chance = Random(f"{seed} {text}")  # repeatable is the point
    return _LONG_WORD.sub(lambda found: _mistyped(found.group(), chance), text)


def _mistyped(word: str, chance: Random) -> str:
    errors = chance.randint(1, _MOST_ERRORS)
    changed = word
    while changed == word:  # two errors may undo each other
        for _ in range(errors):
            changed = chance.choice(_ERRORS)(changed, chance)
    return changed


def _left_out(word: str, chance: Random) -> str:
    at = chance.randrange(len(word))
    return word[:at] + word[at + 1 :]


def _doubled(word: str, chance: Random) -> str:
    at = chance.randrange(len(word))
    return word[: at + 1] + word[at:]


def _replaced(word: str, chance: Random) -> str:
    at = chance.randrange(len(word))
    return word[:at] + chance.choice(ascii_lowercase) + word[at + 1 :]


def _swapped(word: str, chance: Random) -> str:
    at = chance.randrange(len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


_ERRORS: tuple[Callable[[str, Random], str], ...] = (_left_out, _doubled, _replaced, _swapped)
