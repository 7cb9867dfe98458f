"""How many threads a focus lifts, as far as there is time to look: the index is asked, never every thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kingly_memory.attention.focus import Focus
from kingly_memory.attention.threads import Thread
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.attending.focuses import naming
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.views import threads_of
from kingly_memory.writing import has_unbroken, words

MOST = 100
"""Threads that are counted."""
LOOK_S = 0.02
PAGE = 100
AT_ONCE = 500
LONGER = 12
"""Characters by which a word may be longer than the last one of a topic, which is part of it in a title."""
PER_LENGTH, MOST_WORDS = 4, 24


class Affected(NamedTuple):
    """`more`: so many were found, and there may be others."""

    threads: int
    more: bool = False


def count(reader: StoreReader, project: str, one: Focus, facet_owners: Sequence[str], now_s: float) -> Affected:
    """The project's threads that the focus lifts. `facet_owners` are those that have a facet of their own."""
    deadline_s = time.monotonic() + LOOK_S
    one = naming(reader, project, one)
    search = _Search(reader, project, one, now_s)
    search.see_facets(facet_owners)
    search.see_named()
    is_all = search.see_worded(deadline_s)
    return Affected(min(len(search.found), MOST), more=len(search.found) > MOST or not is_all)


class _Search:
    def __init__(self, reader: StoreReader, project: str, one: Focus, now_s: float) -> None:
        self._reader = reader
        self._project = project
        self._focus = one
        self._now_s = now_s
        self.found: set[str] = set()

    def see_facets(self, owners: Sequence[str]) -> None:
        """Threads that were given a title or topics of their own."""
        for first in range(0, len(owners), AT_ONCE):
            for name, facet in self._reader.facets(roots.THREAD, owners[first : first + AT_ONCE]).items():
                said = Thread("", roots.text(facet, "title") or "", roots.texts(facet, "topics"))
                if roots.into(facet) is None and len(self.found) <= MOST and self._focus.lifts(said):
                    self._see(self._first_of(name, roots.text(facet, "context_id")))

    def _first_of(self, name: str, context_id: str | None) -> list[Row]:
        """A memory of the thread whose facets have that owner, if it is one of this project."""
        if context_id is None:
            return self._row(name)
        if owner(self._project, context_id) != name:
            return []
        return self._reader.page(Query("", self._project, context_id=context_id), [Standing.LIVE], 1, None)

    def _row(self, memory_id: str) -> list[Row]:
        row = self._reader.row(memory_id)
        return [row] if row is not None and row.memory.scope.project == self._project else []

    def see_named(self) -> None:
        """The thread or memory that it is a name of."""
        name = self._focus.thread or self._focus.topic
        query = Query("", self._project, context_id=name)
        found = [*self._reader.page(query, [Standing.LIVE], 1, None), *self._row(name)]
        for context_id in roots.members(self._reader, self._project, name) if not found else ():
            found += self._reader.page(replace(query, context_id=context_id), [Standing.LIVE], 1, None)
        self._see(found)

    def see_worded(self, deadline_s: float) -> bool:
        """Those with the topic in a title or among the tags. False when there was no time for all that may be."""
        terms, offset = list(self._terms()), 0
        query = Query(self._focus.topic, self._project)
        if has_unbroken(self._focus.topic):
            pieces = self._reader.containing(query, [self._focus.topic], PAGE, deadline_s)
            self._see([match.row for match in pieces.found])
        while terms:
            page = self._reader.matches(query, terms, PAGE, offset, deadline_s)
            self._see([match.row for match in page.found])
            if len(page.found) < PAGE and not page.cut:
                return True
            if len(self.found) > MOST or page.cut or time.monotonic() >= deadline_s:
                return False
            offset += PAGE
        return True

    def _terms(self) -> Iterator[str]:
        """The topic's words, and those that the last of them begins."""
        said = words(self._focus.topic)
        yield from dict.fromkeys(said[:MOST_WORDS])
        for length in range(len(said[-1]) + 1, len(said[-1]) + LONGER + 1) if said else ():
            yield from self._reader.vocabulary(length, PER_LENGTH, said[-1])

    def _see(self, rows: Sequence[Row]) -> None:
        """Count the threads of those that are alive."""
        live = [row.memory for row in rows if row.standing is Standing.LIVE]
        if not live:
            return
        threads = threads_of(self._reader, self._project, live, self._now_s, about=[self._focus.topic])
        lifted = [one.id for one in live if self._focus.lifts(threads[one.id])]
        ends = self._reader.facets("lifetime", lifted) if lifted else {}
        self.found |= {threads[one].id for one in lifted if not _is_over(ends.get(one), self._now_s)}


def _is_over(facet: Mapping[str, Any] | None, now_s: float) -> bool:
    return facet is not None and is_expired(Lifetime.from_json(facet), now_s)
