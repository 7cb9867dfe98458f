"""The stem of a word as the text index takes it: two words with one stem are one word there (Porter, 1980)."""

from __future__ import annotations

from functools import lru_cache

SHORTEST, LONGEST = 3, 64
"""Characters; a word of fewer or more stays as it is."""
SHARED, EVER_SHORT = 2, 5
"""Characters that a word of more than the second number begins with as its stem does: such words have no stem in common
when they differ in them. (Of those with fewer, some forty do otherwise: eyed, ays.)"""

_SECOND = dict(
    pair.split(":")
    for pair in """ational:ate tional:tion enci:ence anci:ance izer:ize logi:log bli:ble alli:al entli:ent eli:e
    ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive
    biliti:ble""".split()
)
_THIRD = dict(pair.split(":") for pair in "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:".split())
_FOURTH = dict.fromkeys(
    "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(),
    "",
)
_LASTS = 7
"""Characters of the longest ending."""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if not SHORTEST <= len(word) <= LONGEST:
        return word
    word = _without_plural(word)
    word = _without_past(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    for endings in (_SECOND, _THIRD):
        word = _exchanged(word, endings, least=1)
    return _without_final(_exchanged(word, _FOURTH, least=2))


def without_marks(text: str) -> str:
    """The text with plain letters for those with accents and the like, as the index takes them."""
    if text.isascii():
        return text
    from unicodedata import combining, normalize

    return "".join(letter for letter in normalize("NFD", text) if not combining(letter))


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")) and len(word) > len("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word:
            return _completed(rest) if "v" in _shape(rest) else word
    return word


def _completed(rest: str) -> str:
    """What is left of a past or progressive form, as the plain form is written: hoping, hop, hope."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    shape = _shape(rest)
    if rest[-1:] == rest[-2:-1] and shape.endswith("c") and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if shape.count("vc") == 1 and _is_short(rest) else rest


def _exchanged(word: str, endings: dict[str, str], *, least: int) -> str:
    """With the longest of the endings exchanged, when enough of the word stands before it."""
    for length in range(min(_LASTS, len(word)), 1, -1):
        ending = word[-length:]
        if ending in endings:
            rest = word[:-length]
            enough = _measure(rest) >= least and (ending != "ion" or rest.endswith(("s", "t")))
            return rest + endings[ending] if enough else word
    return word


def _without_final(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _measure(text: str) -> int:
    """How many times a vowel is followed by a consonant: about the number of syllables."""
    return _shape(text).count("vc")


def _is_short(text: str) -> bool:
    return _shape(text).endswith("cvc") and text[-1] not in "wxy"


def _shape(text: str) -> str:
    """`v` for each vowel, `c` for each consonant; a y after a consonant is a vowel."""
    shape = ""
    for letter in text:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape
