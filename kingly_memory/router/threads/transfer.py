"""Import and export of threads: messages of a file become memories, and what else the file says lies beside the thread.

What was changed here since the last import stays; importing the same file again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

from kingly_memory import validation
from kingly_memory.attention.pins import is_pinned
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import current_owner, owner
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, derived_id
from kingly_memory.models import JsonObject, Origin, Query, Standing, Taken
from kingly_memory.ports import Row, StoreReader, Transaction
from kingly_memory.router import lifetimes, thread_lookup, write
from kingly_memory.router.access import Access
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS, THREAD, VISIBLE, Named, into, number, text, texts
from kingly_memory.router.threads import reading
from kingly_memory.router.view import pages
from kingly_memory.router.write import WriteContext
from kingly_memory.thread_files import FILE, FROM_FILE, ExportedThread, ImportedFocus, ImportedThread
from kingly_memory.validation import Imported

FOCUS = "focus"
_AT_ONCE = 200
_MOST_TURNS = 1_000
_LONG_AGO = datetime.fromtimestamp(0, UTC)


# --- import -----------------------------------------------------------------------------------------------------------


async def import_thread(thread: ImportedThread, access: Access) -> Taken:
    """Import a thread; of one that was begun here, only its messages. Raises InvalidInput, and then nothing was
    stored."""
    project = access.write_context().project
    admitted = await access.read(lambda: _admitted(access.reader, thread, project))
    fates: Counter[str] = Counter()
    is_newly_pinned: bool | None = None
    for first in range(0, len(admitted.memories), _AT_ONCE):
        items = admitted.memories[first : first + _AT_ONCE]
        change = _store(admitted, items, access.write_context(), is_newly_pinned)
        is_newly_pinned, some = await access.write(change)
        fates.update(some)
        access.wake()
    return Taken(**fates)


async def import_focus(focus: ImportedFocus, access: Access) -> bool:
    """Put into focus what a file says, unless the focus was set here later, or the file's times cannot be believed.
    False when nothing was changed."""
    context = access.write_context()

    def change(transaction: Transaction) -> bool:
        name = current_owner(context.project, context.agent)
        before = transaction.facet(FOCUS, name)
        if before is not None and (focus.ahead or _set_at(focus.focus) <= _set_at(before)):
            return False
        transaction.set_facet(FOCUS, name, focus.focus)
        return True

    return await access.write(change)


def _store(
    thread: ImportedThread, items: Sequence[Imported], context: WriteContext, is_newly_pinned: bool | None
) -> Callable[[Transaction], tuple[bool, list[str]]]:
    """Store some memories of a thread; the first ones (`is_newly_pinned` is None) with what else its file says. Answers
    whether the file pins the thread and did not before, and what became of each memory. Raises InvalidInput when the
    file would merge threads in a circle."""

    def change(transaction: Transaction) -> tuple[bool, list[str]]:
        is_pinned = _set_facets(transaction, thread, items, context) if is_newly_pinned is None else is_newly_pinned
        fates = []
        for item in items:
            memory_id = _memory_id(transaction.row, item, context.project)
            row = transaction.row(memory_id)
            fate = "kept"
            if row is not None and row.memory.content == item.draft.content:
                fate = "unchanged"  # and stays as it is here, wherever it has gone since
            elif row is None or row.memory.origin is Origin.IMPORT:
                [(_, fate)] = write.import_all([replace(item, id=memory_id)], context)(transaction)
                row = transaction.row(memory_id)
            # A file pins only what a file has brought, where that was said.
            is_files = row is not None and row.memory.origin is Origin.IMPORT
            is_there = row is not None and row.memory.scope.context_id == item.draft.context_id
            if item.id in thread.pinned and (is_pinned or fate == "stored") and is_files and is_there:
                transaction.set_facet(ATTENTION, memory_id, thread.facets.get(ATTENTION))
                lifetimes.stop(transaction, memory_id)
            fates.append(fate)
        return is_pinned, fates

    return change


def _memory_id(row_of: Callable[[str], Row | None], item: Imported, project: str) -> str:
    """The id that a message has, or will have, as a memory of this project. An id that another project's memory has,
    or one with another text in another context, is not taken from it."""
    memory_id, context_id = str(item.id), item.draft.context_id
    for _ in range(_MOST_TURNS):
        row = row_of(memory_id)
        if row is None:
            return memory_id
        if row.memory.scope.project != project:
            memory_id = derived_id(memory_id, project)
        elif item.draft.content == row.memory.content or context_id == row.memory.scope.context_id:
            return memory_id
        else:
            memory_id = derived_id(memory_id, context_id or "")
    raise InvalidInput("memory_id", f"{item.id} and all that follows from it is taken by other memories")


def _admitted(reader: StoreReader, thread: ImportedThread, project: str) -> ImportedThread:
    """What of a file may be imported: nothing that changes a thread which no file brought."""

    def is_begun_here(context_id: str) -> bool:
        query = Query("", project, context_id=context_id)
        first = reader.page(query, VISIBLE, 1, None, oldest_first=True)
        return bool(first) and first[0].memory.origin is not Origin.IMPORT

    if thread.is_alone:
        row = reader.row(_memory_id(reader.row, thread.memories[0], project))
        is_ours = row is not None and row.memory.origin is not Origin.IMPORT
    else:
        is_ours = is_begun_here(thread.id)
    if is_ours:
        return replace(thread, facets={}, pinned=frozenset(), said={}, into=None)
    if thread.into is None or not any(map(is_begun_here, thread_lookup.threads(reader, project, [thread.into]))):
        return thread
    kept = {name: one for name, one in thread.facets.get(THREAD, {}).items() if name != "into"}
    return replace(thread, facets={**thread.facets, THREAD: kept}, into=None)


def _set_facets(
    transaction: Transaction, thread: ImportedThread, items: Sequence[Imported], context: WriteContext
) -> bool:
    """What was changed here since the last import stays. Says whether the file pins the thread and did not before."""
    target, turns = thread.into, 0
    while target is not None and turns < _MOST_TURNS:
        if target == thread.id:
            raise InvalidInput("merged_into", f"{thread.into!r} goes on as this thread in the end")
        target, turns = into(transaction.facet(THREAD, owner(context.project, target)) or {}), turns + 1
    whose = owner(context.project, thread.id)
    if thread.is_alone:
        whose = _memory_id(transaction.row, items[0], context.project)
        row = transaction.row(whose)
        if row is not None and row.memory.scope.context_id is not None:  # it belongs to another thread by now
            return False
    before = transaction.facets([*FROM_FILE, FILE], whose)
    file = {"said": thread.said, "blank": [list(one) for one in thread.blank], "facets": dict(thread.facets)}
    noted = before.get(FILE, {})
    is_same = all(noted.get(name) == file[name] for name in ("said", "blank"))
    # Times that a file puts into the future are as late as the import: they alone make no difference.
    if not thread.said or (is_same and (thread.ahead or noted.get("facets") == file["facets"])):
        return False
    said_before = noted.get("facets", {})
    for name in FROM_FILE:
        now, was, said = before.get(name, {}), said_before.get(name, {}), thread.facets.get(name, {})
        changed = {field for field in {*was, *now} if now.get(field) != was.get(field)}
        after = {field: value for field, value in said.items() if field not in changed}
        after |= {field: value for field, value in now.items() if field in changed}
        transaction.set_facet(name, whose, after or None)
    if thread.into is not None:
        target_owner = owner(context.project, thread.into)
        facet = transaction.facet(THREAD, target_owner) or {}
        held = [one for one in texts(facet, "holds") if one != thread.id]
        transaction.set_facet(THREAD, target_owner, {**facet, "context_id": thread.into, "holds": [*held, thread.id]})
    is_untimed = any(one.draft.created_at is None for one in thread.memories)  # and is said now
    last_s = max(context.now_s if is_untimed else 0.0, (thread.last_active or context.now).timestamp())
    transaction.set_facet(FILE, whose, {**file, "last_s": last_s})
    return is_pinned(thread.facets.get(ATTENTION)) and not is_pinned(said_before.get(ATTENTION))


def _set_at(focus: JsonObject) -> datetime:
    """When a focus was changed last; one that does not say so is older than all others."""
    times = [focus.get("last_updated"), *(one.get("set_at") for one in focus.get("active_focus", []))]
    known = [at for one in times if isinstance(one, str) and (at := validation.moment("last_updated", one)) is not None]
    return max(known, default=_LONG_AGO)


# --- export -----------------------------------------------------------------------------------------------------------


def exported_threads(reader: StoreReader, project: str) -> Iterator[ExportedThread]:
    """Every thread of the project, archived and merged ones too: each with what was said in its own context, in the
    order in which they were begun here. No more than a few are held at a time."""
    contexts: dict[str, list[MemoryId]] = {}
    alone: set[str] = set()
    for row in pages(reader, Query("", project)):
        context_id = row.memory.scope.context_id
        contexts.setdefault(row.memory.id if context_id is None else context_id, []).append(row.memory.id)
        if context_id is None:
            alone.add(row.memory.id)
    waiting = iter(contexts.items())
    while several := dict(islice(waiting, _AT_ONCE)):
        owners = {one: one if one in alone else owner(project, one) for one in several}
        read = reader.facets_of({name: list(owners.values()) for name in (*FROM_FILE, FILE)})
        for thread_id, memory_ids in several.items():
            whose = owners[thread_id]
            facets = {name: found[whose] for name, found in read.items() if whose in found}
            rows = [one for one in map(reader.row, memory_ids) if one is not None and one.standing in VISIBLE]
            yield _exported(reader, project, Named(thread_id, whose, thread_id in alone), rows, facets)


def exported_focus(reader: StoreReader, project: str, agent: str | None) -> JsonObject | None:
    """What the agent has in focus; None when it never had a focus."""
    name = current_owner(project, agent)
    return reader.facets(FOCUS, [name]).get(name)


def _exported(
    reader: StoreReader, project: str, thread: Named, rows: Sequence[Row], facets: dict[str, JsonObject]
) -> ExportedThread:
    facet = facets.get(THREAD, {})
    said = [reading.line(row.memory, thread.id) for row in rows]
    archived_at = number(facet, "archived_at")
    # What has ended is live until a sweep sees to it.
    live = (one for one in Subjects(reader, project).of(rows) if one.standing is Standing.LIVE)
    return ExportedThread(
        thread.id,
        tuple((row.memory, row.standing) for row in rows),
        facets,
        text(facet, "title") or (reading.title(thread.id, said) if said else thread.id),
        (texts(facet, "topics") or reading.topics_of(said[-reading.READ_MOST :]))[: reading.MOST_TOPICS],
        relevance(Ratings.from_json(facets.get(RATINGS))),
        any(reading.is_in_use(one, archived_at) for one in live),
        thread.is_alone,
    )
