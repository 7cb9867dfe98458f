"""Which rows of the text index answer a question best, and how many of them there is time to weigh.

BM25 takes about a microsecond a row, fifteen times as much as finding it. Before the first it counts the rows of every
phrase of the expression, scope tokens included, and cannot be interrupted meanwhile: what has too many is left out of
the expression.

Most rows that a question finds hold one frequent word of it and nothing else. Hardly any of them comes onto a list that
begins with those that hold a rarer word, or two. So these are all weighed, and of the others only the latest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.rows import status_token, token, type_token
from kingly_memory.models import MemoryStatus, MemoryType, Query
from kingly_memory.ports import Corpus, Match, Matches, Row

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
_LONGEST_RECORD = 64
"""Bytes of the index's own record that are looked at; a sound one has few."""

_METADATA = "json_extract(c.value, '$.metadata"
_COMPARED = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_EXACT = 2**53
"""Whole numbers below it are the same as floats."""
_IN_SCOPE = "instr(' ' || m.scope || ' ', ?) > 0"

Ask = Callable[[str, Iterable[Any]], list[Any]]
Read = Callable[[Sequence[int], float, list[bool]], Iterator[Row]]
Until = Callable[[float], AbstractContextManager[list[bool]]]
Only = tuple[str, list[Any]]
"""What `admitted` makes of the filters."""
_ALL: Only = ("", [])


# --- match expressions ------------------------------------------------------------------------------------------------

_LONGEST_WORD = 12
"""Characters of a word that is too short to be a digest, however many of its last ones the stemmer drops."""
_SCOPE_BEGINNINGS = frozenset(word[:2] for word in (*map(status_token, MemoryStatus), *map(type_token, MemoryType)))


def readable(query: Query) -> tuple[MemoryStatus, ...]:
    shown = (MemoryStatus.LIVE, MemoryStatus.CACHED)
    return (*shown, MemoryStatus.ARCHIVED) if query.include_archived else shown


def match_expression(query: Query, also: str | None = None, statuses: Sequence[MemoryStatus] | None = None) -> str:
    """A MATCH expression for the query's scope and filters, and `also` another one.

    Standings are what it excludes: the index has few rows that are not live, and a list of nearly all would cost more
    than the words.
    """
    shown = readable(query) if statuses is None else statuses
    hidden = [status_token(status) for status in MemoryStatus if status not in shown]
    positive = " AND ".join([*map(in_scope, _scope(query)), *([also] if also else [])])
    return f"({positive}) NOT {in_scope(hidden)}" if hidden else positive


def column_conditions(query: Query) -> tuple[list[str], list[Any]]:
    """As conditions on km_memory what `match_expression` asks the index, with their values."""
    statuses = readable(query)
    groups = _scope(query)
    conditions = [f"m.status IN ({sql.marks(statuses)})"]
    conditions += [f"({' OR '.join([_IN_SCOPE] * len(group))})" for group in groups]
    return conditions, [*statuses, *(f" {one} " for group in groups for one in group)]


def field_condition(query: Query) -> tuple[str, list[Any]]:
    """The filters that the index knows nothing of as a condition on a memory's rows, with its values; empty
    without."""
    found: list[tuple[str, Any]] = [(f"NOT {_IN_SCOPE}", f" {token('g', tag)} ") for tag in query.without_tags]
    if query.since is not None:
        found.append(("m.created_s >= ?", query.since.timestamp()))
    if query.until is not None:
        found.append(("m.created_s <= ?", query.until.timestamp()))
    if query.min_confidence > 0:
        found.append(("json_extract(c.value, '$.confidence') >= ?", query.min_confidence))
    if query.origins is not None:
        origins = json.dumps([origin.value for origin in query.origins])
        found.append(("json_extract(c.value, '$.origin') IN (SELECT value FROM json_each(?))", origins))
    metadata = query.metadata or {}
    for name, wanted in metadata.items():
        compared = wanted if isinstance(wanted, Mapping) else {"$eq": wanted}
        conditions = [
            (operator, value)
            for operator, value in compared.items()
            if operator in _COMPARED and _is_plain(name, value)
        ]
        found += [(f'{_METADATA}."{name}"\') {_COMPARED[operator]} ?', value) for operator, value in conditions]
    if metadata:  # last, since a call of Python takes longer than all before it
        found.append((f"has_metadata(CAST({_METADATA}') AS BLOB), ?)", json.dumps(metadata, default=dict)))
    condition = ""
    for test, _ in reversed(found):  # SQLite evaluates all sides of an AND in an expression
        condition = f"CASE WHEN {test} THEN {condition or '1'} END"
    return condition and f"CASE WHEN json_valid(c.value) THEN {condition} END", [value for _, value in found]


