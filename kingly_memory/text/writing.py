"""How texts are written: names, words and their stems, tokens, and the scripts without spaces, where a search for words
finds nothing; and how counts and times are told to people."""

from __future__ import annotations

import re
from collections.abc import Set
from datetime import UTC, datetime
from functools import lru_cache

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can could did
    do does doing down during each few for from further had has have having he her here hers him his how i if in into
    is it its itself just me more most my myself no nor not now of off on once only or other our ours out over own s
    same she should so some such t than that the their theirs them then there these they this those through to too
    under until up us very was we were what when where which while who whom whose why will with would you your yours
    """.split()
)

QUERY_CHARACTERS = 320
QUERY_WORDS = 32
"""A text that has no more of either is looked up as it stands, and no more is looked up for a longer one."""
LONGEST_TOKEN = 16
"""Characters; what runs on longer counts as several tokens."""
CHARACTERS_PER_TOKEN = 4

_WORD = re.compile(r"[^\W_]+")
_ASCII = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))  # noqa: PLR2004
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FORTNIGHT = 14 * _DAY
_JUST_NOW = 45

UNBROKEN = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, kana, Han, and Hangul, whose endings grow on the word: the inside of a character class.

Nobody on the way to a first answer compiles it before a text needs it: compiling a class of such wide ranges costs a
cold start more than the whole search, and most texts have none of these characters.
"""


def spelled(name: str) -> str:
    """The name (of a key, tag, project, user, agent, context) or question in the one spelling in which names are stored
    and looked up. Files on macOS are called by letters and accents apart, where a keyboard types both as one (NFC); and
    what is no UTF-8 in the name of a folder is U+FFFD."""
    if not isinstance(name, str) or name.isascii():  # type: ignore[redundant-expr]  # no text is refused elsewhere
        return name
    from unicodedata import normalize

    return normalize("NFC", re.sub("[\ud800-\udfff]", "\ufffd", name))


def unbroken_runs(text: str) -> list[str]:
    """The runs of such scripts in a text, in its order."""
    return [] if text.isascii() else re.findall(f"[{UNBROKEN}]+", text)


def without_unbroken(text: str) -> str:
    """The text with a space in the place of each such run."""
    return text if text.isascii() else re.sub(f"[{UNBROKEN}]+", " ", text)


def has_unbroken(text: str) -> bool:
    return not text.isascii() and re.search(f"[{UNBROKEN}]", text) is not None


def words(text: str) -> list[str]:
    """The words of a text in lower case, as the index takes it apart."""
    if text.isascii():  # as most are: a quarter of the time
        return text.encode().translate(_ASCII).decode().split()
    return _WORD.findall(text.casefold())


