"""Reading the store by words: which rows of the text index answer a question best, and how many of them there is time
to weigh; what its words are, and how frequent; and what stands beside a row in its context.

BM25 takes about a microsecond a row, fifteen times as much as finding it. Before the first it counts the rows of every
phrase of the expression, scope tokens included, and cannot be interrupted meanwhile: what has too many is left out of
the expression.

Most rows that a question finds hold one frequent word of it and nothing else. Hardly any of them comes onto a list that
begins with those that hold a rarer word, or two. So these are all weighed, and where they are too few, of the others
the latest.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kingly_memory.adapters.local import rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.expressions import (
    admitted,
    all_terms,
    any_of,
    any_term,
    holding_pieces,
    in_scope,
    match_expression,
)
from kingly_memory.models import Query
from kingly_memory.ports import Beside, Corpus, Counted, Match, Matches, Passages, Row

WEIGH_SHARE = 0.6
"""Of the time: when no more matches are weighed, and those that are found at once have to do."""
WEIGHED = 20_000
"""Rows that a search weighs at most. In a larger store, words in more rows only fill up what rarer ones leave free."""
FEW, SMALL_SHARE = 5_000, 0.25
"""Memories of a project, and their share of the store, up to which its own rows are asked for at once."""
FEW_OTHERS = 500
"""Rows of other projects up to which the rows of a word are counted before one of the own is looked for among them."""
FREQUENT, MOST_FREQUENT = 500, 4
"""A word in more rows of the store is frequent. When there are more such words than that, to look for what holds two of
them takes longer than to weigh all."""
VERY_FREQUENT = 5_000
"""A word in more rows than that is looked for only beside rarer ones, and where few words are frequent."""
LATEST = 100
"""Where too few rows hold more, the last that hold a frequent word are weighed whatever else they hold, so many of each
word or as many as are asked for."""
LEAST = 0.001
"""The score of what is not weighed."""
_LONGEST_RECORD = 64
"""Bytes of the index's own record that are looked at; a sound one has few."""
_LAST_CHARACTER = "\U0010ffff"
_MOST_WORDS = 100_000
"""Words that a reader keeps between two searches."""
_LENDERS_AT_ONCE = 16
"""Between two looks at the deadline."""
ROWS_AT_ONCE = 20
_READ_AT_ONCE = 65_536
"""Characters of memories between two looks at the deadline."""
_ROWS_AT = sql.ROWS_AT.format(marks=sql.marks(range(ROWS_AT_ONCE)))
Only = tuple[str, list[Any]]
"""What `admitted` makes of the filters."""
_ALL: Only = ("", [])


