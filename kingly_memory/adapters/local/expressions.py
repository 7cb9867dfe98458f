"""What the text index is asked: for words, and for scope, type, status and tags, which stand in it as tokens (`rows`);
and the same as conditions on the columns of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.rows import dump_text, status_token, token, type_token
from kingly_memory.models import MemoryStatus, MemoryType, Query
from kingly_memory.text.writing import has_unbroken

_METADATA = "json_extract(c.value, '$.metadata"
_COMPARED = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_EXACT = 2**53
"""Whole numbers below it are the same as floats."""
_TRIGRAM = 3
_IN_SCOPE = "instr(' ' || m.scope || ' ', ?) > 0"

# --- filters ----------------------------------------------------------------------------------------------------------


def match_expression(query: Query, also: str | None = None, statuses: Sequence[MemoryStatus] | None = None) -> str:
    """A MATCH expression for the query's scope and filters, and `also` another one.

    Standings are what it excludes: the index has few rows that are not live, and a list of nearly all would cost more
    than the words.
    """
    shown = query.statuses if statuses is None else statuses
    hidden = [status_token(status) for status in MemoryStatus if status not in shown]
    positive = " AND ".join([*map(in_scope, _scope(query)), *([also] if also else [])])
    return f"({positive}) NOT {in_scope(hidden)}" if hidden else positive


def column_conditions(query: Query) -> tuple[list[str], list[Any]]:
    """As conditions on km_memory what `match_expression` asks the index, with their values."""
    statuses, groups = query.statuses, _scope(query)
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


# --- words ------------------------------------------------------------------------------------------------------------

_LONGEST_WORD = 12
"""Characters of a word that is too short to be a digest, however many of its last ones the stemmer drops."""
_SCOPE_BEGINNINGS = frozenset(word[:2] for word in (*map(status_token, MemoryStatus), *map(type_token, MemoryType)))


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


# --- pieces -----------------------------------------------------------------------------------------------------------


def holding_pieces(query: Query, pieces: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Statements for what holds pieces, with their values. Of scripts without word breaks, what holds most of them
    first: among the latest, and by the piece index, which knows letters by threes, among all. Of anything else, such as
    emoji, what holds every one, by reading what the project holds, the latest first."""
    written = [one for piece in pieces for one in (dump_text(piece), piece)]  # as `sql.LITERAL_PIECE` asks for each
    fields, values = field_condition(query)
    if not all(map(has_unbroken, pieces)):
        conditions = " AND ".join(filter(None, [*[sql.LITERAL_PIECE] * len(pieces), fields]))
        yield sql.LITERAL.format(conditions=conditions), [match_expression(query), *written, *values]
        return
    columns, column_values = column_conditions(query)
    conditions, values = " AND ".join(filter(None, [*columns, fields])), [*column_values, *values]
    held = " + ".join([sql.HAS_PIECE] * len(pieces))
    yield sql.PIECES_HELD.format(held=held, conditions=conditions), [*written, *values]
    pairs = (
        piece + next_piece[-1]
        for piece, next_piece in pairwise(pieces)
        if len(piece) == len(next_piece) and piece[1:] == next_piece[:-1]
    )
    if long := [piece for piece in (*pieces, *pairs) if len(piece) >= _TRIGRAM]:
        yield sql.PIECES.format(conditions=conditions), [any_of(long), *values]