def is_short(text: str) -> bool:
    """Whether a text is looked up as it stands."""
    return len(text) <= QUERY_CHARACTERS and len(text.split(maxsplit=QUERY_WORDS)) <= QUERY_WORDS


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token of the text begins and ends: an estimate that needs no model.

    A run without spaces is one token for every 16 characters begun, a character of an unbroken script is one.
    """
    return [match.span() for match in re.finditer(_token(text), text)]


def token_count(text: str) -> int:
    """How many there are, which takes less time than to say where."""
    return len(re.findall(_token(text), text))


def _token(text: str) -> str:
    """The pattern of a token; the one for any text takes longer."""
    if text.isascii():
        return rf"\S{{1,{LONGEST_TOKEN}}}"
    return rf"[{UNBROKEN}]|[^\s{UNBROKEN}]{{1,{LONGEST_TOKEN}}}"


def estimated_tokens(text: str) -> int:
    """One for every four characters, and at least one for every word and for every character written without spaces."""
    by_length = -(-len(text) // CHARACTERS_PER_TOKEN)
    if text.isascii() and len(text.split()) + len(text) // LONGEST_TOKEN <= by_length:
        return by_length  # there cannot be more spans than that, and nobody has to look for them
    return max(by_length, token_count(text))


def stems(text: str) -> set[str]:
    """What a text is about, to be compared with another one: the stems of its words without stop words, and pairs of
    neighbouring characters where a script has no spaces."""
    all_words = set(words(without_unbroken(text))) - STOP_WORDS
    if text.isascii():
        return set(map(stem, all_words))
    pairs = {run[at : at + 2] for run in unbroken_runs(text) for at in range(max(len(run) - 1, 1))}
    return {stem(without_marks(word)) for word in all_words} | pairs


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 memory`, `1,204 memories`."""
    plural = things or (f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s")
    return f"{number:,} {thing if number == 1 else plural}"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, in the largest unit that fits; the date when that was more than a fortnight ago."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) >= _FORTNIGHT:
        return moment.date().isoformat()
    if abs(seconds) < _JUST_NOW:
        return "just now"
    whole = round(abs(seconds))
    span = f"{whole} s" if whole < _MINUTE else duration(whole)
    return f"{span} ago" if seconds > 0 else f"in {span}"


def when(moment: datetime) -> str:
    """A time to the minute, and how far it is from now."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC ({ago(moment)})"


def duration(seconds: float) -> str:
    """A length of time in one unit: `3 ms`, `1.2 s`, `4 min`, `2 h`, `3 d`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 or seconds == 0 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    size, name = next(one for one in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")) if seconds >= one[0])
    return f"{seconds / size:.0f} {name}"


def shared(left: Set[str], right: Set[str]) -> float:
    """The share of their words that two texts have in common (Dice 1945), in [0, 1]."""
    return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0


# --- stems ------------------------------------------------------------------------------------------------------------

SHORTEST_STEMMED, LONGEST_STEMMED = 3, 64
"""Characters; a word of fewer or more stays as it is."""
SHARED, EVER_SHORT = 2, 5
"""Characters that a word of more than the second number begins with as its stem does: such words have no stem in common
when they differ in them. (Of those with fewer, some forty do otherwise: eyed, ays.)"""


def _by_last_letters(pairs: str) -> dict[str, list[tuple[str, str]]]:
    """Endings, each with what stands in its place: by their last two letters, the longest first."""
    found: dict[str, list[tuple[str, str]]] = {}
    parted = (pair.partition(":") for pair in pairs.split())
    for ending, _, other in sorted(parted, key=lambda parts: len(parts[0]), reverse=True):
        found.setdefault(ending[-2:], []).append((ending, other))
    return found


_SECOND = _by_last_letters(
    """ational:ate tional:tion enci:ence anci:ance izer:ize logi:log bli:ble alli:al entli:ent eli:e
    ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive
    biliti:ble"""
)
_THIRD = _by_last_letters("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_FOURTH = _by_last_letters("al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize")
_SHAPES = "".join("y" if chr(code) == "y" else "v" if chr(code) in "aeiou" else "c" for code in range(128))
"""Of each letter of ASCII; that of a y depends on the one before it."""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a word in lower case as the text index takes it: two words with one stem are one word there (Porter
    1980)."""
    if not SHORTEST_STEMMED <= len(word) <= LONGEST_STEMMED:
        return word
    word = _without_plural(word)
    word = _without_past(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    for endings in (_SECOND, _THIRD):
        word = _exchanged(word, endings, least=1)
    word = _exchanged(word, _FOURTH, least=2)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


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


def _exchanged(word: str, endings: dict[str, list[tuple[str, str]]], *, least: int) -> str:
    """With the longest of the endings exchanged, when enough of the word stands before it."""
    for ending, other in endings.get(word[-2:], ()):
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            enough = _measure(rest) >= least and (ending != "ion" or rest.endswith(("s", "t")))
            return rest + other if enough else word
    return word


def _measure(text: str) -> int:
    """How many times a vowel is followed by a consonant: about the number of syllables."""
    return _shape(text).count("vc")


def _is_short(text: str) -> bool:
    return _shape(text).endswith("cvc") and text[-1] not in "wxy"


def _shape(text: str) -> str:
    """`v` for each vowel, `c` for each consonant; a y after a consonant is a vowel."""
    shape = text.translate(_SHAPES)
    if not shape.strip("vc"):
        return shape
    shape = ""
    for letter in text:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape
