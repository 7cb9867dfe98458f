"""Which thread somebody means, and which memories belong to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import nsmallest
from typing import NamedTuple

from kingly_memory.attention.focus import folded
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import shown
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads import roots

PAGE = 200
AT_ONCE = 1_000
MOST_TITLED = 100
"""Threads with a title like the one that is looked for: so many are put in order."""
_THERE = (Standing.LIVE, Standing.ARCHIVED)


class Named(NamedTuple):
    """A thread, and the `owner` of its facets. `is_alone`: it is one memory, which was said in no context."""

    id: str
    owner: str
    is_alone: bool = False


def named(reader: StoreReader, project: str, said: str) -> Named:
    """The thread of that id or what it goes on as, else the thread of the memory under that key or id. Raises
    InvalidInput."""
    if roots.is_thread(reader, project, said):
        return of_context(reader, project, said)
    row = reader.row(reader.id_of_key(project, said) or said)
    if row is None or row.standing not in _THERE or row.memory.scope.project != project:
        raise InvalidInput("thread_id", f"there is no thread {shown(said)!r} in this project, and no such memory")
    context_id = row.memory.scope.context_id
    if context_id is None:
        return Named(row.memory.id, row.memory.id, is_alone=True)
    return of_context(reader, project, context_id)


def of_context(reader: StoreReader, project: str, context_id: str) -> Named:
    """The thread that a context goes on as."""
    thread_id = roots.root(context_id, roots.threads(reader, project, [context_id]))
    return Named(thread_id, owner(project, thread_id))


def titled(reader: StoreReader, project: str, topic: str) -> list[Named]:
    """The threads that somebody has called that, then those in whose given titles a word begins with it; the latest
    first. Reads what was said of threads, and of their memories only the last one of each that is found."""
    ranks: dict[Named, int] = {}
    for rank, whose, facet in nsmallest(MOST_TITLED, _like(reader, topic), key=lambda like: like[0]):
        thread = _owning(reader, project, whose, facet)
        if thread is not None:
            ranks.setdefault(thread, rank)
    last = {one: _last(reader, project, one) for one in ranks}
    return sorted((one for one in ranks if last[one]), key=lambda one: (ranks[one], -last[one]))


def memories(reader: StoreReader, project: str, thread: Named) -> Iterator[list[MemoryId]]:
    """The thread's memories, archived ones too, a page at a time."""
    if thread.is_alone:
        yield [MemoryId(thread.id)]
        return
    for context_id in roots.members(reader, project, thread.id):
        query, start = Query("", project, context_id=context_id), None
        while rows := reader.page(query, _THERE, PAGE, start):
            yield [row.memory.id for row in rows]
            start = rows[-1].position


def _like(reader: StoreReader, topic: str) -> Iterator[tuple[int, str, JsonObject]]:
    """What was said of threads of all projects with such a title, and whose it is; those called just that have 0."""
    wanted = _one_line(topic)
    before = r"(?<!\w)" if wanted[:1].isascii() else ""  # some scripts have no breaks between words
    beginning = re.compile(before + re.escape(wanted))
    after = ""
    while page := reader.threads.named(roots.THREAD, AT_ONCE, after):
        for whose, facet in page:
            title = _one_line(roots.text(facet, "title") or "")
            if beginning.search(title):
                yield int(title != wanted), whose, facet
        after = page[-1][0]


def _owning(reader: StoreReader, project: str, whose: str, facet: JsonObject) -> Named | None:
    """The thread of which that was said; None for one of another project."""
    context_id = roots.text(facet, "context_id")
    if context_id is not None:
        return of_context(reader, project, context_id) if owner(project, context_id) == whose else None
    row = reader.row(whose)
    if row is None or row.memory.scope.project != project or row.memory.scope.context_id is not None:
        return None
    return Named(row.memory.id, row.memory.id, is_alone=True)


def _last(reader: StoreReader, project: str, thread: Named) -> int:
    """Where the latest memory of the thread stands; 0 when none is left."""
    if thread.is_alone:
        row = reader.row(thread.id)
        return 0 if row is None or row.standing not in _THERE else row.position
    queries = (Query("", project, context_id=one) for one in roots.members(reader, project, thread.id))
    return max((row.position for query in queries for row in reader.page(query, _THERE, 1, None)), default=0)


def _one_line(text: str) -> str:
    return " ".join(folded(text).split())
