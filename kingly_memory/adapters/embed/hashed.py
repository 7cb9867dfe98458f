"""The built-in embedder: hashed character n-grams and words. Needs no model, no network and no native code.

Feature hashing with signs after Weinberger et al. 2009; character n-grams within word boundaries after Bojanowski et
al. 2017. It knows nothing of synonyms, but word forms, compounds and typos land near each other.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import sub
from zlib import crc32

from kingly_memory.ports import Embedder
from kingly_memory.text.writing import UNBROKEN

TEXT_LIMIT = 32_768
"""Characters of a text that are read; the direction of a longer one hardly changes after that."""

DIMENSIONS = 512
"""What few features collide in; twice as many places fit two bytes."""
_WORD_LIMIT = 32
"""Characters of a word that are read: what is longer is a digest or a URL."""
_CACHED_WORDS = 16_384
_MIXER = 0x9E37_79B1
"""2³² divided by the golden ratio (Knuth): what it is multiplied with lies evenly. A digest would cost seven times as
much as a checksum."""
_SHORTEST, _LONGEST = 3, 5
"""Characters of an n-gram; the word's two bounds count."""
_FUNCTION_WORD_WEIGHT = 0.1
_FUNCTION_WORDS = frozenset(
    """a am an and are as at be been but by can could did do does for from had has have he her his how i if in is it its
    me my of on or our she should so than that the their them then there these they this those to us was we were what
    when where which who whom whose why will with would you your""".split()
)
"""Words that hold a sentence together and say little of what it is about. A text of nothing else is still embedded."""
_WORDS = re.compile(rf"[{UNBROKEN}]+|[^\W_{UNBROKEN}]+")
_UNBROKEN = re.compile(f"[{UNBROKEN}]")
_SYMBOLS = re.compile(r"\S")


class HashedEmbedder(Embedder):
    """Texts as unit vectors, the same in every process and on every machine (UNI-006, UNI-007)."""

    name = f"hashed2-{DIMENSIONS}"
    """Changes whenever the same text would get another vector."""
    dimensions = DIMENSIONS

    def __repr__(self) -> str:
        return f"<HashedEmbedder {self.name}>"

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """One unit-length vector per text, in order. A text without words is embedded by its symbols."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        sums = [0.0] * (2 * DIMENSIONS)
        for word, count in Counter(_words(text)).items():
            weight = (1.0 + math.log(count)) * (_FUNCTION_WORD_WEIGHT if word in _FUNCTION_WORDS else 1.0)
            for feature in _features(word):
                sums[feature] += weight
        return _unit(list(map(sub, sums[:DIMENSIONS], sums[DIMENSIONS:])))


def _words(text: str) -> list[str]:
    """Words without regard to case or to how their characters are encoded; of a text without any, its symbols."""
    plain = unicodedata.normalize("NFKC", text[:TEXT_LIMIT])[:TEXT_LIMIT].casefold()
    words = [piece for word in _WORDS.findall(plain) for piece in _pieces(word)]
    return words or _SYMBOLS.findall(plain) or [""]


def _pieces(word: str) -> list[str]:
    """The word itself, or in an unbroken script all it could be made of: every one, two and three characters."""
    if not _UNBROKEN.match(word):
        return [word[:_WORD_LIMIT]]
    return [word[start : start + length] for length in (1, 2, 3) for start in range(len(word) - length + 1)]


@lru_cache(maxsize=_CACHED_WORDS)
def _features(word: str) -> array[int]:
    """Where a word and its n-grams go: what lies in the second half of the places counts against the first."""
    whole, bounded = (text.encode("utf-32-le", "surrogatepass") for text in (f"word {word}", f"<{word}>"))
    sizes = () if _UNBROKEN.match(word) else (4 * length for length in range(_SHORTEST, _LONGEST + 1))
    grams = [bounded[start : start + size] for size in sizes for start in range(0, len(bounded) - size + 1, 4)]
    return array("H", [(crc32(gram) * _MIXER >> 8 & 0xFF_FFFF) % (2 * DIMENSIONS) for gram in (whole, *grams)])


def _unit(vector: list[float]) -> list[float]:
    length = math.hypot(*vector)
    if length == 0.0:
        # Opposite features met in one dimension and nothing else was there.
        return [1.0, *vector[1:]]
    return [value / length for value in vector]
