"""The words that memories use, as they are written: what a mistyped word may be repaired to.

The text index knows only stems, and listing them means reading all of it. Words stay here when their memory goes: who
is offered one is asked about in the index first, within the asking project.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from kingly_memory.adapters.local import sql
from kingly_memory.models import Memory

SHORTEST = 4
LONGEST = 40
MOST_KNOWN = 200_000
"""Words remembered as written already, to spare the disk; when there are more, they are asked about again."""

MOST_ASKED = 100
MOST_READ = 100_000
"""Words that a reader keeps between two searches."""

_WORD = re.compile(r"[^\W_]+")


class Vocabulary:
    """Collects the words of one commit and writes down those that are new."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._noted: set[str] = set()
        self._doubtful: set[str] = set()

    def note(self, memory: Memory) -> None:
        self._noted |= _words(memory) - self._known

    def unlearn(self, memory: Memory) -> None:
        """It was erased for good: words that no memory has any more go with it."""
        self._doubtful |= _words(memory)

    def write(self, connection: sqlite3.Connection) -> None:
        """Part of the commit, when the text index is written."""
        doubtful = [(len(word), word) for word in self._doubtful if not _is_said(connection, word)]
        connection.executemany(sql.UNLEARN, doubtful)
        self._known -= self._doubtful
        self._doubtful = set()
        new = [(len(word), word) for word in self._noted if SHORTEST <= len(word) <= LONGEST]
        if new:
            connection.executemany(sql.LEARN, new)

    def written(self) -> None:
        """The commit is durable."""
        if len(self._known) > MOST_KNOWN:
            self._known = set()
        self._known |= self._noted
        self._noted = set()

    def lost(self) -> None:
        """The commit is not."""
        self._noted, self._doubtful = set(), set()


def _words(memory: Memory) -> set[str]:
    return set(_WORD.findall(" ".join((memory.title or "", memory.content, *memory.tags)).casefold()))


def _is_said(connection: sqlite3.Connection, word: str) -> bool:
    """Whether a memory has that very word; one of whose stem very many memories have words counts as said."""
    if not SHORTEST <= len(word) <= LONGEST:
        return True
    found = connection.execute(sql.SAYING, (f'"{word}"', MOST_ASKED)).fetchall()
    return len(found) == MOST_ASKED or any(word in _WORD.findall(text.casefold()) for (text,) in found)


class KnownWords:
    """What was read of the words, for as long as the text index stays as it is. Safe from any thread."""

    def __init__(self) -> None:
        self._structure: object = None
        self._read: dict[object, list[str]] = {}

    def of(self, which: object, structure: object, read: Callable[[], list[str]]) -> list[str]:
        """`structure` is the index's own record of itself, from before the reading."""
        if structure != self._structure or sum(map(len, self._read.values())) > MOST_READ:
            self._structure, self._read = structure, {}
        known = self._read
        if which not in known:
            known[which] = read()
        return known[which]
