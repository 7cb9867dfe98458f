"""Which rows of the text index come onto a shortlist, and how many of them there is time to weigh.

BM25 takes about a microsecond a row, fifteen times as much as finding it. Before the first it counts the rows of every
phrase of the expression, scope tokens included, and cannot be interrupted meanwhile: what has too many is left out of
the expression.

Most rows that a question finds hold one frequent word of it and nothing else. Hardly any of them comes onto a list that
begins with those that hold a rarer word, or two. So these are all weighed, and of the others only the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.models import Query

WEIGHED = 20_000
"""Rows that a search weighs at most. In a larger store, words in more rows only fill up what rarer ones leave free."""
FEW, SMALL_SHARE = 5_000, 0.25
"""Memories of a project, and their share of the store, up to which its own rows are asked for at once."""
MANY = 100_000
"""Memories of a project that make it a huge one: counting them would take more than weighing the words alone."""
FREQUENT, MOST_FREQUENT = 500, 4
"""A word in more rows of the store is frequent. When there are more such words than that, to look for what holds two of
them takes longer than to weigh all."""
LATEST = 100
"""The last rows that hold a frequent word are weighed whatever else they hold, so many of each word or as many as are
asked for."""
LEAST = 0.001
"""The score of what is not weighed."""

Ask = Callable[[str, Iterable[Any]], list[Any]]


class Shortlist:
    """Asks the text index; what it answers with are scores by position, the best first, the later stored first among
    equals."""

    def __init__(self, ask: Ask) -> None:
        """`ask` runs a statement with values."""
        self._ask = ask
        self._grown: dict[str, int] = {}

    def weighable(self, terms: Sequence[str], rows_with: Mapping[str, int]) -> list[str]:
        """The terms that can be weighed, the rarest first when those are not all. `rows_with` says in how many rows
        each stands, where that is known."""
        if sum(rows_with.get(term, WEIGHED + 1) for term in terms) <= WEIGHED:
            return list(terms)
        if self._stored() <= WEIGHED or self._count(rows.any_term(terms), WEIGHED + 1) <= WEIGHED:
            return list(terms)
        counted = sorted((self._count(rows.any_term([term]), WEIGHED + 1), term) for term in terms)
        chosen, left = [], WEIGHED
        for count, term in counted:
            left -= count
            if left < 0:
                break
            chosen.append(term)
        return chosen

    def is_small(self, project: str) -> bool:
        return not self._has_more(project, min(FEW, int(self._stored() * SMALL_SHARE)))

    def anywhere(self, terms: Sequence[str], limit: int) -> dict[int, float]:
        """Whatever their scope is."""
        return self._scored(rows.any_term(terms), limit, 0)

    def by_rarity(self, terms: Sequence[str], rows_with: Mapping[str, int], limit: int) -> dict[int, float] | None:
        """The same, but that of those which hold one frequent term and no other only the latest are weighed. None where
        that is not quicker."""
        counted = sorted((rows_with.get(term, WEIGHED + 1), term) for term in terms)
        frequent = [term for count, term in counted if count > FREQUENT]
        if not 0 < len(frequent) <= MOST_FREQUENT:
            return None
        rare = [term for count, term in counted if count <= FREQUENT]
        found = self.anywhere(rare, limit) if rare else {}
        for expression in _both(rare, frequent):
            _keep_best(found, self._scored(expression, limit, 0))
        for term in frequent:
            latest = self._ask(sql.LATEST_MATCHES, (rows.any_term([term]), max(LATEST, limit), limit))
            _keep_best(found, {position: -score for position, score in latest})
        best = sorted(found.items(), key=lambda one: (-one[1], -one[0]))
        return dict(best[:limit])

    def within(self, query: Query, terms: Sequence[str], limit: int, offset: int) -> dict[int, float]:
        """Those that the query's filters admit."""
        words = rows.any_term(terms)
        admitted = rows.match_expression(query, words)
        if not self._has_more(query.project, MANY):
            return self._scored(admitted, limit, offset)
        own = set(self._positions(admitted, WEIGHED, 0))
        scored = [(position, score) for position, score in self._scored(words, WEIGHED, 0).items() if position in own]
        return dict(scored[offset : offset + limit])

    def latest(self, query: Query, terms: Sequence[str], limit: int, offset: int = 0) -> dict[int, float]:
        """Those stored last among what the query's filters admit, unweighed."""
        admitted = rows.match_expression(query, rows.any_term(terms))
        return dict.fromkeys(self._positions(admitted, limit, offset), LEAST)

    def latest_of_all(self, query: Query, terms: Sequence[str], limit: int) -> dict[int, float]:
        """Of these, those that hold every term."""
        admitted = rows.match_expression(query, rows.all_terms(terms))
        return dict.fromkeys(self._positions(admitted, limit, 0), 2 * LEAST)

    def _has_more(self, project: str, most: int) -> bool:
        """Counted no more once it is so: projects seldom shrink, and it is a matter of time only."""
        if self._grown.get(project, -1) <= most:
            self._grown[project] = self._count(rows.project_expression(project), most + 1)
        return self._grown[project] > most

    def _stored(self) -> int:
        """Memories in the store, every project's."""
        found = self._ask(sql.AVERAGES, ())
        return parsing.corpus(found[0][0]).rows if found else 0

    def _scored(self, expression: str, limit: int, offset: int) -> dict[int, float]:
        found = self._ask(sql.MATCHES, (expression, limit, offset))
        return {position: -score for position, score in sorted(found, key=lambda one: (one[1], -one[0]))}

    def _positions(self, expression: str, limit: int, offset: int) -> list[int]:
        return [position for (position,) in self._ask(sql.LATEST, (expression, limit, offset))]

    def _count(self, expression: str, most: int) -> int:
        found = self._ask(sql.COUNT_MATCHES, (expression, most))
        return int(found[0][0]) if found else 0


def _both(rare: Sequence[str], frequent: Sequence[str]) -> Iterator[str]:
    """What finds every row that holds a frequent term and another one. Each row is found by one expression that has all
    of its terms, none of them twice: so its score is that of the whole question."""
    if rare:
        yield f"{rows.any_term(rare)} AND {rows.any_term(frequent)}"
    for at, term in enumerate(frequent[:-1], 1):
        yield f"{rows.any_term([term])} AND {rows.any_term(frequent[at:])}"


def _keep_best(found: dict[int, float], scored: Mapping[int, float]) -> None:
    for position, score in scored.items():
        found[position] = max(score, found.get(position, 0.0))
