"""Who or what a question names: a memory with that name is more likely meant."""

from __future__ import annotations

from collections.abc import Iterator, Set

from kingly_memory.models import Memory
from kingly_memory.writing import STOP_WORDS, words

NAMED = 1.5
FURTHER = 1.2
"""On top, when a second name is there as well: a speaker and a date."""
MOST = NAMED * FURTHER
READ, TAGS_READ = 1_024, 64
"""Characters of a title and number of tags that are looked at."""


def lift(asked: Set[str], memory: Memory) -> float:
    """What the memory's score is multiplied with, 1 when none of its names is among the asked words."""
    if not _may_name(asked, memory):
        return 1.0
    named = _named(asked, memory)
    if not named:
        return 1.0
    return NAMED if len(named) == 1 else MOST


def _may_name(asked: Set[str], memory: Memory) -> bool:
    """Whether an asked word stands anywhere in a name, be it in the middle of another word: nearly all names are out
    of the question by that, which is told much sooner."""
    names = "\n".join([(memory.title or "")[:READ], *(name[:READ] for name in _names(memory))]).casefold()
    return any(word in names for word in asked)


def _named(asked: Set[str], memory: Memory) -> set[str]:
    """Any telling word of the title; of agent, speaker and tags only those whose every word is asked for."""
    found = {word for word in words((memory.title or "")[:READ]) if word in asked and word not in STOP_WORDS}
    for name in _names(memory):
        telling = {word for word in words(name[:READ]) if word not in STOP_WORDS}
        if telling and telling <= asked:
            found |= telling
    return found


def _names(memory: Memory) -> Iterator[str]:
    yield from memory.tags[:TAGS_READ]
    for name in (memory.scope.agent, memory.metadata.get("speaker")):
        if isinstance(name, str):
            yield name
