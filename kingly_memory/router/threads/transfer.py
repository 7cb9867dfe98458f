"""Import and export of threads: messages of a file become memories, and what else the file says lies beside the thread.

What a file says of its thread counts when the thread is new here. A later import only adds messages, or revises them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kingly_memory.attention import drift
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, derived_id
from kingly_memory.imported import FROM_FILE, ExportedThread, ImportedFocus, ImportedThread
from kingly_memory.models import KEPT, JsonObject, Origin, Query, Standing, Taken
from kingly_memory.ports import Row, StoreReader, Transaction
from kingly_memory.router import lifetimes, write
from kingly_memory.router.access import Access
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS, THREAD, Named, into, number, texts
from kingly_memory.router.threads import reading
from kingly_memory.router.view import pages
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import Imported

FOCUS = "focus"
IMPORTED = "imported"
"""In the facet `thread`: a file brought the thread."""
_AT_ONCE = 200
_MOST_TURNS = 1_000


# --- import -----------------------------------------------------------------------------------------------------------


async def import_thread(thread: ImportedThread, access: Access) -> Taken:
    """Import a thread. Raises InvalidInput, and then nothing was stored."""
    fates: Counter[str] = Counter()
    is_new: bool | None = None
    for first in range(0, len(thread.memories), _AT_ONCE):
        items = thread.memories[first : first + _AT_ONCE]
        is_new, some = await access.write(_store(thread, items, access.write_context(), is_new))
        fates.update(some)
        access.wake()
    return Taken(**fates)


async def import_focus(focus: ImportedFocus, access: Access) -> bool:
    """Put into focus what a file says, unless the project ever had a focus here. False when nothing was changed."""
    name = whose_focus(access.space)

    def change(transaction: Transaction) -> bool:
        if transaction.facet(FOCUS, name) is not None:
            return False
        transaction.set_facet(FOCUS, name, focus.focus)
        return True

    return await access.write(change)


def _store(
    thread: ImportedThread, items: Sequence[Imported], context: WriteContext, is_new: bool | None
) -> Callable[[Transaction], tuple[bool, list[str]]]:
    """Store some memories of a thread. The first ones (`is_new` is None) tell whether the thread is new here, and with
    them is stored what the file says of it. Answers that, and what became of each memory. Raises InvalidInput."""

    def change(transaction: Transaction) -> tuple[bool, list[str]]:
        ids = [_memory_id(transaction, item, context.space) for item in items]
        rows = [transaction.row(one) for one in ids]
        is_first, fates = is_new, list[str]()
        if is_first is None:  # what was forgotten is known too: nothing that was said of it comes back
            is_said = not thread.is_alone and transaction.is_said_in(context.space, thread.id)
            is_first = not is_said and not any(rows)
            if is_first:
                _set_facets(transaction, thread, ids[0], context)
        for item, memory_id, row in zip(items, ids, rows, strict=True):
            if row is not None and row.memory.content == item.draft.content:
                fates.append("stays_away" if row.standing is Standing.FORGOTTEN else "unchanged")
            elif row is not None and row.is_tombstone:
                fates.append("stays_away")
            elif row is not None and row.memory.origin is not Origin.IMPORT:
                fates.append("kept")
            else:
                [(_, fate)] = write.import_all([replace(item, id=memory_id)], context)(transaction)
                fates.append(fate)
            if is_first and item.id in thread.pinned:
                transaction.set_facet(ATTENTION, memory_id, thread.facets.get(ATTENTION))
                lifetimes.stop(transaction, memory_id)
        return is_first, fates

    return change


def _memory_id(transaction: Transaction, item: Imported, space: str) -> MemoryId:
    """The id that a message has, or will have, as a memory of this project. An id that another project's memory has,
    or one with another text in another context, is not taken from it."""
    memory_id, context_id = MemoryId(str(item.id)), item.draft.context_id
    for _ in range(_MOST_TURNS):
        row = transaction.row(memory_id)
        if row is None:
            return memory_id
        if row.memory.scope.space != space:
            memory_id = derived_id(memory_id, space)
        elif item.draft.content == row.memory.content or context_id == row.memory.scope.context_id:
            return memory_id
        else:
            memory_id = derived_id(memory_id, context_id or "")
    raise InvalidInput("memory_id", f"{item.id} and all that follows from it is taken by other memories")


def _set_facets(transaction: Transaction, thread: ImportedThread, first_id: MemoryId, context: WriteContext) -> None:
    """What the file says. It is not merged into a thread that was begun here."""
    space, target = context.space, thread.into
    whose = first_id if thread.is_alone else owner(space, thread.id)
    facets = {name: dict(thread.facets.get(name) or {}) for name in FROM_FILE}
    facets[THREAD][IMPORTED] = True
    if target is not None:
        other = transaction.facet(THREAD, owner(space, target)) or {}
        above, is_ours = target, False
        for _ in range(_MOST_TURNS):
            if above == thread.id:
                raise InvalidInput("merged_into", f"{target!r} goes on as this thread in the end")
            facet = transaction.facet(THREAD, owner(space, above)) or {}
            is_ours |= transaction.is_said_in(space, above) and not facet.get(IMPORTED)
            if (next_one := into(facet)) is None:
                break
            above = next_one
        if is_ours:
            del facets[THREAD]["into"]
        else:
            held = [*(one for one in texts(other, "holds") if one != thread.id), thread.id]
            transaction.set_facet(THREAD, owner(space, target), {**other, "context_id": target, "holds": held})
    for name, facet in facets.items():
        before = transaction.facet(name, whose) or {}  # a thread that was merged into this one was imported first
        transaction.set_facet(name, whose, {**facet, **before} or None)


# --- export -----------------------------------------------------------------------------------------------------------


def exported_threads(reader: StoreReader, space: str) -> Iterator[ExportedThread]:
    """Every thread of the project, archived and merged ones too: each with what was said in its own context, in the
    order in which they were begun here."""
    contexts: dict[tuple[str, bool], list[MemoryId]] = {}
    for row in pages(reader, Query("", space)):
        context_id = row.memory.scope.context_id
        contexts.setdefault((context_id or row.memory.id, context_id is None), []).append(row.memory.id)
    for (thread_id, is_alone), memory_ids in contexts.items():
        thread = Named(thread_id, thread_id if is_alone else owner(space, thread_id), is_alone)
        yield _exported(reader, space, thread, [found for one in memory_ids if (found := reader.row(one)) is not None])


def exported_focus(reader: StoreReader, space: str) -> JsonObject | None:
    """What the project has in focus; None when it never had a focus."""
    name = whose_focus(space)
    return reader.facets(FOCUS, [name]).get(name)


def _exported(reader: StoreReader, space: str, thread: Named, rows: Sequence[Row]) -> ExportedThread:
    rows = [row for row in rows if row.standing in KEPT]
    facets = {
        name: found[thread.owner]
        for name, found in reader.facets_of({key: [thread.owner] for key in FROM_FILE}).items()
        if thread.owner in found
    }
    said = [reading.line(row.memory, thread.id) for row in rows]
    archived_at = number(facets.get(THREAD, {}), "archived_at")
    # What has ended is live until a sweep sees to it.
    live = (one for one in Subjects(reader, space).of(rows) if one.standing is Standing.LIVE)
    return ExportedThread(
        thread.id,
        tuple((row.memory, row.standing) for row in rows),
        facets,
        reading.title(thread.id, said) if said else thread.id,
        reading.topics_of(said[-reading.READ_MOST :])[: reading.MOST_TOPICS],
        drift.history(said[-reading.VIEW_DRIFT_MOST :]),
        relevance(Ratings.from_json(facets.get(RATINGS))),
        any(reading.is_in_use(one, archived_at) for one in live),
        thread.is_alone,
    )
