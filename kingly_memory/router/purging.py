"""Purging: memories go for good, with all that lies beside them.

What was purged leaves a tombstone: the id, the project and times, without content. Remotes are told by it, and
`restore` and `import` obey it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from kingly_memory.cognition.owners import current_owner, latest_owner, owner
from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query, Scope
from kingly_memory.ports import InjectionLog, Row, StoreReader, Transaction, in_transaction
from kingly_memory.router import contexts, model_replies, write
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery import shared
from kingly_memory.router.delivery.outbox import every_remote
from kingly_memory.router.erasing import erase
from kingly_memory.router.lifecycle import summaries
from kingly_memory.router.services import Services
from kingly_memory.router.thread_cleanup import clean_up
from kingly_memory.router.thread_lookup import ATTENTION
from kingly_memory.router.view import pages
from kingly_memory.router.write import WriteContext

AT_ONCE = 50
"""Memories that are purged in one transaction."""
UNSCRUBBED = "unscrubbed"
"""The facet of what was purged, until no byte of it is left in the files: whoever purges or sweeps next, or takes in a
page of a hub, goes on with that where it was interrupted."""
_SCRUBBED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Purged:
    """What was purged, or would be where it was a `dry_run`; then `names` are the keys, or ids where there is none,
    with the project where there are several.

    `documents` counts documents and items of logs, which go with a whole project. `remotes` says how many memories each
    remote is told of, by its address. `log_lines` were emptied in the audit. `is_complete` is False while another
    process that reads the store keeps old pages in its log: they go when it ends. `elsewhere` counts those of which
    only a copy lay here: another home keeps them. `left_in` names the folders of stores that a backup has replaced and
    that hold what was purged. `users` names whose memories are among them.
    """

    ids: tuple[MemoryId, ...]
    dry_run: bool = False
    names: tuple[str, ...] = ()
    documents: int = 0
    pinned: int = 0
    remotes: dict[str, int] = field(default_factory=dict)
    log_lines: int = 0
    is_complete: bool = True
    elsewhere: int = 0
    left_in: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        fields = {"dry_run": self.dry_run, "count": len(self.ids), "ids": list(self.ids), "documents": self.documents}
        fields |= {"elsewhere": self.elsewhere, "users": list(self.users)}
        if self.dry_run:
            return {**fields, "names": list(self.names), "pinned": self.pinned}
        fields |= {"remotes": self.remotes, "log_lines": self.log_lines, "is_complete": self.is_complete}
        return {**fields, "left_in": list(self.left_in)}


class Erased(NamedTuple):
    """What one change purged, which remotes are told of how many, and how many copies of what another home keeps it
    dropped."""

    memories: list[Memory]
    by_remote: dict[str, int]
    copies: int


def chosen(reader: StoreReader, *queries: Query) -> Iterator[Row]:
    """Every memory that passes the filters of a query, whatever its status, tombstones too. A damaged one counts as
    what it said before."""
    for query in queries:
        yield from pages(reader, query, tuple(MemoryStatus))
    remains = map(reader.remains, reader.damaged())  # asked once: it reads the whole store
    yield from (row for row in remains if row is not None and any(query.admits(row.memory) for query in queries))


def plan(reader: StoreReader, rows: Iterable[Row], whole: Sequence[str]) -> Purged:
    """What purging those would take away, with the documents and logs of the `whole` spaces."""
    alive = [row for row in rows if not row.is_tombstone]
    memories = [row.memory for row in alive]
    first = {memory.scope.project for memory in memories[:1]}
    is_one = all(memory.scope.project in first for memory in memories)
    whose = {memory.id: {memory.id, owner(memory.scope.space, memory.scope.context_id or "")} for memory in memories}
    facets = reader.facets(ATTENTION, list(set[str]().union(*whose.values())))
    pinned = {name for name, facet in facets.items() if facet.get("pinned") is True}
    return Purged(
        tuple(memory.id for memory in memories),
        dry_run=True,
        names=tuple(memory.key or memory.id if is_one else _name_among_projects(memory) for memory in memories),
        documents=sum(map(reader.documents.count, whole)),
        elsewhere=sum(row.status is MemoryStatus.CACHED for row in alive),
        users=tuple(sorted({memory.scope.user for memory in memories if memory.scope.user is not None})),
        pinned=sum(not pinned.isdisjoint(names) for names in whose.values()),
    )


def _name_among_projects(memory: Memory) -> str:
    project = memory.scope.project
    return f"{memory.key or memory.id}, {'every project' if project is None else f'project {project}'}"


@in_transaction
def purge(
    transaction: Transaction,
    ids: Sequence[MemoryId],
    context: WriteContext,
    erase_records: Callable[[Sequence[str]], object],
) -> Erased:
    """Erase memories and what goes with them when they are forgotten: texts that they sum up or that sum them up. Of
    what another home keeps only the copy goes, and no remote is told. Their records leave the audit before that is
    committed: nobody knows the texts afterwards, and what is undone can be repeated."""
    gone, by_remote, copies = list[Memory](), dict[str, int](), 0
    for memory_id in ids:
        row = transaction.row(memory_id)
        if row is None and (remains := transaction.remains(memory_id)) is not None:  # damaged: made sound first
            row = write.repair(transaction, remains.memory.scope.space, memory_id)
        if row is not None and row.status is MemoryStatus.CACHED:
            erase(transaction, row.memory.id)
            transaction.unlearn(row.memory)
            for remote in every_remote(transaction):
                transaction.set_delivery(remote, row.memory.id, None)
            gone.append(row.memory)
            copies += 1
            continue
        for row in _family(transaction, memory_id, context):
            if row.status is MemoryStatus.FORGOTTEN:
                gone.append(row.memory)
                for endpoint in _bury(transaction, row.memory, context):
                    by_remote[endpoint] = by_remote.get(endpoint, 0) + 1
            else:  # a summary of other memories too: only its earlier revisions still mention this one
                transaction.drop_revisions(row.memory.id)
    clean_up(transaction, gone, erased=True)
    model_replies.drop(transaction)
    for memory in gone:
        contexts.purged(transaction, memory)
        transaction.set_facet(UNSCRUBBED, memory.id, {})
    erase_records([memory.content for memory in gone])
    return Erased(gone, by_remote, copies)


@in_transaction
def purge_rest(transaction: Transaction, space: str, agents: Iterable[str | None], now: datetime) -> int:
    """Purge what lies beside the memories of a whole space: what these agents, or nobody in particular, had in focus
    and worked in, documents and logs. Returns how many documents and items."""
    for whose in (latest_owner(space), *(current_owner(space, agent) for agent in {None, *agents})):
        transaction.drop_facets(whose)
    model_replies.drop(transaction)
    shared.leave(transaction, space, now, purged=True)
    transaction.set_facet(UNSCRUBBED, space, {"is_space": True})
    return transaction.documents.purge(space)


async def scrub_rest(services: Services) -> None:
    """Leave no byte in the files of what was purged, where that has not been done yet. Raises StoreError."""
    store = services.store
    while gone := list(store.reader.facets_named(UNSCRUBBED, _SCRUBBED_AT_ONCE)):
        # Not by the name of a space: a damaged store that was put aside would go because the word stands in it.
        await asyncio.to_thread(store.scrub, [memory_id for memory_id, facet in gone if "is_space" not in facet])
        await services.write(scrubbed([name for name, _ in gone]))


@in_transaction
def scrubbed(transaction: Transaction, names: Iterable[str]) -> None:
    """No byte of these memories and spaces is left."""
    for name in names:
        transaction.set_facet(UNSCRUBBED, name, None)


def purge_prompts(
    logs: Callable[[str], InjectionLog], ids: Collection[str], memories: Iterable[Memory], whole: Collection[str]
) -> None:
    """Purge what is kept of the prompts that these were put into, and the sessions that they were said in."""
    sessions: dict[str, set[str]] = {space: set() for space in whole}
    for memory in memories:
        named = sessions.setdefault(memory.scope.space, set())
        if memory.scope.context_id is not None:
            named.add(memory.scope.context_id)
    for space, names in sessions.items():
        logs(space).purge(ids, names, whole=space in whole)
        ids = ()  # they are erased wherever they were told


def _family(transaction: Transaction, memory_id: MemoryId, context: WriteContext) -> list[Row]:
    """The memory and what goes with it, forgotten by now; nothing where it is purged already."""
    row = transaction.row(memory_id)
    if row is None or row.is_tombstone:
        return []
    gone = write.forget(memory_id, replace(context, space=row.memory.scope.space))(transaction)
    if gone is not None:
        ids = [memory_id, *gone.others]
    else:  # it was forgotten before, and its other half with it
        counterparts = [one.memory.id for one in summaries.counterparts(transaction, row.memory)]
        ids = [memory_id, *counterparts, *summaries.full_texts(transaction, row.memory)]
    rows = (transaction.row(one) for one in dict.fromkeys(ids))
    return [member for member in rows if member is not None and not member.is_tombstone]


def _bury(transaction: Transaction, memory: Memory, context: WriteContext) -> list[str]:
    """Leave a tombstone, by which remotes are told. Names the addresses of those."""
    erase(transaction, memory.id)
    scope = Scope(memory.scope.project, memory.scope.user)
    bare = replace(memory, key=None, content="", title=None, tags=(), metadata={}, scope=scope)
    transaction.save(replace(bare, updated_at=context.now, revision=memory.revision + 1), MemoryStatus.FORGOTTEN)
    transaction.unlearn(memory)
    addresses = []
    for remote in every_remote(transaction):
        before = transaction.delivery(remote, memory.id)
        if before is not None:
            after = before if before.waits else delivery.wanted(before, 0, context.now_s)
            transaction.set_delivery(remote, memory.id, replace(after, last_error=None))
            addresses.append(str((transaction.facet("remote", remote) or {"endpoint": "a former remote"})["endpoint"]))
    return addresses
