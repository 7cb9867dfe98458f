"""How memories and facets are named and tagged in the store: row keys, scope tokens, match expressions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kingly_memory.adapters.local.sql import UNBROKEN
from kingly_memory.digests import sha256
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Standing
from kingly_memory.writing import has_unbroken

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_PASSAGE_BITS = 16
"""The longest text that a memory may have has some thousands of passages."""
_LONGEST_WORD = 12
"""Characters of a word that is too short to be a digest, however many of its last ones the stemmer drops."""
_SCOPE_BEGINNINGS = frozenset(
    word[:2] for word in (UNBROKEN, *(f"v{one.value}" for one in Standing), *(f"y{one.value}" for one in MemoryType))
)


# --- keys and values --------------------------------------------------------------------------------------------------


def memory_row(memory_id: str) -> str:
    return "m:" + memory_id


def facet_row(name: str, owner: str) -> str:
    return f"{name}:{owner}"


def passage_row(position: int, number: int) -> int:
    """The rowid of a passage of the memory at that position; `position_of` tells which that is."""
    return position << _PASSAGE_BITS | number


def position_of(passage: int) -> int:
    return passage >> _PASSAGE_BITS


def key_row(project: str, key: str) -> str:
    """Keys are digested: no text of a user's is ever part of a row name, and lengths stay small."""
    return "key:" + _digest(f"{len(project)}:{project}{key}", 40)


def dump(value: JsonObject) -> str:
    return _encoder.encode(value)


def dump_text(text: str) -> str:
    """How a text stands within a dumped value."""
    return _encoder.encode(text)[1:-1]


# --- tags -------------------------------------------------------------------------------------------------------------


def tokens(memory: Memory, standing: Standing) -> str:
    """The tag of a memory row: its standing first, then its scope, type and tags, each as one index token.

    Digested, because the stemmer of the index would match `app` with `apps`.
    """
    scope = memory.scope
    found = [standing_token(standing), project_token(scope.project)]
    if scope.agent is not None:
        found.append(_agent(scope.agent))
    if scope.context_id is not None:
        found.append(_context(scope.context_id))
    found += [type_token(memory.type), *map(_tag, memory.tags)]
    return " ".join([*found, UNBROKEN] if has_unbroken(memory.content) else found)


def counted_as(tag: object) -> tuple[str, str] | None:
    """Under which project and name `counts` counts a row with that tag, if it does."""
    found = tag.split() if isinstance(tag, str) else []
    if len(found) > 1 and found[0] == standing_token(Standing.ARCHIVED):
        return found[1], "archived"
    if len(found) > 1 and found[0] == standing_token(Standing.LIVE):
        return found[1], next((token[1:] for token in found if token.startswith("y")), "")
    return None


def project_token(project: str) -> str:
    return "p" + _digest(project)


def project_in_tag(project: str) -> str:
    """How the project's token stands in the tag of a memory row."""
    return f" {project_token(project)} "


def live_in_tag(project: str) -> str:
    """How the tag of a live memory row of the project begins."""
    return f"{standing_token(Standing.LIVE)} {project_token(project)} "


def type_in_tag(kind: MemoryType) -> str:
    """How the type's token stands in the tag of a memory row that is followed by a space."""
    return f" {type_token(kind)} "


def context_digest(context_id: str) -> str:
    """What the index of contexts knows a context by."""
    return _digest(context_id)


def type_token(kind: MemoryType) -> str:
    return "y" + kind.value


def standing_token(standing: Standing) -> str:
    return "v" + standing.value


# --- match expressions ------------------------------------------------------------------------------------------------


def readable(query: Query) -> tuple[Standing, ...]:
    shown = (Standing.LIVE, Standing.CACHED)
    return (*shown, Standing.ARCHIVED) if query.include_archived else shown


def match_expression(query: Query, also: str | None = None, standings: Sequence[Standing] | None = None) -> str:
    """A MATCH expression for the query's scope and filters, and `also` another one.

    Standings are what it excludes: the index has few rows that are not live, and a list of nearly all would cost more
    than the words.
    """
    wanted: list[Iterable[str]] = [[project_token(query.project)]]
    if query.types is not None:
        wanted.append(map(type_token, query.types))
    if query.agent is not None:
        wanted.append([_agent(query.agent)])
    if query.context_id is not None:
        wanted.append([_context(query.context_id)])
    wanted.extend([_tag(tag)] for tag in query.tags or ())
    shown = readable(query) if standings is None else standings
    hidden = [standing_token(standing) for standing in Standing if standing not in shown]
    positive = " AND ".join([*map(_any_token, wanted), *([also] if also else [])])
    return f"({positive}) NOT {_any_token(hidden)}" if hidden else positive


def passages_expression(query: Query, terms: Sequence[str]) -> str:
    """Passages of what passes the query's filters that hold at least one of the terms."""
    return match_expression(query, f"body : ({' OR '.join(map(_quoted, terms))})")


def contexts_expression(context_ids: Iterable[str]) -> str:
    """Everything with a context of one of those names, in whatever project."""
    return _any_token(map(_context, context_ids))


def project_expression(project: str) -> str:
    return f"scope : {_quoted(project_token(project))}"


def any_term(terms: Sequence[str]) -> str:
    """Rows that hold at least one of the terms. Terms are quoted, so none can act as an operator or name a column.

    To look into columns costs a third more than to look into all: that is left to terms which a scope token might be
    taken for.
    """
    words = f"({' OR '.join(map(_quoted, terms))})"
    return f"{{title body labels}} : {words}" if any(map(_may_be_scope, terms)) else words


def any_word(words: Sequence[str]) -> str:
    """Rows of an index without columns for scopes that hold at least one of the words."""
    return " OR ".join(map(_quoted, words))


def all_terms(terms: Sequence[str]) -> str:
    """Rows that hold every one of the terms."""
    return f"{{title body labels}} : ({' AND '.join(map(_quoted, terms))})"


def all_pieces(pieces: Sequence[str]) -> str:
    """Rows that hold every one of the pieces, each of three characters or more."""
    return " AND ".join(map(_quoted, pieces))


def _may_be_scope(term: str) -> bool:
    """Whether the index, which drops endings and accents, might take the word for a scope token."""
    return len(term) > _LONGEST_WORD or not term.isascii() or term[:2].lower() in _SCOPE_BEGINNINGS


def _any_token(tokens: Iterable[str]) -> str:
    return f"scope : ({' OR '.join(map(_quoted, tokens))})"


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'


def _agent(agent: str) -> str:
    return "a" + _digest(agent)


def _context(context_id: str) -> str:
    return "c" + _digest(context_id)


def _tag(tag: str) -> str:
    return "g" + _digest(tag)


@lru_cache(maxsize=512)
def _digest(text: str, length: int = 20) -> str:
    return sha256(text.encode()).hexdigest()[:length]
