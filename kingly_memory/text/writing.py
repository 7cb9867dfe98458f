"""How texts are written: words, tokens, and the scripts without spaces, where a search for words finds nothing."""

from __future__ import annotations

import re
from collections.abc import Set

from kingly_memory.text.stemming import stem, without_marks

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


def words(text: str) -> list[str]:
    """The words of a text in lower case, as the index takes it apart."""
    return _WORD.findall(text.casefold())


def is_short(text: str) -> bool:
    """Whether a text is looked up as it stands."""
    return len(text) <= QUERY_CHARACTERS and len(text.split(maxsplit=QUERY_WORDS)) <= QUERY_WORDS


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token of the text begins and ends: an estimate that needs no model.

    A run without spaces is one token for every 16 characters begun, a character of an unbroken script is one.
    """
    return [found.span() for found in re.finditer(_token(text), text)]


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
    said = set(words(without_unbroken(text))) - STOP_WORDS
    if text.isascii():
        return set(map(stem, said))
    pairs = {run[at : at + 2] for run in unbroken_runs(text) for at in range(max(len(run) - 1, 1))}
    return {stem(without_marks(word)) for word in said} | pairs


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 memory`, `1,204 memories`."""
    plural = things or (f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s")
    return f"{number:,} {thing if number == 1 else plural}"


def shared(one: Set[str], other: Set[str]) -> float:
    """The share of their words that two texts have in common (Dice 1945), in [0, 1]."""
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0
