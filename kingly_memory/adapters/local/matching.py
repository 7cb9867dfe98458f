"""One page of matches: the index's shortlist, read, and sorted out by scope where the index did not do that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from kingly_memory.adapters.local import rows
from kingly_memory.adapters.local.shortlist import Shortlist
from kingly_memory.models import Query
from kingly_memory.ports import Match, Matches, Row

T = TypeVar("T")

WEIGH_SHARE = 0.6
"""Of the time: when no more matches are weighed, and those that are found at once have to do."""


@dataclass(slots=True)
class Page:
    """Fills up with matches. What it has when the deadline interrupts it, it keeps.

    `read` gives the rows at positions and `until` interrupts the index; both note when they ended early.
    """

    shortlist: Shortlist
    read: Callable[[Sequence[int], float, list[bool]], Iterator[Row]]
    until: Callable[[float], AbstractContextManager[list[bool]]]
    query: Query
    limit: int
    offset: int
    deadline_s: float
    _found: dict[int, Match] = field(default_factory=dict)
    _cut: list[bool] = field(default_factory=list)
    _has_passed_over: bool = False

    def matches(self) -> Matches:
        best = sorted(self._found.values(), key=lambda match: -match.bm25)
        return Matches(tuple(best[: self.limit]), bool(self._cut), self._has_passed_over)

    def fill(self, terms: Sequence[str], rows_with: Mapping[str, int] | None = None) -> None:
        """`rows_with`: see ports.TextIndex.matches."""
        none: list[str] = []
        weighed = self._within_time(lambda: self.shortlist.weighable(terms, rows_with or {}), none)
        if weighed:
            self._fill_by_weight(weighed, rows_with)
        is_rest = len(weighed) < len(terms) or bool(self._cut)
        if is_rest and len(self._found) < self.limit and time.monotonic() < self.deadline_s:
            self._fill_up(terms)

    def _fill_by_weight(self, terms: Sequence[str], rows_with: Mapping[str, int] | None) -> None:
        """The first page is looked for without the scope in the expression and sorted out afterwards: BM25 weighs every
        phrase, and a scope that most rows share costs more than the words. When what was looked at holds too few of
        the own scope, or the own is small, the scope is part of the question."""
        query, room = self.query, self.limit * 2
        if self.offset == 0 and not self._within_time(lambda: self.shortlist.is_small(query.project), True):
            scored = self._scored(lambda: self._anywhere(terms, rows_with, room))
            self._take(scored)
            if len(self._found) >= self.limit or len(scored) < room or self._cut:
                return
            self._has_passed_over = False
        self._take(self._scored(lambda: self.shortlist.within(query, terms, self.limit, self.offset)))

    def _anywhere(self, terms: Sequence[str], rows_with: Mapping[str, int] | None, room: int) -> dict[int, float]:
        found = None if rows_with is None else self.shortlist.by_rarity(terms, rows_with, room)
        self._has_passed_over = found is not None
        return self.shortlist.anywhere(terms, room) if found is None else found

    def _fill_up(self, terms: Sequence[str]) -> None:
        """With words that too many rows hold. The latest are found at once; those that hold all of the words may take
        longer than there is time for."""
        query, limit = self.query, self.limit
        self._take(self._scored(lambda: self.shortlist.latest(query, terms, limit, self.offset), share=1.0))
        if self.offset == 0 and len(terms) > 1:
            self._take(self._scored(lambda: self.shortlist.latest_of_all(query, terms, limit), share=1.0), more=limit)

    def _take(self, scored: Mapping[int, float], more: int = 0) -> None:
        """Read them until the page is full; with `more` that many beyond, for a better one may be among them."""
        readable = rows.readable(self.query)
        new = [position for position in scored if position not in self._found]
        for row in self.read(new, self.deadline_s, self._cut):
            if row.standing in readable and self.query.admits(row.memory):
                self._found[row.position] = Match(row, scored[row.position])
            if len(self._found) >= self.limit + more:
                return

    def _scored(self, look: Callable[[], dict[int, float]], share: float = WEIGH_SHARE) -> dict[int, float]:
        return self._within_time(look, {}, share)

    def _within_time(self, look: Callable[[], T], otherwise: T, share: float = WEIGH_SHARE) -> T:
        now_s = time.monotonic()
        with self.until(min(now_s, self.deadline_s) + max(self.deadline_s - now_s, 0.0) * share):
            return look()
        self._cut.append(True)
        return otherwise
