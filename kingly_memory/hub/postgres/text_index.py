"""Finding memories by words in PostgreSQL, which fetches what the hub then ranks as a home does.

`km_text` has a row for each live memory, and one for each passage of a long one. Its words are the hub's own: stems,
symbols, and pairs of letters of scripts without word breaks. Each begins with a mark of its space and of what it stands
in: so a word leads to the rows of one space alone, however many others have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kingly_memory.adapters.local import rows
from kingly_memory.adapters.local.rows import digest
from kingly_memory.models import Memory, Query
from kingly_memory.ports import Beside, Corpus, Match, Matches, Row
from kingly_memory.retrieval.lexical import LENGTH, SATURATION, rarity
from kingly_memory.text.passages import searchable_passages
from kingly_memory.text.writing import has_unbroken, stem, unbroken_runs, without_marks, without_unbroken, words

INDEX = (
    "INSERT INTO km_text SELECT m.position, t.start, m.space, m.type, cardinality(t.words), array_to_tsvector(t.words) "
    "FROM (SELECT w ->> 0 AS id, (w ->> 1)::integer AS start, string_to_array(w ->> 2, ' ') AS words "
    "FROM json_array_elements(%s) AS w OFFSET 0) AS t "
    "CROSS JOIN LATERAL (SELECT * FROM km_memory WHERE id = t.id OFFSET 0) AS m"
)
"""With `OFFSET 0` each memory is looked up by its id; a planner that expects a hundred of them would read all there
are, up to some ten thousand. All functions are immutable: Citus 13 breaks such a statement that has another."""
UNINDEX = "DELETE FROM km_text WHERE position = %s RETURNING size"

_WHOLE, _PASSAGE = "m", "p"
_MARK, _LONGEST = 5, 64
"""Characters of a space's digest, and of a word."""
_USUAL = Corpus(10_000, 20.0)
"""What decides only who is looked at closely needs no better figures."""
_SYMBOL = re.compile(r"[^\w\s\x00-\x7f]")

_OWN = "km_text AS t WHERE t.space = %s AND t.tsv @@ a.asked::tsquery"
_BEST = (
    "SELECT t.position, t.start, sum(a.worth) / (1 + %s * (1 - %s + %s * t.size / %s)) AS score "
    "FROM unnest(%s::text[], %s::double precision[]) AS a(asked, worth) CROSS JOIN "
    f"LATERAL (SELECT t.* FROM {_OWN} AND (%s::text[] IS NULL OR t.type = ANY(%s)) OFFSET 0) AS t "
    "GROUP BY t.position, t.start, t.size ORDER BY score DESC, t.position DESC LIMIT %s OFFSET %s"
)
"""BM25 (Robertson and Zaragoza, 2009) of texts that hold each word once. With `OFFSET 0` each word is looked up in the
index; a planner that knows nothing of the table yet would else compare every text with every word."""
_ROWS = (
    f"SELECT position, m.record, m.status, b.score FROM ({_BEST}) AS b JOIN km_memory AS m USING (position) "
    "ORDER BY b.score DESC, position DESC"
)
_COUNT = (
    f"SELECT a.term, (SELECT count(*) FROM (SELECT FROM {_OWN} LIMIT %s) AS o) "
    "FROM unnest(%s::text[], %s::text[]) AS a(term, asked)"
)
_NEAR = (
    "ARRAY(SELECT position FROM km_memory WHERE space = %s AND status = 'live' AND type = 'episodic' "
    "AND context_id = l.context AND position {beyond} l.at ORDER BY position {order} LIMIT %s)"
)
_BESIDE = (
    f"SELECT l.at, {_NEAR.format(beyond='<', order='DESC')}, {_NEAR.format(beyond='>', order='ASC')} "
    "FROM unnest(%s::bigint[], %s::text[]) AS l(at, context)"
)


def texts(memory: Memory) -> list[tuple[int | None, list[str]]]:
    """The rows of a memory in `km_text`: where the passage begins, None for what is no passage, and the words."""
    labels = " ".join((memory.title or "", *memory.tags))
    passages = searchable_passages(memory.content)
    whole = labels if passages else f"{labels}\n{memory.content}"
    own = [(None, _WHOLE, whole), *((start, _PASSAGE, text) for start, text in passages)]
    space = digest(memory.scope.space)[:_MARK]
    found = ((start, [f"{kind}{space}{token}" for token in _tokens(text)]) for start, kind, text in own)
    return [(start, marked) for start, marked in found if marked]


