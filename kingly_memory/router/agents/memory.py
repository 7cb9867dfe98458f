"""The memory of an agent in a store: each item is a memory, and one facet says which of them are where."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from kingly_memory import validation
from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules, Holdings, MemoryItem, changed
from kingly_memory.cognition.owners import current_owner
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import EXPERIENCE, JsonObject, Memory, MemoryStatus, MemoryType
from kingly_memory.observe import MemoryStored
from kingly_memory.ports import HOME, INCARNATION, Change, Row, Transaction
from kingly_memory.router import write
from kingly_memory.router.engine import Engine
from kingly_memory.router.experiences import FACET, PLACES
from kingly_memory.router.lifecycle.archive import Archived, move_to_archive
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")

POLICY = "agent_memory"
_LOOKED_AT = 200
"""Changes of others: when there are more, everything is read again."""
REASONS = {
    MemoryType.WORKING: "it left the working memory of its agent",
    MemoryType.EPISODIC: "it left the episodes of its agent",
}


class AgentMemory(CognitiveMemory):
    """A `CognitiveMemory` in a store. A change is made to what the store has then, whoever else changes it; it is
    durable when its verb returns, or the verb raises and has changed nothing.

    The verbs are the seed's and do not await. In an event loop that others share, call those that change something
    with `asyncio.to_thread`: each waits for a commit.
    """

    def __init__(self, agent_id: str, engine: Engine, rules: ExperienceRules) -> None:
        super().__init__(agent_id, rules=rules, now=lambda: engine.write_context().now)
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._read_to = engine.reader.last_change()
        """How far the change feed was read when `_held` was."""
        self._read_of: dict[str, JsonObject] = {}
        """The incarnation of the home then: a backup that was put in its place has a feed of its own."""

    @property
    def holdings(self) -> Holdings:
        """What the store has. Raises RouterClosed, StoreError."""
        self._engine.check_open()
        reader, name = self._engine.reader, current_owner(self._engine.space, self.agent_id)
        last, facets = reader.last_change(), reader.facets_of({FACET: [name], HOME: [INCARNATION]})
        is_another = facets[HOME] != self._read_of
        if is_another or (last != self._read_to and self._is_outdated(reader.changes(self._read_to, _LOOKED_AT))):
            self._held = Holdings()
        self._read_to, self._read_of = last, facets[HOME]
        self._held = self._current(facets[FACET].get(name), reader.row)
        return self._held

    def _is_outdated(self, news: Sequence[Change]) -> bool:
        """Whether somebody has revised a memory that is held here, as far as this looks."""
        ids = {item.id for item in (*self._held.working, *self._held.episodic)}
        return len(news) == _LOOKED_AT or any(one.memory_id in ids and one.revision > 1 for one in news)

    def _current(self, facet: Mapping[str, Any] | None, row_of: Callable[[str], Row | None]) -> Holdings:
        """What the facet names; most often this is held here already, and no memory is read."""
        is_held = facet == _facet(self.agent_id, self._held)
        return self._held if is_held else _holdings(facet, row_of, self._engine.space, self.agent_id)

    def _item(self, content: str, importance: float, year: int, tags: Iterable[str] | None) -> MemoryItem:
        item = super()._item(content, importance, year, tags)
        return replace(item, id=new_id(self._engine.write_context().now))

    def _change(self, item: MemoryItem | None = None, *, lasting: bool = False) -> int:
        """Raises InvalidInput, RouterClosed, StoreError."""
        self._engine.check_open()
        self._engine.services.callers.called_s = time.monotonic()
        context = self._engine.write_context()
        new = None if item is None else self._memory_of(item, context, lasting=lasting)

        def keep(transaction: Transaction) -> tuple[Holdings, int]:
            before = self._current(
                transaction.facet(FACET, current_owner(context.space, self.agent_id)), transaction.row
            )
            ordered = None if item is None else replace(item, order=before.experienced)
            after, count = changed(before, self.rules, ordered, lasting=lasting)
            if item is not None or count:
                _keep(transaction, self.agent_id, new, before, after, context)
            return after, count

        self._held, count = self._engine.store.write(keep).result()
        if new is not None:
            self._engine.services.emit(MemoryStored(new.id, new.revision))
        with suppress(RuntimeError):  # the event loop has ended; whoever opens the home next delivers it
            self._loop.call_soon_threadsafe(self._engine.wake)
        return count

    def _memory_of(self, item: MemoryItem, context: WriteContext, *, lasting: bool) -> Memory:
        """The record of an experience that has an id. Raises InvalidInput."""
        draft = validation.draft(
            item.content,
            type=(MemoryType.EPISODIC if lasting else MemoryType.WORKING).value,
            significance=item.importance,
            tags=item.tags,
            agent=self.agent_id,
            metadata={"record": EXPERIENCE, "year": item.year},
        )
        return draft.memory(MemoryId(item.id or ""), context.space, created_at=item.timestamp, updated_at=context.now)


# --- in the store -----------------------------------------------------------------------------------------------------


def _keep(  # noqa: PLR0917  # one row of a table that is written once
    transaction: Transaction,
    agent_id: str,
    new: Memory | None,
    before: Holdings,
    after: Holdings,
    context: WriteContext,
) -> None:
    """Write a change down: the new memory, what is of another type now, and what is in neither place any more."""
    were, are = _types_of(before), _types_of(after)
    if new is not None:
        were[new.id] = are.get(new.id, new.type)
        write.revise(transaction, replace(new, type=were[new.id]), context)
    for memory_id in [one for one, kind in are.items() if were.get(one) is not kind]:
        row = transaction.row(memory_id)
        if _is_live(row) and row.memory.type is not are[memory_id]:
            memory, revision = row.memory, row.memory.revision + 1
            write.revise(
                transaction, replace(memory, type=are[memory_id], updated_at=context.now, revision=revision), context
            )
    left = {
        memory_id: Archived(context.now_s, POLICY, REASONS[kind])
        for memory_id, kind in were.items()
        if memory_id not in are and _is_live(transaction.row(memory_id))
    }
    if left:
        move_to_archive(transaction, left)
    transaction.set_facet(FACET, current_owner(context.space, agent_id), _facet(agent_id, after))


def _types_of(held: Holdings) -> dict[MemoryId, MemoryType]:
    """What is remembered as an episode is one, whether or not it is in working memory too."""
    types = {MemoryId(item.id or ""): MemoryType.WORKING for item in held.working}
    return types | {MemoryId(item.id or ""): MemoryType.EPISODIC for item in held.episodic}


def _facet(agent_id: str, held: Holdings) -> JsonObject:
    return {
        "agent_id": agent_id,
        "latest_year": held.latest_year,
        "working": [[item.id, item.order] for item in held.working],
        "episodic": [[item.id, item.order] for item in held.episodic],
    }


def _holdings(
    facet: Mapping[str, Any] | None, row_of: Callable[[str], Row | None], space: str, agent_id: str
) -> Holdings:
    """What the facet names, without what was forgotten, erased or archived by others meanwhile. Raises StoreError."""
    if facet is None:
        return Holdings()
    try:
        orders = {memory_id: order for place in PLACES for memory_id, order in facet[place]}
        kept = {one: _kept(row_of(one), order, space, agent_id) for one, order in orders.items()}
        working, episodic = (
            tuple(item for memory_id, _ in facet[place] if (item := kept[memory_id]) is not None) for place in PLACES
        )
        return Holdings(working, episodic, facet["latest_year"]).whole()
    except (KeyError, TypeError, ValueError) as error:
        log.warning("what an agent remembers cannot be read, so it begins empty; its memories are there: %s", error)
        return Holdings()


def _kept(row: Row | None, order: int, space: str, agent_id: str) -> MemoryItem | None:
    if not _is_live(row) or (row.memory.scope.space, row.memory.scope.agent) != (space, agent_id):
        return None
    memory = row.memory
    year = memory.metadata.get("year", 0)
    with suppress(InvalidInput):
        fields = memory.content, memory.significance, year, memory.created_at, list(memory.tags)
        return MemoryItem(*fields, memory.id, order)
    return None


def _is_live(row: Row | None) -> TypeGuard[Row]:
    return row is not None and row.status is MemoryStatus.LIVE
