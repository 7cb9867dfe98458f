"""What a language model is asked of a conversation: which of the user's sentences that no rule knows are worth keeping.
Pure.

It is shown sentences as they would be kept, without secrets and without what was pasted, and names numbers. Nothing
that it writes is kept, so a reply can add no word to what was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kingly_memory.attention.statements import LONGEST, WORTH, Sort
from kingly_memory.text.prompts import MATERIAL, answer_of, quoted

MOST = 80
"""Sentences of one question; of a longer conversation those that were said last."""
SORTS = tuple(sort for speaker, sort in WORTH if speaker == "user")

_WHICH = """\
Which of these sentences of a user should be remembered in later conversations?
Those that will still hold in a month and can be understood alone: who somebody is, what belongs to whom, likes and
habits, decisions, deadlines, rules, how things are set up. Not small talk, moods, what is being done just now, and what
only fits into this conversation.
{material}

{sentences}

Answer with a line for each that should: its number and one of these words, like 3 fact:
{sorts}
If none should, answer with this one word and nothing else: none"""


def question(sentences: Sequence[str]) -> str:
    listed = (f"{number}. {quoted(text, LONGEST)}" for number, text in enumerate(sentences, 1))
    return _WHICH.format(material=MATERIAL, sentences="\n".join(listed), sorts=", ".join(SORTS))


_LINE = re.compile(r"[\s*(\[•–-]*(\d{1,3})[\s.:,)\]*=–-]+[\"'*(]*([a-z]+)[\"'*).,;]*\s*", re.IGNORECASE)


def chosen(reply: str, count: int) -> list[str]:
    """The lines of a reply that give a sort to one of so many sentences; of each sentence the first."""
    lines: dict[int, str] = {}
    for line in answer_of(reply).splitlines():
        if match := _LINE.fullmatch(line):
            number, sort = int(match[1]), match[2].casefold()
            if 1 <= number <= count and number not in lines and sort in SORTS:
                lines[number] = f"{number} {sort}"
    return list(lines.values())


def sorts(lines: Sequence[str], sentences: Sequence[str]) -> dict[str, Sort]:
    """What sort each sentence is, of those that such lines name."""
    pairs = (line.split() for line in lines)
    return {sentences[int(number) - 1]: Sort(sort) for number, sort in pairs}
