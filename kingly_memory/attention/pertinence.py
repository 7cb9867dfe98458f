"""How well a memory fits a prompt that did not ask for it. Stricter than a search: nobody is to be interrupted."""

from __future__ import annotations

from collections.abc import Set

from kingly_memory.text.writing import EVER_SHORT, SHARED, STOP_WORDS, stem, stems, words

LEAST = 0.25
"""Share of the shorter text's telling words that the other must have, for a memory to be worth a prompt's room."""
_ALONE = 0.5
"""The same where only one word is shared."""
_FEWEST = 2
_DRAWN = 0.5
"""Share of what only a note says that a reply must say, to have drawn on it."""
_READ = 4_096
"""Characters of either text that are compared."""

FILLERS = frozenset(
    stem(word)
    for word in """able add also anything ask attention change check code could create current didn do does doesn don
    done else ensure every everything example explain file find first fix function get getting give go
    going good got great hello help hey hi implement instead issue keep know last let like ll long look
    looking made make many may maybe mean might move much must need needs never new next nice ok okay
    one path place please problem project put question quick re read really right run same say see seem
    set show something sorry start still sure take tell thank thanks thing things think time today try
    two update use used using ve via want way well won work working write wrong yes yet""".split()
)
"""Words that requests are made of, whatever they are about."""


def pertinence(asked_words: Set[str], text: str) -> float:
    """The share of telling words that a prompt (its `prompt_words`) and a text have in common, by the shorter one, in
    [0, 1].

    Forms of a word count as one; what is written without spaces is compared by pairs of characters. 0 when what they
    share could be chance.
    """
    shared, shorter = common(asked_words, text)
    if not shared:
        return 0.0
    overlap = shared / shorter
    return overlap if shared >= _FEWEST or overlap >= _ALONE else 0.0


def prompt_words(prompt: str) -> set[str]:
    """The telling words of a prompt."""
    return telling(prompt[:_READ])


def common(asked_words: Set[str], text: str) -> tuple[int, int]:
    """How many telling words a prompt (its `prompt_words`) and a text have in common, and how many the shorter has."""
    text = text[:_READ]
    if not text.isascii():
        of_text = telling(text)
        return len(asked_words & of_text), min(len(asked_words), len(of_text))
    spoken = set(words(text)) - STOP_WORDS
    beginnings = {one[:SHARED] for one in asked_words}
    likely = [word for word in spoken if len(word) <= EVER_SHORT or word[:SHARED] in beginnings]
    of_text = set(map(stem, likely)) - FILLERS
    shared = len(asked_words & of_text)
    for word in spoken:  # only until the text has as many as the prompt: stemming is most of the work
        if len(of_text) >= len(asked_words):
            break
        of_text |= {stem(word)} - FILLERS
    return shared, min(len(of_text), len(asked_words))


def telling(text: str) -> set[str]:
    return stems(text) - FILLERS


def draws_on(note: str, question: str, reply: str) -> bool:
    """Whether a reply uses a note that was put beside the prompt: it says at least half of the telling words that stand
    in the note and not in the question, and two of them, or all where there are fewer. Of a note that says nothing
    beyond the question, its own words count.

    Stricter than need be: a use that goes unnoticed costs little, since the next one makes up for it.
    """
    noted = telling(note[:_READ])
    news = noted - telling(question[:_READ]) or noted
    heard = news & telling(reply[:_READ])
    return bool(news) and len(heard) >= min(max(_FEWEST, _DRAWN * len(news)), len(news))
