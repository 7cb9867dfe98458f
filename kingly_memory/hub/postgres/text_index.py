"""Finding memories by words in PostgreSQL, which fetches what the hub then ranks as a home does.

`km_text` has a row for each live memory, and one for each passage of a long one. Its words are the hub's own: stems,
symbols, and pairs of letters of scripts without word breaks. Each begins with a mark of its space and of what it stands
in: so a word leads to the rows of one space alone, however many others have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kingly_memory.adapters.local import rows
from kingly_memory.adapters.local.rows import digest
from kingly_memory.models import Memory, Query
from kingly_memory.ports import Beside, Corpus, Counted, Match, Matches, Passages, Row
from kingly_memory.retrieval.lexical import LENGTH, SATURATION, UNSEEN_ROWS
from kingly_memory.router.search.local import PASSAGES
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
_OF_ONE_WORD = 40
"""Memories that are handed over at least where one word is asked for: to the index, which counts a word once, they
differ in their length alone."""
_SYMBOL = re.compile(r"[^\w\s\x00-\x7f]")

_FOUND = f"""
WITH held AS MATERIALIZED (
  SELECT a.number, t.* FROM unnest(string_to_array(%s, ';')) WITH ORDINALITY AS a(asked, number) CROSS JOIN LATERAL (
    SELECT position, start, type, size FROM km_text WHERE space = %s AND tsv @@ a.asked::tsquery LIMIT %s::bigint
  ) AS t
), counted AS MATERIALIZED (
  SELECT number, count(*) AS rows,
    ln(1 + (greatest({_USUAL.rows} - count(*), 0) + {UNSEEN_ROWS} + 0.5::float8) / (count(*) + 0.5::float8)) AS worth
  FROM held GROUP BY number
), best AS MATERIALIZED (
  SELECT position, start, sum(worth / (1 + {SATURATION}::float8
    * (1 - {LENGTH}::float8 + {LENGTH}::float8 * size / {_USUAL.mean_words}::float8))) AS score
  FROM held JOIN counted USING (number)
  WHERE (%s::text[] IS NULL OR type = ANY(%s)) AND NOT EXISTS (SELECT FROM counted WHERE rows >= %s::bigint)
  GROUP BY position, start
)
SELECT 'term' AS what, number, rows AS position, 0::float8 AS score, NULL AS record, NULL AS status FROM counted
UNION ALL SELECT 'corpus', live, sequence, words / greatest(live, 1)::float8, NULL, NULL FROM km_scope WHERE space = %s
UNION ALL (
  SELECT 'passage', start, position, score, NULL, NULL FROM best WHERE start IS NOT NULL
  ORDER BY score DESC, position DESC, start LIMIT %s
) UNION ALL SELECT 'memory', NULL, position, b.score, m.record, m.status FROM (
  SELECT position, score FROM best WHERE start IS NULL ORDER BY score DESC, position DESC LIMIT %s OFFSET %s
) AS b JOIN km_memory AS m USING (position)
"""
"""All that a search asks of its words, at once: each further question takes as long as the index does. How many texts
hold each word, how much there is, and the best texts by BM25 (Robertson and Zaragoza, 2009) of texts that hold each
word once. `LATERAL` with a limit looks each word up in the index; a planner that knows nothing of the table yet would
else compare every text with every word."""
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

    shortlist = 20
    """It weighs words much as the search does. Of the LoCoMo questions, recall@10 was .754 with these and .751 with
    forty; with all conversations in one project .736 and .732."""

    def __init__(self, fetch_all: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._all = fetch_all

    def frequencies(
        self, query: Query, terms: Sequence[str], most: int, deadline_s: float = 0.0, *, page: int = 0
    ) -> Counted:
        """What is found comes along where all that hold a term were counted, and so weighed."""
        counted, passages, matches = self._found(query, terms, most, page, in_texts=(_WHOLE, _PASSAGE))
        is_all = max(counted.rows_with.values(), default=0) < most
        return counted._replace(found=(passages, matches)) if is_all else counted

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
        return self._found(query, terms, None, limit, offset, in_texts=(_WHOLE,))[2]

    def passages(self, query: Query, terms: Sequence[str], limit: int, deadline_s: float) -> Passages:
        return self._found(query, terms, None, 0, in_texts=(_PASSAGE,))[1]

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        _, passages, matches = self._found(query, pieces, None, limit, in_texts=(_WHOLE, _PASSAGE))
        long = self.rows_at([*passages][:limit], deadline_s)
        return matches._replace(found=(*matches.found, *(Match(row, passages[row.position][1]) for row in long)))

    def longer(self, beginning: str, most: int, limit: int) -> list[str]:
        return []

    def beside(self, query: Query, contexts: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        near = (query.space, reach)
        found = self._all(_BESIDE, (*near, *near, list(contexts), list(contexts.values())))
        return {at: Beside(tuple(before), tuple(after)) for at, before, after in found}

    def rows_at(self, positions: Sequence[int], deadline_s: float) -> list[Row]:
        statement = "SELECT position, record, status FROM km_memory WHERE position = ANY(%s)"
        there = self._all(statement, (list(positions),)) if positions else ()
        found = {row.position: row for row in rows.read_rows(there)}
        return [found[position] for position in positions if position in found]

    def _found(
        self,
        query: Query,
        terms: Sequence[str],
        most: int | None,
        limit: int,
        offset: int = 0,
        *,
        in_texts: Sequence[str],
    ) -> tuple[Counted, Passages, Matches]:
        """The terms counted, the best passages, and that page of memories; nothing is found where `most` texts or more
        hold a term: no more of them are looked at. `in_texts`: the marks of what the words may stand in."""
        kinds = None if query.types is None else [one.value for one in query.types]
        alike: dict[str, list[str]] = {}
        for term in terms:  # what has the same stem is one word
            alike.setdefault(_asked(query.space, term, in_texts), []).append(term)
        same = [*alike.values()]
        if limit and len(alike) == 1:
            limit = max(limit, _OF_ONE_WORD)
        asked = ";".join(alike)  # a list takes longer to send
        values = (asked, query.space, most, kinds, kinds, most, query.space, PASSAGES, limit, offset)
        counts, corpus, last_change = dict.fromkeys(terms, 0), Corpus(0, 0.0), 0
        passages, found = dict[int, tuple[int, float]](), list[tuple[Any, ...]]()
        for what, number, position, score, record, status in self._all(_FOUND, values):
            match what:
                case "term":
                    counts |= dict.fromkeys(same[number - 1], position)
                case "corpus":
                    corpus, last_change = Corpus(number, score), position
                case "passage":
                    passages[position] = max(passages.get(position, (0, 0.0)), (number, score), key=itemgetter(1))
                case _:
                    found.append((position, record, status, score))
        scores = {position: score for position, *_, score in found}
        read = sorted(rows.read_rows(found), key=lambda row: (-scores[row.position], -row.position))
        matches = tuple(Match(row, scores[row.position]) for row in read)
        counted = Counted(counts, corpus, last_change=last_change)
        return counted, passages, Matches(matches, at_end=len(found) < limit)


def _asked(space: str, asked: str, in_texts: Sequence[str]) -> str:
    """What finds the texts that hold a word or a piece; a text without either finds nothing."""
    if not has_unbroken(asked):
        ending, found = "", _tokens(asked)
    else:
        ending, found = "" if asked[1:] else ":*", {asked[at : at + 2] for at in range(max(len(asked) - 1, 1))}
    mark = digest(space)[:_MARK]
    expressions = (" & ".join(f"'{kind}{mark}{token}'{ending}" for token in sorted(found)) for kind in in_texts)
    return " | ".join(filter(None, expressions))


def _tokens(text: str) -> set[str]:
    found = {stem(word)[:_LONGEST] for word in words(without_marks(without_unbroken(text)))}
    if not text.isascii():
        found.update(_SYMBOL.findall(text))
        found.update(run[at : at + 2] for run in unbroken_runs(text.casefold()) for at in range(len(run)))
    return found - {""}
