"""What a kept brief says that a thread is called and about, for whoever needs no more of it: a hook loads only this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader

COURSE = "course"
FORM = 1
"""Raised when briefs are worked out in another way: those of another form count as missing."""
TITLE, TOPICS = 9, 10
"""The places of these fields in a brief, see `courses.Course`."""


class Told(NamedTuple):
    title: str = ""
    topics: tuple[str, ...] = ()


def told(reader: StoreReader, project: str, owners: Iterable[str]) -> dict[str, Told]:
    """By owner, of those threads whose brief is kept. It may be a little behind."""
    return read_told(reader.facets(COURSE, list(dict.fromkeys(owners))), project)


def read_told(facets: Mapping[str, JsonObject], project: str) -> dict[str, Told]:
    """The same of briefs that have been read."""
    read = ((name, _told(facet, project)) for name, facet in facets.items())
    return {name: one for name, one in read if one is not None}


def _told(facet: JsonObject, project: str) -> Told | None:
    fields = facet.get(COURSE)
    if facet.get("project") != project or facet.get("form") != FORM or not isinstance(fields, list):
        return None
    title, topics = fields[TITLE : TOPICS + 1] if len(fields) > TOPICS else (None, None)
    if not isinstance(title, str) or not isinstance(topics, list):
        return None
    return Told(title, tuple(one for one in topics if isinstance(one, str)))
