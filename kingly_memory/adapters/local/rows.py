"""How memories and facets are named and tagged in the store: row keys, scope tokens, match expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from kingly_memory.adapters.local.sql import UNBROKEN
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Scope, Standing
from kingly_memory.writing import has_unbroken

SEARCHED = "{title body labels}"
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_DIGEST = 20
_LONGEST_WORD = 12
"""Characters of a word that is too short to be a digest, however many of its last ones the stemmer drops."""
_SCOPE_BEGINNINGS = frozenset(
    word[:2] for word in (UNBROKEN, *(f"v{one.value}" for one in Standing), *(f"y{one.value}" for one in MemoryType))
)
_READABLE = (Standing.LIVE, Standing.CACHED)


def memory_row(memory_id: str) -> str:
    return "m:" + memory_id


def facet_row(name: str, owner: str) -> str:
    return f"{name}:{owner}"


def key_row(project: str, key: str) -> str:
    """Keys are digested: no text of a user's is ever part of a row name, and lengths stay small."""
    return "key:" + _digest(f"{len(project)}:{project}{key}", 40)


def dump(value: JsonObject) -> str:
    return _encoder.encode(value)


def dump_text(text: str) -> str:
    """How a text stands within a dumped value."""
    return _encoder.encode(text)[1:-1]


def tokens(memory: Memory, standing: Standing) -> str:
    """The tag of a memory row: its standing first, then its scope, type and tags, each as one index token.

    Digested, because the stemmer of the index would match `app` with `apps`.
    """
    unbroken = [UNBROKEN] if has_unbroken(memory.content) else []
    tags = map(_tag, memory.tags)
    return " ".join([_standing(standing), *_scope(memory.scope), _type(memory.type), *tags, *unbroken])


def match_expression(query: Query, also: str | None = None, standings: Sequence[Standing] | None = None) -> str:
    """A MATCH expression for the query's scope and filters, and `also` another one.

    Standings are what it excludes: the index has few rows that are not live, and a list of nearly all would cost more
    than the words.
    """
    wanted: list[Iterable[str]] = [[_project(query.project)]]
    if query.types is not None:
        wanted.append(map(_type, query.types))
    if query.agent is not None:
        wanted.append([_agent(query.agent)])
    if query.context_id is not None:
        wanted.append([_context(query.context_id)])
    wanted.extend([_tag(tag)] for tag in query.tags or ())
    shown = readable(query) if standings is None else standings
    hidden = [_standing(standing) for standing in Standing if standing not in shown]
    positive = " AND ".join([*map(_any_token, wanted), *([also] if also else [])])
    return f"({positive}) NOT {_any_token(hidden)}" if hidden else positive


def said_expression(query: Query, context_id: str) -> str:
    """What was said in a context of the query's project and may be shown."""
    said = Query("", query.project, types=(MemoryType.EPISODIC,), context_id=context_id)
    return match_expression(said, standings=readable(query))


def context_expression(context_id: str) -> str:
    """Everything with a context of that name, in whatever project: a fifth of the cost of `said_expression`."""
    return f"scope : {_quoted(_context(context_id))}"


def contexts_expression(context_ids: Iterable[str]) -> str:
    """Everything with a context of one of those names, in whatever project."""
    return _any_token(map(_context, context_ids))


def context_in_tag(context_id: str) -> str:
    """How the context's token stands in the tag of a memory row."""
    return f" {_context(context_id)} "


def said_in_tag(query: Query) -> tuple[str, str, str]:
    """What the tag of an episodic memory of the query's project holds, followed by a space, and the standings that may
    come first in it."""
    standings = "".join(f" {_standing(standing)}" for standing in readable(query))
    return project_in_tag(query.project), f" {_type(MemoryType.EPISODIC)} ", f"{standings} "


def said_tag(query: Query) -> re.Pattern[str]:
    """Matches the tag of those rows of a context that `said_expression` finds."""
    standings = "|".join(map(_standing, readable(query)))
    return re.compile(rf"(?:{standings}) {_project(query.project)} (?:.* )?{_type(MemoryType.EPISODIC)}(?: |$)")


def project_expression(project: str) -> str:
    return f"scope : {_quoted(_project(project))}"


def project_in_tag(project: str) -> str:
    """How the project's token stands in the tag of a memory row."""
    return f" {_project(project)} "


def live_in_tag(project: str) -> str:
    """How the tag of a live memory row of the project begins."""
    return f"{_standing(Standing.LIVE)} {_project(project)} "


def type_in_tag(kind: MemoryType) -> str:
    """How the type's token stands in the tag of a memory row that is followed by a space."""
    return f" {_type(kind)} "


def counted_expression(project: str, *tokens: str) -> str:
    return " AND ".join([project_expression(project), *(f"scope : {_quoted(token)}" for token in tokens)])


def type_token(kind: MemoryType) -> str:
    return _type(kind)


def standing_token(standing: Standing) -> str:
    return _standing(standing)


def any_term(terms: Sequence[str]) -> str:
    """Rows that hold at least one of the terms. Terms are quoted, so none can act as an operator or name a column.

    To look into columns costs a third more than to look into all: that is left to terms which a scope token might be
    taken for.
    """
    words = f"({' OR '.join(map(_quoted, terms))})"
    return f"{SEARCHED} : {words}" if any(map(_may_be_scope, terms)) else words


def all_terms(terms: Sequence[str]) -> str:
    """Rows that hold every one of the terms."""
    return f"{SEARCHED} : ({' AND '.join(map(_quoted, terms))})"


def all_pieces(pieces: Sequence[str]) -> str:
    """Rows that hold every one of the pieces, each of three characters or more."""
    return " AND ".join(map(_quoted, pieces))


def readable(query: Query) -> tuple[Standing, ...]:
    return (*_READABLE, Standing.ARCHIVED) if query.include_archived else _READABLE


def _may_be_scope(term: str) -> bool:
    """Whether the index, which drops endings and accents, might take the word for a scope token."""
    return len(term) > _LONGEST_WORD or not term.isascii() or term[:2].lower() in _SCOPE_BEGINNINGS


def _any_token(tokens: Iterable[str]) -> str:
    return f"scope : ({' OR '.join(map(_quoted, tokens))})"


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'


def _scope(scope: Scope) -> list[str]:
    parts = [_project(scope.project)]
    if scope.agent is not None:
        parts.append(_agent(scope.agent))
    if scope.context_id is not None:
        parts.append(_context(scope.context_id))
    return parts


def _standing(standing: Standing) -> str:
    return "v" + standing.value


def _type(kind: MemoryType) -> str:
    return "y" + kind.value


def _project(project: str) -> str:
    return "p" + _digest(project)


def _agent(agent: str) -> str:
    return "a" + _digest(agent)


def _context(context_id: str) -> str:
    return "c" + _digest(context_id)


def _tag(tag: str) -> str:
    return "g" + _digest(tag)


@lru_cache(maxsize=512)
def _digest(text: str, length: int = _DIGEST) -> str:
    return sha256(text.encode()).hexdigest()[:length]
