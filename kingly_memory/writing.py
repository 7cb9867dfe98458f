"""Scripts that are written without spaces between words, where a search for words finds nothing."""

from __future__ import annotations

import re

UNBROKEN = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, kana, Han, and Hangul, whose endings grow on the word: the inside of a character class.

Nobody on the way to a first answer compiles it before a text needs it: compiling a class of such wide ranges costs a
cold start more than the whole search, and most texts have none of these characters.
"""


def unbroken_runs(text: str) -> list[str]:
    """The runs of such scripts in a text, in its order."""
    return [] if text.isascii() else re.findall(f"[{UNBROKEN}]+", text)


def without_unbroken(text: str) -> str:
    """The text with a space in the place of each such run."""
    return text if text.isascii() else re.sub(f"[{UNBROKEN}]+", " ", text)


def has_unbroken(text: str) -> bool:
    return not text.isascii() and re.search(f"[{UNBROKEN}]", text) is not None
