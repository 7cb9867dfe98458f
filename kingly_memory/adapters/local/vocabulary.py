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

MOST_READ = 100_000
"""Words that a reader keeps between two searches."""

_WORD = re.compile(r"[^\W_]+")


class Vocabulary:
    """Collects the words of one commit and writes down those that are new."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._noted: set[str] = set()

    def note(self, memory: Memory) -> None:
        said = " ".join((memory.title or "", memory.content, *memory.tags)).casefold()
        self._noted |= set(_WORD.findall(said)) - self._known

    def write(self, connection: sqlite3.Connection) -> None:
        """Part of the commit."""
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
        self._noted = set()


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
