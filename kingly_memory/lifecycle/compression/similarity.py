"""How alike two texts are by their words, and whether one holds what another says (seed 000, priority 4). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from kingly_memory.writing import stems, words

SIMILAR = 0.7
"""Share of common words from which two texts are alike."""
_HELD = 0.5
"""Share of a text's stems that a text merged from it has, at least."""
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")


def similarity(one: str, other: str) -> float:
    """The share of their words that both have, 0 to 1 (Jaccard 1901)."""
    ours, theirs = set(words(one)), set(words(other))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0


def similar(text: str, several: Sequence[str], *, threshold: float = SIMILAR, most: int | None = None) -> list[str]:
    """Those of a list that are at least so much alike, the most similar first."""
    found = [(share, one) for one in several if (share := similarity(text, one)) >= threshold]
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])][:most]


def is_repeated(text: str, several: Sequence[str]) -> bool:
    """Whether one of a list is the same, white space and ways to write one character apart."""
    return _written_alike(text) in map(_written_alike, several)


def holds(text: str, other: str) -> bool:
    """Whether a text has the numbers of another one and half of what that is about."""
    about = stems(other)
    has_words = len(about & stems(text)) >= len(about) * _HELD
    return has_words and set(_FIGURE.findall(other)) <= set(_FIGURE.findall(text))


def _written_alike(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