class TextIndex:
    """Implements what a hub's searches use of that part of ports.StoreReader: they filter by space and type. No
    deadline cuts a statement short, and how words are written is not kept."""

    def __init__(self, fetch_all: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._all = fetch_all

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
        counted = rows_with or {}
        worth = {_asked(query, term, _WHOLE): rarity(counted.get(term, 0), _USUAL) for term in terms}
        return self._matches(query, worth, limit, offset)

    def passages(
        self, query: Query, terms: Sequence[str], limit: int, deadline_s: float
    ) -> dict[int, tuple[int, float]]:
        worth = {_asked(query, term, _PASSAGE): 1.0 for term in terms}
        found: dict[int, tuple[int, float]] = {}
        for position, start, score in self._all(_BEST, _values(query, worth, limit)):
            found.setdefault(position, (start, score))
        return found

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        return self._matches(query, {_asked(query, piece, _WHOLE, _PASSAGE): 1.0 for piece in pieces}, limit)

    def frequencies(self, query: Query, terms: Sequence[str], most: int, deadline_s: float = 0.0) -> dict[str, int]:
        asked = [_asked(query, term, _WHOLE, _PASSAGE) for term in terms]
        return dict(self._all(_COUNT, (query.space, most, list(terms), asked)))

    def longer(self, beginning: str, most: int, limit: int) -> list[str]:
        return []

    def corpus(self, space: str) -> Corpus:
        statement = "SELECT live, words::double precision / live FROM km_scope WHERE space = %s AND live > 0"
        return next((Corpus(*counted) for counted in self._all(statement, (space,))), Corpus(0, 0.0))

    def beside(self, query: Query, contexts: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        near = (query.space, reach)
        found = self._all(_BESIDE, (*near, *near, list(contexts), list(contexts.values())))
        return {at: Beside(tuple(before), tuple(after)) for at, before, after in found}

    def rows_at(self, positions: Sequence[int], deadline_s: float) -> list[Row]:
        statement = "SELECT position, record, status FROM km_memory WHERE position = ANY(%s)"
        found = {row.position: row for row in rows.read_rows(self._all(statement, (list(positions),)))}
        return [found[position] for position in positions if position in found]

    def _matches(self, query: Query, worth: Mapping[str, float], limit: int, offset: int = 0) -> Matches:
        found = self._all(_ROWS, _values(query, worth, limit, offset))
        scores = {position: score for position, *_, score in found}
        read = {row.position: row for row in rows.read_rows(found)}
        return Matches(tuple(Match(row, scores[at]) for at, row in read.items()), at_end=len(found) < limit)


def _values(query: Query, worth: Mapping[str, float], limit: int, offset: int = 0) -> tuple[Any, ...]:
    """Of `_BEST`, given what each expression is worth."""
    kinds = None if query.types is None else [one.value for one in query.types]
    shape = (SATURATION, LENGTH, LENGTH, _USUAL.mean_words)
    return (*shape, [*worth], [*worth.values()], query.space, kinds, kinds, limit, offset)


def _asked(query: Query, asked: str, *kinds: str) -> str:
    """What finds the texts of those kinds that hold a word or a piece; a text without either finds nothing."""
    if not has_unbroken(asked):
        ending, found = "", _tokens(asked)
    else:
        ending, found = "" if asked[1:] else ":*", {asked[at : at + 2] for at in range(max(len(asked) - 1, 1))}
    space = digest(query.space)[:_MARK]
    expressions = (" & ".join(f"'{kind}{space}{token}'{ending}" for token in found) for kind in kinds)
    return " | ".join(filter(None, expressions))


def _tokens(text: str) -> set[str]:
    found = {stem(word)[:_LONGEST] for word in words(without_marks(without_unbroken(text)))}
    if not text.isascii():
        found.update(_SYMBOL.findall(text))
        found.update(run[at : at + 2] for run in unbroken_runs(text.casefold()) for at in range(len(run)))
    return found - {""}
