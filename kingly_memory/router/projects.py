"""The projects of a home: which there are, and how one gets another name or becomes part of another.

A rename moves what lies in each space of the project into the space of the same user under the new name, in bites: one
that was interrupted goes on when it is repeated. What a remote has under the old name is forgotten there and sent again
under the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from kingly_memory.cognition import links
from kingly_memory.cognition.owners import current_owner, latest_owner, owner
from kingly_memory.cognition.thoughts import CHAIN_TAG
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId, derived_id
from kingly_memory.lifecycle.lifetimes import later_of
from kingly_memory.models import DeliveryState, Memory, MemoryStatus, Query, Scope, project_and_user
from kingly_memory.plain import Plain
from kingly_memory.ports import Row, Space, StoreReader, Transaction, in_transaction
from kingly_memory.router import write
from kingly_memory.router.delivery import known_remotes, shared
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.outbox import PURGED, SENT_AS, every_remote
from kingly_memory.router.erasing import erase
from kingly_memory.router.lifecycle import lifetimes
from kingly_memory.router.purging import chosen
from kingly_memory.router.thread_lookup import THREAD, into, texts
from kingly_memory.router.write import WriteContext

AT_ONCE = 50
"""Memories that are moved in one transaction."""
GRAVE = "moved"
"""`metadata.record` of what stays under the old name until remotes have forgotten what they had of it there."""


@dataclass(frozen=True, slots=True)
class Project(Plain):
    """A project of the home, all users together. `memories` are alive, `archived` put away; `documents` counts items
    of logs too; `users` names those who have something in it. `name` is None for what is kept for every project."""

    name: str | None
    memories: int
    archived: int
    documents: int
    changed_at: datetime
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved(Plain):
    """How many memories, and documents and items of logs, went into the project `into`. `merged` of those memories had
    the key of one there, and are one with it now."""

    into: str
    memories: int
    documents: int
    merged: int


def projects(spaces: Iterable[Space], damaged: Iterable[Row]) -> tuple[Project, ...]:
    """By name; what is kept for every project comes last. The `damaged` memories are not counted."""
    unread = Counter((row.memory.scope.space, row.status) for row in damaged)
    together: dict[str | None, list[Space]] = {}
    for space in spaces:
        together.setdefault(project_and_user(space.name)[0], []).append(space)
    found = [
        Project(
            name,
            sum(space.memories - unread[space.name, MemoryStatus.LIVE] for space in group),
            sum(space.archived - unread[space.name, MemoryStatus.ARCHIVED] for space in group),
            sum(space.documents for space in group),
            datetime.fromtimestamp(max(space.changed_s for space in group), UTC),
            tuple(sorted(user for space in group if (user := project_and_user(space.name)[1]) is not None)),
        )
        for name, group in together.items()
    ]
    return tuple(sorted(found, key=lambda project: (project.name is None, project.name or "")))


# --- moving ----------------------------------------------------------------------------------------------------------


class Bite(NamedTuple):
    """How many memories a change has moved, and how many of them became one with another."""

    memories: int
    merged: int


def left(reader: StoreReader, space: str, *, but: Container[MemoryId] = ()) -> list[MemoryId]:
    """What is to be moved out of a space, whatever its status."""
    ids = (row.memory.id for row in chosen(reader, Query("", space)) if row.memory.metadata.get("record") != GRAVE)
    return [one for one in ids if one not in but]


def move(ids: Sequence[MemoryId], start: str, end: str, context: WriteContext) -> Callable[[Transaction], Bite]:
    """Move memories from one space to another, with what is said of their contexts, agents and chains of thoughts."""
    context = replace(context, space=end)

    def change(transaction: Transaction) -> Bite:
        known_remotes.add_like(transaction, start, end)
        found = (transaction.row(one) for one in ids)
        rows = [row for row in found if row is not None and row.memory.scope.space == start]
        merged = sum(_move(transaction, row, context) for row in rows)
        names: dict[str, None] = {}
        for row in rows:
            scope, tags = row.memory.scope, row.memory.tags
            chains = (tag.removeprefix(CHAIN_TAG) for tag in tags if tag.startswith(CHAIN_TAG))
            names.update(dict.fromkeys(one for one in (scope.context_id, scope.agent, *chains) if one is not None))
        waiting = list(names)
        for name in waiting:
            thread = transaction.facet(THREAD, owner(start, name)) or {}
            related = [other for other in (*texts(thread, "holds"), into(thread)) if other is not None]
            waiting += [other for other in related if other not in names]
            names.update(dict.fromkeys(related))
            transaction.move_facets(owner(start, name), owner(end, name))
        return Bite(sum(not row.is_tombstone for row in rows), merged)

    return change


@in_transaction
def move_rest(transaction: Transaction, start: str, end: str, now: datetime) -> int:
    """Move documents, logs, and what is known of the space as a whole. Returns how many documents and items."""
    for name in (partial(current_owner, agent=None), latest_owner):
        transaction.move_facets(name(start), name(end))
    known_remotes.add_like(transaction, start, end)
    shared.leave(transaction, start, now)
    known_remotes.part(transaction, start)
    moved = transaction.documents.move(start, end, f" ({project_and_user(start)[0]})")
    shared.arrive(transaction, end, now.timestamp())
    return moved


def _move(transaction: Transaction, row: Row, context: WriteContext) -> bool:
    """Move one memory. True when it and one that has its key there became one."""
    memory = row.memory
    if row.status is MemoryStatus.CACHED:  # a copy of what a remote has under the old name
        erase(transaction, memory.id)
        return False
    _part_from_remotes(transaction, row, context)
    project, user = project_and_user(context.space)
    moved = replace(memory, scope=replace(memory.scope, project=project, user=user))
    existing = write.find(transaction, context.space, memory.key) if memory.key is not None else None
    if existing is not None and row.status is existing.status is MemoryStatus.LIVE:
        _join(transaction, moved, existing.memory, context)
        return True
    if existing is not None and existing.status is not MemoryStatus.LIVE:
        transaction.move(replace(existing.memory, key=None), existing.status)
    elif existing is not None:
        moved = replace(moved, key=None)
    transaction.move(moved, row.status)
    if row.status is not MemoryStatus.FORGOTTEN:
        write.revise(transaction, moved, context, row.status)
    return False


def _join(transaction: Transaction, moved: Memory, existing: Memory, context: WriteContext) -> None:
    """Two memories with one key become one, under the id that is there: the text that was said later is the latest, and
    nothing that either said is lost. It ends when the later one of both would."""
    texts_of_moved = [*reversed(transaction.revisions(moved.id)), moved]
    follows = texts_of_moved if moved.updated_at > existing.updated_at else [*texts_of_moved, existing]
    for link in links.of(transaction, moved.id):
        source, target = (existing.id if end == moved.id else end for end in (link.source, link.target))
        if source != target:
            draft = links.LinkDraft(link.link_type, link.strength, link.description)
            links.write(transaction, source, target, draft, link.created_at)
    mine, theirs = (lifetimes.lifetime_of(transaction, one) for one in (moved.id, existing.id))
    lifetimes.put(transaction, existing.id, later_of(mine, theirs, context.now_s))
    erase(transaction, moved.id)
    for number, text in enumerate(follows, start=existing.revision + 1):
        here = replace(text, id=existing.id, key=existing.key, scope=replace(text.scope, project=moved.scope.project))
        write.revise(transaction, replace(here, revision=number), context)


def _part_from_remotes(transaction: Transaction, row: Row, context: WriteContext) -> None:
    """What remotes have of it under the old name is forgotten there: a grave, which has its deliveries, has that done.
    Each has it anew under the new name."""
    memory = row.memory
    scope = Scope(memory.scope.project, memory.scope.user)
    grave = replace(memory, id=derived_id(memory.id, f"moved from {scope.space}"), key=None, content="", title=None)
    for remote in every_remote(transaction):
        before = transaction.delivery(remote, memory.id)
        if before is None:
            continue
        is_settled = row.status is MemoryStatus.FORGOTTEN and not before.waits
        if not is_settled and not (before.untried and before.state is not DeliveryState.LEASED):
            noted = {"record": GRAVE, SENT_AS: memory.id, PURGED: row.is_tombstone}
            transaction.save(replace(grave, tags=(), metadata=noted, scope=scope), MemoryStatus.FORGOTTEN)
            after = before if row.status is MemoryStatus.FORGOTTEN else delivery.wanted(before, 0, context.now_s)
            transaction.set_delivery(remote, grave.id, after)
        transaction.set_delivery(remote, memory.id, None)