def _is_plain(name: str, wanted: object) -> bool:
    """Whether SQLite can leave out what has no such value there, and nothing else."""
    is_simple = name.isprintable() and not set(name) & set("\"'\\")
    is_exact = isinstance(wanted, int | float) and abs(wanted) < _EXACT
    return is_simple and (is_exact or (isinstance(wanted, str) and wanted.isprintable()))


def admitted(query: Query, position: str = "km_text.rowid") -> tuple[str, list[Any]]:
    """The same as a statement of the index takes it; empty where tags alone are left out, as nearly every search leaves
    out those of assessments: such rows are few, and a plain search is not to pay for them."""
    filters = (query.since, query.until, query.origins, query.metadata, query.min_confidence or None)
    if all(value is None for value in filters):
        return "", []
    condition, values = field_condition(query)
    return condition and sql.ADMITTED.format(position=position, condition=condition), values


def _scope(query: Query) -> list[list[str]]:
    """Scope tokens: of each list a row must have one."""
    wanted = [[token("p", one) for one in query.spaces]]
    if query.types is not None:
        wanted.append([type_token(kind) for kind in query.types])
    if query.agent is not None:
        wanted.append([token("a", query.agent)])
    if query.context_id is not None:
        wanted.append([token("c", query.context_id)])
    wanted += [[token("g", tag)] for tag in query.tags or ()]
    if query.any_tags is not None:
        wanted.append([token("g", tag) for tag in query.any_tags])
    return wanted


def in_scope(tokens: Iterable[str]) -> str:
    """Rows with at least one of the scope tokens."""
    return f"scope : ({any_of(tokens)})"


def any_term(terms: Sequence[str]) -> str:
    """Rows that hold at least one of the terms. Terms are quoted, so none can act as an operator or name a column.

    To look into columns costs a third more than to look into all: that is left to terms which the index, which drops
    endings and accents, might take for a scope token.
    """
    may_be_scope = any(
        len(term) > _LONGEST_WORD or not term.isascii() or term[:2].lower() in _SCOPE_BEGINNINGS for term in terms
    )
    wanted = any_of(form for term in terms for form in _spellings(term))
    return f"{{title body labels}} : ({wanted})" if may_be_scope else f"({wanted})"


def all_terms(terms: Sequence[str]) -> str:
    """Rows that hold every one of the terms."""
    return f"{{title body labels}} : ({' AND '.join(f'({any_of(_spellings(term))})' for term in terms)})"


def _spellings(term: str) -> tuple[str, ...]:
    """The index keeps ß, which words in lower case have as ss: groß, Größe, Wasserstraße. Asked for are both."""
    before, found, after = term.rpartition("ss")
    return (term, term.replace("ss", "ß"), f"{before}ß{after}") if found else (term,)


def any_of(terms: Iterable[str]) -> str:
    """Any of the words, wherever they stand."""
    return " OR ".join(map(quoted, terms))


def quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'


def corpus(averages: Any) -> Corpus:
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


