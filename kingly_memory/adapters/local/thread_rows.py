"""Reading what was said by contexts, and facets by their name."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import Seen, Talk

_ROWS_SHARING = 200
"""Of the text index's best, whoever's: asked for the project's own alone it would take several times as long."""
_MOST_WRITTEN = 100
"""Contexts that are looked at one by one; when there are more, all are."""
_DIGEST = 32
"""Hexadecimal digits: no two states of a store have them in common."""
_LATE_S = 5.0
"""A row may be committed so long after the time that it bears."""


class _Known(NamedTuple):
    """As ports.Seen, the contexts by their names. `sums` is what they add up to."""

    talks: Mapping[str, Talk]
    since_s: float
    state: str
    sums: tuple[int, int]


class ThreadRows:
    """Implements ports.ThreadRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: dict[str, _Known] = {}

    def version(self) -> tuple[int, int] | None:
        return self._connections.version()

    def talks(self, project: str) -> list[Talk]:
        now_s, known = time.time(), self._known.get(project)
        index = self._index()  # before the talks, so that it is never newer
        if known is not None and known.state == _state(index, known.sums) != "":
            self._known = {project: known._replace(since_s=now_s - _LATE_S)}
            return list(known.talks.values())
        talks = None if known is None else self._gone_on(known, project)
        if talks is None:
            talks = {row[0]: Talk._make(row) for row in self._connections.rows(sql.TALKS, (1, _own(project)))}
        sums = _sums(talks)
        self._known = {project: _Known(talks, now_s - _LATE_S, _state(index, sums), sums)}
        return list(talks.values())

    def talked_last(self, project: str) -> dict[str, float]:
        found = self._connections.rows(sql.TALKED_LAST, (1, _own(project)))
        return {context: _time_s(said) for context, said in found}

    def seen(self, project: str) -> Seen | None:
        known = self._known.get(project)
        return None if known is None else Seen(tuple(known.talks.values()), known.since_s, known.state)

    def go_on(self, project: str, seen: Seen) -> None:
        if project not in self._known:
            talks = {talk.context: talk for talk in seen.talks}
            self._known = {project: _Known(talks, seen.since_s, seen.state, _sums(talks))}

    def _index(self) -> bytes:
        """Another one after whatever is done to any memory of the store, and in another file; empty where that cannot
        be told."""
        records = [block for row in self._connections.rows(sql.STATE, ()) for block in row]
        return repr((self._connections.file(), records)).encode() if records and None not in records else b""

    def _gone_on(self, known: _Known, project: str) -> dict[str, Talk] | None:
        """What is known with what was written since; None where that does not add up, as when something was erased."""
        [(count, mark, written)] = self._connections.rows(sql.TALKED, (1, _own(project), known.since_s)) or [(0, 0, "")]
        contexts = set(written.split(",") if written else ())
        if len(contexts) > _MOST_WRITTEN:
            return None
        talks = {context: talk for context, talk in known.talks.items() if context not in contexts}
        if contexts:
            values = (1, _own(project), rows.any_context(contexts))
            found = map(Talk._make, self._connections.rows(sql.TALKS_OF, values))
            talks |= {talk.context: talk for talk in found if talk.context in contexts}
        return talks if _sums(talks) == (count, mark) else None

    def named(self, facet: str, limit: int, after: str = "") -> list[tuple[str, JsonObject]]:
        prefix, beyond = rows.facet_row(facet, ""), after
        found: list[tuple[str, JsonObject]] = []
        while not found:
            raw = self._connections.rows(sql.NAMED, (prefix + beyond, facet + ";", limit))
            parsed = ((key[len(prefix) :], parsing.facet(facet, value)) for key, value in raw)
            found += [(owner, value) for owner, value in parsed if value is not None]
            if len(raw) < limit:
                break
            beyond = raw[-1][0][len(prefix) :]
        return found

    def owners(self, facet: str, beginning: str = "") -> list[str]:
        return [owner for (owner,) in self._connections.rows(sql.OWNERS, rows.owners_within(facet, beginning))]

    def together(self, facet: str, beginning: str, limit: int) -> Iterator[JsonObject | None]:
        found = self._connections.rows(sql.NAMED, (*rows.facets_within(facet, beginning), limit))
        return (parsing.facet(facet, value) for _, value in found)

    def spread(self, terms: Sequence[str], most: int) -> dict[str, int]:
        asked = json.dumps([rows.any_term([term]) for term in terms])
        return {terms[at]: count for at, count in self._connections.rows(sql.SPREAD, (asked, most))} if terms else {}

    def sharing(self, project: str, terms: Sequence[str], limit: int, deadline_s: float) -> list[Talk]:
        if not terms:
            return []
        found: list[Talk] = []
        with self._connections.until(deadline_s):
            raw = self._connections.rows(sql.SHARING, (rows.any_term(terms), _own(project), _ROWS_SHARING, limit))
            found += [Talk(str(context), int(count), 0, int(last)) for context, count, last in raw]
        return found


def _sums(talks: Mapping[str, Talk]) -> tuple[int, int]:
    return sum([talk.memories for talk in talks.values()]), sum([talk.mark for talk in talks.values()])


def _state(index: bytes, sums: tuple[int, int]) -> str:
    """Of what was seen when the index was like that: with what it adds up to, so that no other is taken for it."""
    return sha256(index + repr(sums).encode()).hexdigest()[:_DIGEST] if index else ""


def _time_s(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except (ValueError, OverflowError):
        return math.inf


def _own(project: str) -> str:
    """How the tags of a project's live memories begin."""
    return rows.standing_token(Standing.LIVE) + rows.project_in_tag(project)
