"""Whether a reply draws on a note that was put beside the prompt: by what the note says beyond what was asked."""

from __future__ import annotations

from kingly_memory.attention.pertinence import telling

READ = 4_096
"""Characters of each text that are compared."""
_SHARE = 0.5
"""Of the telling words that only the note has."""
_FEWEST = 2


def draws_on(note: str, asked: str, reply: str) -> bool:
    """True when the reply says at least half of what stands in the note and not in the question, and two words of it,
    or all where there are fewer. Of a note that says nothing beyond the question, the same of its own words.

    Stricter than need be: a use that goes unnoticed costs little, since the next one makes up for it.
    """
    said = telling(note[:READ])
    news = said - telling(asked[:READ]) or said
    heard = news & telling(reply[:READ])
    return bool(news) and len(heard) >= min(max(_FEWEST, _SHARE * len(news)), len(news))
