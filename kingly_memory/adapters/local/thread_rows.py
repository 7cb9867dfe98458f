"""Reading what was said by contexts, and facets by their name."""

from __future__ import annotations

from collections.abc import Sequence

from kingly_memory.adapters.local import parsing, rows, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import Talk

_ROWS_SHARING = 200
"""Of the text index's best, whoever's: asked for the project's own alone it would take several times as long."""


class ThreadRows:
    """Implements ports.ThreadRows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def talks(self, project: str) -> list[Talk]:
        found = self._connections.rows(sql.TALKS, (1, _own(project)))
        return [Talk(context, count, mark or 0, last) for context, count, mark, last in found]

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

    def sharing(self, project: str, terms: Sequence[str], limit: int, deadline_s: float) -> list[Talk]:
        if not terms:
            return []
        found: list[Talk] = []
        with self._connections.until(deadline_s):
            raw = self._connections.rows(sql.SHARING, (rows.any_term(terms), _own(project), _ROWS_SHARING, limit))
            found += [Talk(str(context), int(count), 0, int(last)) for context, count, last in raw]
        return found


def _own(project: str) -> str:
    """How the tags of a project's live memories begin."""
    return rows.standing_token(Standing.LIVE) + rows.project_in_tag(project)
