"""Which thread somebody means, and which memories belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import shown
from kingly_memory.models import Query, Standing
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads import roots

PAGE = 200
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