class TextIndex:
    """Implements what ports.StoreReader has by words. Scores are by position, the best first, the later stored first
    among equals."""

    shortlist = 40

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._all = connections.rows
        self._words: tuple[object, dict[object, list[str]]] = (None, {})

    # --- matches --------------------------------------------------------------------------------------------------

    def matches(
        self,
        query: Query,
        terms: Sequence[str],
        limit: int,
        offset: int,
        deadline_s: float,
        *,
        rows_with: Mapping[str, int] | None = None,
    ) -> Matches:
        only, counted = admitted(query), rows_with or {}
        if only[0]:  # each row that is found is read for its fields, which takes as long as to weigh it three times
            terms = [term for term in terms if counted.get(term, 0) <= VERY_FREQUENT] or terms
        page = _Page(self._connections, query, limit, deadline_s)
        weighed: list[str] = []
        with page.in_time():
            weighed = self._weighable(terms, counted)
        is_done, has_passed_over, at_end, is_small = not weighed, False, True, True
        is_first = offset == 0 and not only[0]  # what the index finds anywhere would be sorted out with great pains
        if weighed and is_first:
            with page.in_time():
                is_small = self._is_small(query.space)
        if not is_small:
            # The first page is looked for without the scope in the expression and sorted out afterwards: BM25 weighs
            # every phrase, and a scope that most rows share costs more than the words.
            room, scored = limit * 2, dict[int, float]()
            with page.in_time():
                scored, has_passed_over = self._anywhere(weighed, rows_with, room)
            page.take(scored)
            at_end = len(scored) < room and not page.is_full
            is_done = page.is_full or at_end or bool(page.cut)
        if not is_done:
            has_passed_over, best = False, dict[int, float]()
            with page.in_time():
                best = self._scored(match_expression(query, any_term(weighed)), limit, offset, only)
            at_end = len(best) < limit
            page.take(best)
        is_rest = len(weighed) < len(terms) or bool(page.cut)
        if is_rest and not page.is_full and time.monotonic() < deadline_s:
            # With words that too many rows hold. The latest are found at once; those that hold all of the words may
            # take longer than there is time for.
            for expression, score in ((any_term(terms), LEAST), (all_terms(terms), 2 * LEAST)):
                if score == LEAST or (offset == 0 and len(terms) > 1):
                    found: list[int] = []
                    with page.in_time(1.0):
                        found = self._latest(match_expression(query, expression), limit, offset, only)
                    at_end = at_end and len(found) < limit
                    page.take(dict.fromkeys(found, score), more=0 if score == LEAST else limit)
        best_first = sorted(page.found.values(), key=lambda match: -match.bm25)
        return Matches(tuple(best_first[:limit]), bool(page.cut), has_passed_over, at_end)

    def _latest(self, expression: str, limit: int, offset: int = 0, only: Only = _ALL) -> list[int]:
        """The positions of those that were stored last, unweighed."""
        statement = sql.LATEST.format(admitted=only[0])
        return [position for (position,) in self._all(statement, (expression, *only[1], limit, offset))]

    def _weighable(self, terms: Sequence[str], rows_with: Mapping[str, int]) -> list[str]:
        """The terms that can be weighed, the rarest first when those are not all. `rows_with` says in how many rows
        each stands, where that is known."""
        if sum(rows_with.get(term, WEIGHED + 1) for term in terms) <= WEIGHED:
            return list(terms)
        if self.corpus().rows <= WEIGHED or self._count(any_term(terms), WEIGHED + 1) <= WEIGHED:
            return list(terms)
        chosen, left = [], WEIGHED
        for count, term in sorted((self._count(any_term([term]), WEIGHED + 1), term) for term in terms):
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
            return self._scored(any_term(terms), limit), False
        counted = sorted((rows_with.get(term, WEIGHED + 1), term) for term in terms)
        rare = [term for count, term in counted if count <= FREQUENT]
        frequent = [term for count, term in counted if count > FREQUENT]
        if len(frequent) > MOST_FREQUENT and counted[len(rare)][0] <= VERY_FREQUENT:
            counted = [one for one in counted if one[0] <= VERY_FREQUENT]
            frequent = [term for _, term in counted[len(rare) :]]
        if not 0 < len(frequent) <= MOST_FREQUENT:
            return self._scored(any_term([term for _, term in counted]), limit), False
        # Each row that holds a frequent term and another one is found by one expression that has all of its terms, none
        # of them twice: so its score is that of the whole question.
        expressions = [any_term(rare), f"{any_term(rare)} AND {any_term(frequent)}"] if rare else []
        for at, term in enumerate(frequent[:-1], 1):
            expressions.append(f"{any_term([term])} AND {any_term(frequent[at:])}")
        found: dict[int, float] = {}
        for expression in expressions:
            for position, score in self._scored(expression, limit).items():
                found[position] = max(score, found.get(position, 0.0))
        if len(found) < limit:
            alone = [term for count, term in counted[len(rare) :] if count <= VERY_FREQUENT]
            for term in alone or ([] if rare else frequent):
                latest = self._all(sql.LATEST_MATCHES, (any_term([term]), max(LATEST, limit), limit))
                for position, score in latest:
                    found[position] = max(-score, found.get(position, 0.0))
        best = sorted(found.items(), key=lambda one: (-one[1], -one[0]))
        return dict(best[:limit]), True

    def _scored(self, expression: str, limit: int, offset: int = 0, only: Only = _ALL) -> dict[int, float]:
        found = self._all(sql.MATCHES.format(admitted=only[0]), (expression, *only[1], limit, offset))
        return {position: -score for position, score in found}

    def _is_small(self, space: str) -> bool:
        of_own, of_all = self._own_and_all([space])
        return of_own <= min(FEW, int(of_all * SMALL_SHARE))

    def _own_and_all(self, spaces: Sequence[str]) -> tuple[int, int]:
        """How many memories those spaces have, one or two, and how many rows the index has."""
        found = self._all(sql.OWN_AND_AVERAGES, (spaces[0], spaces[-1]))
        own, averages = found[0] if found else (0, None)
        return own or 0, read_corpus(averages).rows

    def _rows_of_others(self, spaces: Sequence[str]) -> int:
        of_own, of_all = self._own_and_all(spaces)
        return of_all - of_own

    def _count(self, expression: str, most: int) -> int:
        """How many match, counted up to that many."""
        found = self._all(sql.COUNT_MATCHES, (expression, most))
        return int(found[0][0]) if found else 0

    # --- passages, pieces and words -------------------------------------------------------------------------------

    def passages(self, query: Query, terms: Sequence[str], limit: int, deadline_s: float) -> Passages:
        found: dict[int, tuple[int, float]] = {}
        with self._connections.until(deadline_s):
            expression = match_expression(query, f"body : ({any_of(terms)})")
            only, values = admitted(query, "km_passages.rowid >> 16")
            for passage, start, score in self._all(sql.PASSAGES.format(admitted=only), (expression, *values, limit)):
                found.setdefault(rows.position_of(passage), (start, -score))
        return found

    def holding(self, query: Query, term: str, limit: int, deadline_s: float) -> list[Row]:
        found: list[int] = []
        with self._connections.until(deadline_s):
            found += self._latest(match_expression(query, any_term([term])), limit)
        return self.rows_at(found, time.monotonic())

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        found: list[tuple[Any, ...]] = []
        with self._connections.until(deadline_s) as cut:
            for statement, values in holding_pieces(query, pieces):
                self._connections.rows(statement, (*values, limit), into=found)
        positions, statuses = list(dict.fromkeys(position for (position,) in found)), query.statuses
        there = rows_at(self._connections, positions, deadline_s, cut)
        own = (Match(row, 1.0) for row in there if row.status in statuses and query.admits(row.memory))
        return Matches(tuple(own), bool(cut))

    def frequencies(
        self, query: Query, terms: Sequence[str], most: int, deadline_s: float = math.inf, *, page: int = 0
    ) -> Counted:
        own = in_scope([rows.token("p", one) for one in query.spaces])
        counted, sure = dict[str, int](), dict[str, int]()
        with self._connections.until(deadline_s):
            # What more rows hold than others have is in one of the own: only else that has to be looked for. Where
            # others have many, to look may take less time than to count, and comes first.
            if self._rows_of_others(query.spaces) <= FEW_OTHERS:
                found = {term: self._count(any_term([term]), most) for term in terms}
                others = self._rows_of_others(query.spaces)  # with what they have stored meanwhile
                sure = {term: number for term, number in found.items() if not 0 < number <= others}
            for term in terms:
                expression = any_term([term])
                looked = [] if term in sure else self._all(sql.COUNT_OWN, (f"{own} AND {expression}", expression, most))
                counted[term] = int(looked[0][0]) if looked else sure.get(term, 0)
        return Counted(counted, self.corpus())

    def vocabulary(self, length: int, limit: int, first: str = "") -> list[str]:
        # What was read holds for as long as the index stays as it is; asked first, so that it is never older.
        structure = self._all(sql.STRUCTURE, ())
        read_of, known = self._words
        if structure != read_of or sum(map(len, known.values())) > _MOST_WORDS:
            self._words = (structure, known := {})
        if (length, limit, first) not in known:
            found = self._all(sql.WORDS, (length, first, first + _LAST_CHARACTER, limit))
            known[length, limit, first] = [word for (word,) in found]
        return known[length, limit, first]

    def longer(self, beginning: str, most: int, limit: int) -> list[str]:
        lengths = json.dumps([*range(len(beginning) + 1, len(beginning) + most + 1)])
        found = self._all(sql.LONGER, (lengths, beginning, beginning + _LAST_CHARACTER, limit))
        return [word for (word,) in found]

    def corpus(self) -> Corpus:
        """How many rows all spaces have, and of how many words."""
        found = self._all(sql.AVERAGES, ())
        return read_corpus(found[0][0] if found else b"")

    # --- rows -----------------------------------------------------------------------------------------------------

    def beside(self, query: Query, contexts: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        statuses = json.dumps(query.statuses)
        lenders = list(contexts.items())
        found: dict[int, Beside] = {}
        with self._connections.until(deadline_s):
            for first in range(0, len(lenders), _LENDERS_AT_ONCE):
                some = json.dumps(lenders[first : first + _LENDERS_AT_ONCE])
                for at, before, after in self._all(sql.NEAR, (some, reach, query.space, statuses)):
                    found[at] = Beside(_nearest(before, at), _nearest(after, at))
        return found

    def rows_at(self, positions: Sequence[int], deadline_s: float) -> list[Row]:
        return list(rows_at(self._connections, positions, deadline_s, []))


class _Page:
    """Fills up with matches. What it has when the deadline interrupts it, it keeps; `cut` is no longer empty then."""

    def __init__(self, connections: Connections, query: Query, limit: int, deadline_s: float) -> None:
        self._connections = connections
        self._query = query
        self._limit = limit
        self._deadline_s = deadline_s
        self.found: dict[int, Match] = {}
        self.cut: list[bool] = []

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self._limit

    @contextmanager
    def in_time(self, share: float = WEIGH_SHARE) -> Iterator[None]:
        """Leave the body when that share of the time that is left is over."""
        now_s = time.monotonic()
        until_s = min(now_s, self._deadline_s) + max(self._deadline_s - now_s, 0.0) * share
        with self._connections.until(until_s) as cut:
            yield
        self.cut += cut

    def take(self, scored: Mapping[int, float], more: int = 0) -> None:
        """Read them until the page is full; with `more` that many beyond, for a better one may be among them."""
        statuses = self._query.statuses
        new = [position for position in scored if position not in self.found]
        for row in rows_at(self._connections, new, self._deadline_s, self.cut):
            if row.status in statuses and self._query.admits(row.memory):
                self.found[row.position] = Match(row, scored[row.position])
            if len(self.found) >= self._limit + more:
                return


# --- rows at positions ------------------------------------------------------------------------------------------------


def rows_at(connections: Connections, positions: Sequence[int], deadline_s: float, cut: list[bool]) -> Iterator[Row]:
    """The rows at those positions, as far as there was time; `cut` notes where there was not."""
    return (row for _, row in read(connections, _ROWS_AT, positions, deadline_s, cut) if row is not None)


def read(
    connections: Connections, statement: str, names: Sequence[Any], deadline_s: float, cut: list[bool]
) -> Iterator[tuple[Any, Row | None]]:
    """Each of those names with its row, None where there is none. Few are read at a time, since a memory may be a
    thousand times as long as most. Ended by the deadline, which `cut` then notes, but not before a little was read: on
    a crowded machine the time may be over at the start."""
    waiting, read = list(names), 0
    while waiting:
        some = waiting[:ROWS_AT_ONCE]
        marked = [*some, *(some[-1:] * (ROWS_AT_ONCE - len(some)))]  # always the same statement
        found = {columns[0]: columns[1:] for columns in connections.rows(statement, marked, most=_READ_AT_ONCE)}
        is_all = sum(len(value) for _, value, _ in found.values()) <= _READ_AT_ONCE
        for name in [name for name in some if is_all or name in found]:
            if read > _READ_AT_ONCE and time.monotonic() >= deadline_s:
                cut.append(True)
                return
            columns = found.get(name)
            read += len(columns[1]) if columns else 0
            yield name, rows.read_row(*columns) if columns else None
        waiting = [*([] if is_all else [name for name in some if name not in found]), *waiting[ROWS_AT_ONCE:]]


def _nearest(positions: str | None, lender: int) -> tuple[int, ...]:
    """Positions as SQLite lists them, the nearest first."""
    found = map(int, positions.split(",")) if positions else ()
    return tuple(sorted(found, key=lambda position: abs(position - lender)))


def read_corpus(averages: Any) -> Corpus:
    """How much the text index holds, from its own record; a record that is not one reads as an empty index.

    Its numbers have seven bits a byte, the highest first; the eighth bit says that more follow."""
    numbers, number = [], 0
    for byte in averages[:_LONGEST_RECORD] if isinstance(averages, bytes) else b"":
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if len(numbers) <= sql.TEXT_COLUMNS or not numbers[0]:
        return Corpus(0, 0.0)
    return Corpus(numbers[0], sum(numbers[1 : sql.TEXT_COLUMNS + 1]) / numbers[0])
