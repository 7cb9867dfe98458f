"""Which rows of the text index answer a question best, and how many of them there is time to weigh.

BM25 takes about a microsecond a row, fifteen times as much as finding it. Before the first it counts the rows of every
phrase of the expression, scope tokens included, and cannot be interrupted meanwhile: what has too many is left out of
the expression.

Most rows that a question finds hold one frequent word of it and nothing else. Hardly any of them comes onto a list that
begins with those that hold a rarer word, or two. So these are all weighed, and of the others only the latest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.models import Query
from kingly_memory.ports import Match, Matches, Row

T = TypeVar("T")

WEIGH_SHARE = 0.6
"""Of the time: when no more matches are weighed, and those that are found at once have to do."""
WEIGHED = 20_000
"""Rows that a search weighs at most. In a larger store, words in more rows only fill up what rarer ones leave free."""
FEW, SMALL_SHARE = 5_000, 0.25
"""Memories of a project, and their share of the store, up to which its own rows are asked for at once."""
FREQUENT, MOST_FREQUENT = 500, 4
"""A word in more rows of the store is frequent. When there are more such words than that, to look for what holds two of
them takes longer than to weigh all."""
LATEST = 100
"""The last rows that hold a frequent word are weighed whatever else they hold, so many of each word or as many as are
asked for."""
LEAST = 0.001
"""The score of what is not weighed."""

Ask = Callable[[str, Iterable[Any]], list[Any]]
Read = Callable[[Sequence[int], float, list[bool]], Iterator[Row]]
Until = Callable[[float], AbstractContextManager[list[bool]]]


class _Page:
    """Fills up with matches. What it has when the deadline interrupts it, it keeps."""

    def __init__(self, read: Read, until: Until, query: Query, limit: int, deadline_s: float) -> None:
        self._read = read
        self._until = until
        self._query = query
        self._limit = limit
        self._deadline_s = deadline_s
        self._found: dict[int, Match] = {}
        self.cut: list[bool] = []

    @property
    def is_full(self) -> bool:
        return len(self._found) >= self._limit

    def in_time(self, look: Callable[[], T], otherwise: T, share: float = WEIGH_SHARE) -> T:
        now_s = time.monotonic()
        with self._until(min(now_s, self._deadline_s) + max(self._deadline_s - now_s, 0.0) * share):
            return look()
        self.cut.append(True)
        return otherwise

    def take(self, scored: Mapping[int, float], more: int = 0) -> None:
        """Read them until the page is full; with `more` that many beyond, for a better one may be among them."""
        readable = rows.readable(self._query)
        new = [position for position in scored if position not in self._found]
        for row in self._read(new, self._deadline_s, self.cut):
            if row.standing in readable and self._query.admits(row.memory):
                self._found[row.position] = Match(row, scored[row.position])
            if len(self._found) >= self._limit + more:
                return

    def matches(self, *, has_passed_over: bool) -> Matches:
        best = sorted(self._found.values(), key=lambda match: -match.bm25)
        return Matches(tuple(best[: self._limit]), bool(self.cut), has_passed_over)


class Matching:
    """Asks the text index. Scores are by position, the best first, the later stored first among equals."""

    def __init__(self, ask: Ask, read: Read, until: Until) -> None:
        """`ask` runs a statement with values, `read` gives the rows at positions, and `until` interrupts the index;
        both of these note when they ended early."""
        self._ask = ask
        self._read = read
        self._until = until

    def matches(
        self,
        query: Query,
        terms: Sequence[str],
        limit: int,
        *,
        offset: int,
        deadline_s: float,
        rows_with: Mapping[str, int] | None,
    ) -> Matches:
        """One page of matches."""
        page = _Page(self._read, self._until, query, limit, deadline_s)
        nothing: list[str] = []
        weighed = page.in_time(lambda: self._weighable(terms, rows_with or {}), nothing)
        is_done, has_passed_over = not weighed, False
        if weighed and offset == 0 and not page.in_time(lambda: self._is_small(query.project), True):
            # The first page is looked for without the scope in the expression and sorted out afterwards: BM25 weighs
            # every phrase, and a scope that most rows share costs more than the words.
            room = limit * 2
            nowhere: tuple[dict[int, float], bool] = ({}, False)
            scored, has_passed_over = page.in_time(lambda: self._anywhere(weighed, rows_with, room), nowhere)
            page.take(scored)
            is_done = page.is_full or len(scored) < room or bool(page.cut)
        if not is_done:
            has_passed_over = False
            admitted = rows.match_expression(query, rows.any_term(weighed))
            page.take(page.in_time(lambda: self._scored(admitted, limit, offset), {}))
        is_rest = len(weighed) < len(terms) or bool(page.cut)
        if is_rest and not page.is_full and time.monotonic() < deadline_s:
            # With words that too many rows hold. The latest are found at once; those that hold all of the words may
            # take longer than there is time for.
            for expression, score in ((rows.any_term(terms), LEAST), (rows.all_terms(terms), 2 * LEAST)):
                if score == LEAST or (offset == 0 and len(terms) > 1):
                    admitted = rows.match_expression(query, expression)
                    found: list[int] = page.in_time(partial(self.latest, admitted, limit, offset), [], 1.0)
                    page.take(dict.fromkeys(found, score), more=0 if score == LEAST else limit)
        return page.matches(has_passed_over=has_passed_over)

    def latest(self, expression: str, limit: int, offset: int = 0) -> list[int]:
        """The positions of those that were stored last, unweighed."""
        return [position for (position,) in self._ask(sql.LATEST, (expression, limit, offset))]

    def _weighable(self, terms: Sequence[str], rows_with: Mapping[str, int]) -> list[str]:
        """The terms that can be weighed, the rarest first when those are not all. `rows_with` says in how many rows
        each stands, where that is known."""
        if sum(rows_with.get(term, WEIGHED + 1) for term in terms) <= WEIGHED:
            return list(terms)
        if self._stored() <= WEIGHED or self._count(rows.any_term(terms)) <= WEIGHED:
            return list(terms)
        chosen, left = [], WEIGHED
        for count, term in sorted((self._count(rows.any_term([term])), term) for term in terms):
            left -= count
            if left < 0:
                break
            chosen.append(term)
        return chosen

    def _anywhere(
        self, terms: Sequence[str], rows_with: Mapping[str, int] | None, limit: int
    ) -> tuple[dict[int, float], bool]:
        """The best rows whatever their scope is. Of those which hold one frequent term and no other only the latest are
        weighed, where that is quicker; True if so."""
        if rows_with is None:
            return self._scored(rows.any_term(terms), limit), False
        counted = sorted((rows_with.get(term, WEIGHED + 1), term) for term in terms)
        frequent = [term for count, term in counted if count > FREQUENT]
        if not 0 < len(frequent) <= MOST_FREQUENT:
            return self._scored(rows.any_term(terms), limit), False
        rare = [term for count, term in counted if count <= FREQUENT]
        # Each row that holds a frequent term and another one is found by one expression that has all of its terms, none
        # of them twice: so its score is that of the whole question.
        expressions = [rows.any_term(rare), f"{rows.any_term(rare)} AND {rows.any_term(frequent)}"] if rare else []
        for at, term in enumerate(frequent[:-1], 1):
            expressions.append(f"{rows.any_term([term])} AND {rows.any_term(frequent[at:])}")
        found: dict[int, float] = {}
        for expression in expressions:
            for position, score in self._scored(expression, limit).items():
                found[position] = max(score, found.get(position, 0.0))
        for term in frequent:
            latest = self._ask(sql.LATEST_MATCHES, (rows.any_term([term]), max(LATEST, limit), limit))
            for position, score in latest:
                found[position] = max(-score, found.get(position, 0.0))
        best = sorted(found.items(), key=lambda one: (-one[1], -one[0]))
        return dict(best[:limit]), True

    def _scored(self, expression: str, limit: int, offset: int = 0) -> dict[int, float]:
        found = self._ask(sql.MATCHES, (expression, limit, offset))
        return {position: -score for position, score in sorted(found, key=lambda one: (one[1], -one[0]))}

    def _is_small(self, project: str) -> bool:
        own = sum(count for _, count in self._ask(sql.COUNTS, (rows.project_token(project),)))
        return bool(own <= min(FEW, int(self._stored() * SMALL_SHARE)))

    def _stored(self) -> int:
        """Memories in the store, every project's."""
        found = self._ask(sql.AVERAGES, ())
        return parsing.corpus(found[0][0]).rows if found else 0

    def _count(self, expression: str) -> int:
        """How many match, counted until they are too many to weigh."""
        found = self._ask(sql.COUNT_MATCHES, (expression, WEIGHED + 1))
        return int(found[0][0]) if found else 0
