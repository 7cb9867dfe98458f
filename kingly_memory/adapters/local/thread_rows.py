"""Reading what was said by contexts, and facets by their name."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import Line, Talk


class ThreadRows:
    """Implements ports.ThreadRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def version(self) -> tuple[int, int] | None:
        return self._connections.version()

    def talks(self, project: str, now_s: float) -> list[Talk]:
        found = self._connections.rows(sql.TALKS, (_own(project), now_s))
        return [
            Talk(context_id, memories, mark, _time_s(first), _time_s(last))
            for context_id, memories, mark, first, last in found
            if isinstance(context_id, str)
        ]

    def said(self, project: str, context_ids: Sequence[str], now_s: float, most: int) -> list[Line]:
        from kingly_memory.topics import READ

        if not context_ids:
            return []
        values = (_own(project), now_s, rows.contexts_expression(context_ids), READ, most)
        return [
            Line(context_id, title if isinstance(title, str) else "", text, _texts(tags))
            for context_id, title, text, tags in self._connections.rows(sql.SAID, values)
            if isinstance(context_id, str) and isinstance(text, str)
        ]

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


def _texts(said: object) -> tuple[str, ...]:
    """The texts in a JSON list."""
    found = json.loads(said) if isinstance(said, str) and said.startswith("[") else []
    return tuple(one for one in found if isinstance(one, str))


def _time_s(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except (ValueError, OverflowError):
        return math.inf


def _own(project: str) -> str:
    """How the tags of a project's live memories begin."""
    return rows.standing_token(Standing.LIVE) + rows.project_in_tag(project)
