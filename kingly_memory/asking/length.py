"""Which texts are so long that their question may be drowned. Loads nothing: a hook asks this of every prompt."""

from __future__ import annotations

MOST_CHARACTERS = 320
MOST_WORDS = 32
"""A text that has no more is short, and asks for what it says: that many words are looked up."""


def is_long(text: str) -> bool:
    """Looks at the beginning only."""
    return len(text) > MOST_CHARACTERS or len(text.split(maxsplit=MOST_WORDS)) > MOST_WORDS
