"""Threads from files: their messages become memories, and what else a file says of a thread lies beside it.

What was changed here since the last import stands; a file that says what it said then changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kingly_memory import intake
from kingly_memory.attention.pins import is_pinned
from kingly_memory.cognition.owners import current_owner, owner
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import derived_id
from kingly_memory.intake import Imported
from kingly_memory.models import JsonObject, Origin, Query, Standing, Taken
from kingly_memory.ports import Row, StoreReader, Transaction
from kingly_memory.router import lifetimes, write
from kingly_memory.router.access import Access
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.reading import ATTENTION, FACET
from kingly_memory.router.threads.views import RATINGS
from kingly_memory.router.write import WriteContext
from kingly_memory.thread_files import FILE, FROM_FILE, ImportedFocus, ImportedThread

FOCUS = "focus"
AT_ONCE = 200
"""Memories per transaction. The facets of a thread are set with its first ones."""
MOST_TURNS = 1_000
MOST_HELD = 1_000
_LONG_AGO = datetime.fromtimestamp(0, UTC)
STORED, UNCHANGED, KEPT = "stored", "unchanged", "kept"


async def take_in(thread: ImportedThread, access: Access) -> Taken:
    """Take in a thread; of one that was begun here, only what is said in it. Raises InvalidInput, and then nothing was
    stored."""
    desk = access.write_context()
    thread = await access.read(lambda: _admitted(access.reader, thread, desk.project))
    fates: Counter[str] = Counter()
    anew = False
    for first in range(0, len(thread.memories), AT_ONCE):
        items = thread.memories[first : first + AT_ONCE]
        if first == 0:
            begun, anew = await access.write(begin(thread, items, access.write_context()))
        else:
            begun = await access.write(go_on(thread, items, access.write_context(), anew=anew))
        fates.update(begun)
        access.wake()
    return Taken(**fates)


async def take_in_focus(focus: ImportedFocus, access: Access) -> bool:
    """Set what is in focus, unless it was set here later, or the file's own times do not say when it was. False when
    nothing was changed."""
    return await access.write(set_focus(focus.focus, access.write_context(), is_dated=not focus.ahead))


def begin(
    thread: ImportedThread, items: Sequence[Imported], desk: WriteContext
) -> Callable[[Transaction], tuple[list[str], bool]]:
    """The first memories of a thread, and its facets. Says what became of each, and whether the thread is pinned by
    this file and was not before. Raises InvalidInput when threads would go on as each other in a circle."""

    def change(transaction: Transaction) -> tuple[list[str], bool]:
        _refuse_circle(transaction, thread, desk.project)
        anew = _set_facets(transaction, thread, items, desk)
        return go_on(thread, items, desk, anew=anew)(transaction), anew

    return change


def go_on(
    thread: ImportedThread, items: Sequence[Imported], desk: WriteContext, *, anew: bool
) -> Callable[[Transaction], list[str]]:
    """More memories of a thread. Those that its file pins are pinned when they are new, or when that is (`anew`)."""

    def change(transaction: Transaction) -> list[str]:
        fates = []
        for item in items:
            fate, memory_id = _take_in_one(transaction, item, desk)
            if item.id in thread.pinned and (anew or fate == STORED) and _is_pinnable(transaction, memory_id, item):
                transaction.set_facet(ATTENTION, memory_id, thread.facets.get(ATTENTION))
                lifetimes.stop(transaction, memory_id)
            fates.append(fate)
        return fates

    return change


def set_focus(focus: JsonObject, desk: WriteContext, *, is_dated: bool) -> Callable[[Transaction], bool]:
    def change(transaction: Transaction) -> bool:
        name = current_owner(desk.project, desk.agent)
        before = transaction.facet(FOCUS, name)
        if before is not None and not (is_dated and _said_at(focus) > _said_at(before)):
            return False
        transaction.set_facet(FOCUS, name, focus)
        return True

    return change


def _take_in_one(transaction: Transaction, item: Imported, desk: WriteContext) -> tuple[str, str]:
    """What became of a message, and the id of its memory. One whose text is here already stays as it is here, wherever
    it has gone since."""
    memory_id = _settled(transaction.row, item, desk.project)
    row = transaction.row(memory_id)
    if row is not None and row.memory.content == item.draft.content:
        return UNCHANGED, memory_id
    if row is not None and row.memory.origin is not Origin.IMPORT:
        return KEPT, memory_id
    [(receipt, fate)] = write.import_all([replace(item, id=memory_id)], desk)(transaction)
    return fate, receipt.id


def _settled(row_of: Callable[[str], Row | None], item: Imported, project: str) -> str:
    """Under which id a message is, or will be, a memory of this project: an id that somebody else's memory has, or one
    with another text that was said elsewhere, is not taken from it."""
    memory_id, context_id = str(item.id), item.draft.context_id
    for _ in range(MOST_TURNS):
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


def _is_pinnable(transaction: Transaction, memory_id: str, item: Imported) -> bool:
    """A file pins what a file has brought, where it says that this was said."""
    row = transaction.row(memory_id)
    if row is None or row.memory.origin is not Origin.IMPORT:
        return False
    return row.memory.scope.context_id == item.draft.context_id


def _admitted(reader: StoreReader, thread: ImportedThread, project: str) -> ImportedThread:
    """What of a file may be taken in. What it says of a thread is no reason to change one that no file brought."""
    if _is_begun_here(reader, thread, project):
        return replace(thread, facets={}, pinned=frozenset(), said={}, into=None)
    if thread.into is None or not _goes_on_here(reader, thread.into, project):
        return thread
    told = {name: one for name, one in thread.facets.get(FACET, {}).items() if name != "into"}
    return replace(thread, facets={**thread.facets, FACET: told}, into=None)


def _is_begun_here(reader: StoreReader, thread: ImportedThread, project: str) -> bool:
    if not thread.is_alone:
        return _is_said_here(reader, thread.id, project)
    row = reader.row(_settled(reader.row, thread.memories[0], project))
    return row is not None and row.memory.origin is not Origin.IMPORT


def _goes_on_here(reader: StoreReader, into: str, project: str) -> bool:
    """Whether a thread, or any that it goes on as, was begun here."""
    known = roots.threads(reader, project, [into])
    return any(_is_said_here(reader, one, project) for one in known)


def _is_said_here(reader: StoreReader, context_id: str, project: str) -> bool:
    """Whether what was said first in a context came from no file."""
    query, standings = Query("", project, context_id=context_id), (Standing.LIVE, Standing.ARCHIVED)
    first = next(iter(reader.page(query, standings, 1, None, oldest_first=True)), None)
    return first is not None and first.memory.origin is not Origin.IMPORT


def _set_facets(
    transaction: Transaction, thread: ImportedThread, items: Sequence[Imported], desk: WriteContext
) -> bool:
    name = _owner(transaction, thread, items, desk) if thread.said else None
    if name is None:
        return False
    before = transaction.facets([*FROM_FILE, FILE], name)
    noted = before.get(FILE, {})
    facets = _as_first_told(thread, noted)
    file = {"said": thread.said, "blank": [list(one) for one in thread.blank], "facets": facets}
    said_before = noted.get("facets", {})
    if {one: noted.get(one) for one in file} == file:
        return False
    for facet in FROM_FILE:
        said = facets.get(facet, {})
        after = _together(before.get(facet, {}), said_before.get(facet, {}), said)
        transaction.set_facet(facet, name, after or None)
    if thread.into is not None:
        _hold(transaction, thread.into, thread.id, desk.project)
    transaction.set_facet(FILE, name, {**file, "last_s": _last_s(thread, desk)})
    return is_pinned(thread.facets.get(ATTENTION)) and not is_pinned(said_before.get(ATTENTION))


def _as_first_told(thread: ImportedThread, noted: JsonObject) -> JsonObject:
    """The facets of a thread. What its file puts into the future stays as old as when it first said so, so that the
    same file changes nothing."""
    facets, before = dict(thread.facets), noted.get("facets", {})
    if not thread.ahead or noted.get("said") != thread.said:
        return facets
    if RATINGS in before:
        facets[RATINGS] = before[RATINGS]
    told, archived_at = facets.get(FACET, {}), before.get(FACET, {}).get("archived_at")
    if archived_at is not None and "archived_at" in told:
        facets[FACET] = {**told, "archived_at": min(archived_at, told["archived_at"])}
    return facets


def _together(now: JsonObject, before: JsonObject, said: JsonObject) -> JsonObject:
    """What the file says, but for what was changed here since the last import (`before`)."""
    changed = {name for name in {*before, *now} if now.get(name) != before.get(name)}
    kept = {name: one for name, one in now.items() if name in changed}
    return {**{name: one for name, one in said.items() if name not in changed}, **kept}


def _hold(transaction: Transaction, into: str, thread_id: str, project: str) -> None:
    """Where a thread is looked for that went on as another one."""
    name = owner(project, into)
    facet = transaction.facet(FACET, name) or {}
    held = [one for one in facet.get("holds", ()) if one != thread_id]
    if len(held) >= MOST_HELD:
        raise InvalidInput("merged_into", f"{MOST_HELD:,} threads go on as {into!r} already")
    transaction.set_facet(FACET, name, {**facet, "context_id": into, "holds": [*held, thread_id]})


def _owner(
    transaction: Transaction, thread: ImportedThread, items: Sequence[Imported], desk: WriteContext
) -> str | None:
    """Where what is said of a thread lies; of a memory that was said in no context, beside itself, and nowhere once it
    has gone into one."""
    if not thread.is_alone:
        return owner(desk.project, thread.id)
    memory_id = _settled(transaction.row, items[0], desk.project)
    row = transaction.row(memory_id)
    return memory_id if row is None or row.memory.scope.context_id is None else None


def _last_s(thread: ImportedThread, desk: WriteContext) -> float:
    """What is said in no time is said now."""
    untimed = [desk.now] if any(one.draft.created_at is None for one in thread.memories) else []
    return max([*untimed, *([] if thread.last_active is None else [thread.last_active])], default=desk.now).timestamp()


def _refuse_circle(transaction: Transaction, thread: ImportedThread, project: str) -> None:
    into, turns = thread.into, 0
    while into is not None and turns < MOST_TURNS:
        if into == thread.id:
            raise InvalidInput("merged_into", f"{thread.into!r} goes on as this thread in the end")
        into, turns = (transaction.facet(FACET, owner(project, into)) or {}).get("into"), turns + 1


def _said_at(focus: JsonObject) -> datetime:
    """When a focus was changed last; one that does not say so is older than all others."""
    times = [focus.get("last_updated"), *(one.get("set_at") for one in focus.get("active_focus", []))]
    known = [at for one in times if isinstance(one, str) and (at := intake.moment("last_updated", one)) is not None]
    return max(known, default=_LONG_AGO)