# --- matching ---------------------------------------------------------------------------------------------------------


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
        statuses = readable(self._query)
        new = [position for position in scored if position not in self._found]
        for row in self._read(new, self._deadline_s, self.cut):
            if row.status in statuses and self._query.admits(row.memory):
                self._found[row.position] = Match(row, scored[row.position])
            if len(self._found) >= self._limit + more:
                return

    def matches(self, *, has_passed_over: bool, at_end: bool) -> Matches:
        best = sorted(self._found.values(), key=lambda match: -match.bm25)
        return Matches(tuple(best[: self._limit]), bool(self.cut), has_passed_over, at_end)


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
        offset: int,
        deadline_s: float,
        *,
        rows_with: Mapping[str, int] | None = None,
    ) -> Matches:
        """One page of matches. See `ports.StoreReader`."""
        if not terms:
            return Matches(())
        page = _Page(self._read, self._until, query, limit, deadline_s)
        nothing: list[str] = []
        weighed = page.in_time(lambda: self._weighable(terms, rows_with or {}), nothing)
        is_done, has_passed_over, at_end = not weighed, False, True
        only = admitted(query)
        is_first = offset == 0 and not only[0]  # what the index finds anywhere would be sorted out with great pains
        if weighed and is_first and not page.in_time(lambda: self._is_small(query.space), True):
            # The first page is looked for without the scope in the expression and sorted out afterwards: BM25 weighs
            # every phrase, and a scope that most rows share costs more than the words.
            room = limit * 2
            nowhere: tuple[dict[int, float], bool] = ({}, False)
            scored, has_passed_over = page.in_time(lambda: self._anywhere(weighed, rows_with, room), nowhere)
            page.take(scored)
            at_end = len(scored) < room and not page.is_full
            is_done = page.is_full or at_end or bool(page.cut)
        if not is_done:
            has_passed_over = False
            own = match_expression(query, any_term(weighed))
            best: dict[int, float] = page.in_time(lambda: self._scored(own, limit, offset, only), {})
            at_end = len(best) < limit
            page.take(best)
        is_rest = len(weighed) < len(terms) or bool(page.cut)
        if is_rest and not page.is_full and time.monotonic() < deadline_s:
            # With words that too many rows hold. The latest are found at once; those that hold all of the words may
            # take longer than there is time for.
            for expression, score in ((any_term(terms), LEAST), (all_terms(terms), 2 * LEAST)):
                if score == LEAST or (offset == 0 and len(terms) > 1):
                    own = match_expression(query, expression)
                    found: list[int] = page.in_time(partial(self.latest, own, limit, offset, only), [], 1.0)
                    at_end = at_end and len(found) < limit
                    page.take(dict.fromkeys(found, score), more=0 if score == LEAST else limit)
        return page.matches(has_passed_over=has_passed_over, at_end=at_end)

    def latest(self, expression: str, limit: int, offset: int = 0, only: Only = _ALL) -> list[int]:
        """The positions of those that were stored last, unweighed."""
        statement = sql.LATEST.format(admitted=only[0])
        return [position for (position,) in self._ask(statement, (expression, *only[1], limit, offset))]

    def _weighable(self, terms: Sequence[str], rows_with: Mapping[str, int]) -> list[str]:
        """The terms that can be weighed, the rarest first when those are not all. `rows_with` says in how many rows
        each stands, where that is known."""
        if sum(rows_with.get(term, WEIGHED + 1) for term in terms) <= WEIGHED:
            return list(terms)
        if self._stored() <= WEIGHED or self._count(any_term(terms)) <= WEIGHED:
            return list(terms)
        chosen, left = [], WEIGHED
        for count, term in sorted((self._count(any_term([term])), term) for term in terms):
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
        frequent = [term for count, term in counted if count > FREQUENT]
        if not 0 < len(frequent) <= MOST_FREQUENT:
            return self._scored(any_term(terms), limit), False
        rare = [term for count, term in counted if count <= FREQUENT]
        # Each row that holds a frequent term and another one is found by one expression that has all of its terms, none
        # of them twice: so its score is that of the whole question.
        expressions = [any_term(rare), f"{any_term(rare)} AND {any_term(frequent)}"] if rare else []
        for at, term in enumerate(frequent[:-1], 1):
            expressions.append(f"{any_term([term])} AND {any_term(frequent[at:])}")
        found: dict[int, float] = {}
        for expression in expressions:
            for position, score in self._scored(expression, limit).items():
                found[position] = max(score, found.get(position, 0.0))
        for term in frequent:
            latest = self._ask(sql.LATEST_MATCHES, (any_term([term]), max(LATEST, limit), limit))
            for position, score in latest:
                found[position] = max(-score, found.get(position, 0.0))
        best = sorted(found.items(), key=lambda one: (-one[1], -one[0]))
        return dict(best[:limit]), True

    def _scored(self, expression: str, limit: int, offset: int = 0, only: Only = _ALL) -> dict[int, float]:
        found = self._ask(sql.MATCHES.format(admitted=only[0]), (expression, *only[1], limit, offset))
        return {position: -score for position, score in found}

    def _is_small(self, space: str) -> bool:
        own = sum(count for _, count in self._ask(sql.COUNTS, (space,)))
        return bool(own <= min(FEW, int(self._stored() * SMALL_SHARE)))

    def _stored(self) -> int:
        """Memories in the store, every project's."""
        found = self._ask(sql.AVERAGES, ())
        return corpus(found[0][0]).rows if found else 0

    def _count(self, expression: str) -> int:
        """How many match, counted until they are too many to weigh."""
        found = self._ask(sql.COUNT_MATCHES, (expression, WEIGHED + 1))
        return int(found[0][0]) if found else 0
