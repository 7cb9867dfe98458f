"""The memory of an agent in a store: each item is a memory, and one facet says which of them are where.

Each change goes to the writer thread at once, in its order, and is made to what the store has then. Where that is not
what this object knew, because somebody else was quicker or an earlier change failed, it reads itself anew afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeGuard
from weakref import WeakSet

from kingly_memory import validation
from kingly_memory.cognition.agent_memory import (
    SEEDS,
    CognitiveMemory,
    ExperienceRules,
    Holdings,
    MemoryItem,
    changed,
)
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, RouterClosed
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import EXPERIENCE, JsonObject, Memory, MemoryType, Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import write
from kingly_memory.router.access import Access
from kingly_memory.router.experiences import FACET, PLACES, owner
from kingly_memory.router.lifecycle.archive import Archived, move_to_archive
from kingly_memory.router.services import Services
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")

POLICY = "agent_memory"
REASONS = {
    MemoryType.WORKING: "it left the working memory of its agent",
    MemoryType.EPISODIC: "it left the episodes of its agent",
}


class AgentMemory(CognitiveMemory):
    """A `CognitiveMemory` whose every change goes to a store, in its order, without being waited for.

    A change that could not be stored is told by the next verb that would make one, or by `saved`; the memory is then
    as the store has it, without that change.
    """

    def __init__(self, agent_id: str, around: AgentMemories, rules: ExperienceRules, *, waits: bool) -> None:
        """`waits`: every change is in the store when its verb returns, or is not made."""
        super().__init__(agent_id, rules=rules, now=lambda: around.write_context().now)
        self._around = around
        self._waits = waits
        self._on_their_way: deque[Future[bool]] = deque()
        self._is_stale = False
        """The store has something else than what is held here."""
        self._taken_away: set[str] = set()

    async def saved(self) -> None:
        """Wait until everything that was experienced survives whatever happens next. Raises StoreError."""
        while self._on_their_way and not self._on_their_way[-1].done():
            with suppress(Exception):
                await asyncio.shield(asyncio.wrap_future(self._on_their_way[-1]))
        self._settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.saved()

    def reload(self) -> None:
        """Hold what the store has, and nothing else. Raises StoreError."""
        reader, name = self._around.store.reader, owner(self._around.space, self.agent_id)
        facet = reader.facets(FACET, [name]).get(name)
        self._held = _holdings(facet, reader.row, self._around.space, self.agent_id)
        self._is_stale = False

    def take_away(self, memory_id: MemoryId) -> None:
        """Somebody had it forgotten or put away: the agent is without it when it is next looked at. From any thread."""
        self._taken_away.add(memory_id)

    # --- what a memory does otherwise when it lives in a store --------------------------------------------------------

    @property
    def holdings(self) -> Holdings:
        if self._taken_away:
            gone, self._taken_away = self._taken_away, set()
            working, episodic = (
                tuple(one for one in kept if one.id not in gone) for kept in (self._held.working, self._held.episodic)
            )
            self._held = self._held._replace(working=working, episodic=episodic)
        return self._held

    def _item(self, content: str, importance: float, year: int, tags: Iterable[str] | None) -> MemoryItem:
        item = super()._item(content, importance, year, tags)
        return replace(item, id=new_id(self._around.write_context().now))

    def _change(self, item: MemoryItem | None = None, *, lasting: bool = False) -> int:
        """Raises InvalidInput, RouterClosed, and the StoreError of an earlier change."""
        self._around.check_open()
        self._settle()
        new = None if item is None else self._around.memory_of(item, self.agent_id, lasting=lasting)
        before = self.holdings
        self._held, count = changed(before, self.rules, item, lasting=lasting)
        if item is None and self._held == before:
            return 0
        self._submit(item, new, before)
        if self._waits:
            with suppress(Exception):
                self._on_their_way[-1].result()
            self._settle()
        return count

    def _settle(self) -> None:
        """Forget the changes that are stored. Where one was not, read the store anew, and raise why."""
        failure: BaseException | None = None
        while self._on_their_way and self._on_their_way[0].done():
            done = self._on_their_way.popleft()
            error = done.exception()
            failure = failure or error
            self._is_stale |= error is not None or not done.result()
        if self._is_stale and not self._on_their_way:
            self.reload()
        if failure is not None:
            raise failure

    def _submit(self, item: MemoryItem | None, new: Memory | None, expected: Holdings) -> None:
        context, lasting = self._around.write_context(), new is not None and new.type is MemoryType.EPISODIC

        def keep(transaction: Transaction) -> bool:
            facet = transaction.facet(FACET, owner(context.space, self.agent_id))
            is_as_expected = facet == (_facet(self.agent_id, expected) if expected.experienced else None)
            before, one = expected, item
            if not is_as_expected:
                before = _holdings(facet, transaction.row, context.space, self.agent_id)
                one = None if item is None else replace(item, order=before.experienced)
            after, _ = changed(before, self.rules, one, lasting=lasting)
            _keep(transaction, self.agent_id, new, before, after, context)
            return is_as_expected

        future = self._around.store.write(keep)
        self._on_their_way.append(future)
        self._around.follow(new, future)


class AgentMemories:
    """The memories of agents that one router has opened."""

    def __init__(
        self,
        access: Access,
        *,
        services: Services,
        check_open: Callable[[], None],
        stored: Callable[[Memory | None], None],
    ) -> None:
        """`stored` is told in the event loop: the new memory, if there is one."""
        self.space = access.space
        self.write_context = access.write_context
        self.store = services.store
        self._access = access
        self._check_router = check_open
        self._stored = stored
        self._loop = asyncio.get_running_loop()
        self._opened: WeakSet[AgentMemory] = WeakSet()
        self._on_their_way: set[Future[bool]] = set()
        self._has_ended = False
        services.departures.remembering.add(self)

    async def open(self, agent_id: str, rules: ExperienceRules = SEEDS, *, waits: bool = False) -> AgentMemory:
        """Raises InvalidInput, StoreError."""
        memory = AgentMemory(agent_id, self, rules, waits=waits)
        await self._access.read(memory.reload)
        self._opened.add(memory)
        return memory

    def take_away(self, memory: Memory) -> None:
        """Somebody had a memory forgotten or put away: whoever remembers it here is without it at once."""
        for one in self._opened:
            one.take_away(memory.id)

    async def settle(self) -> None:
        """Before the router closes: nothing is experienced any more, and what is on its way to the store is waited
        for."""
        self._has_ended = True
        for future in list(self._on_their_way):
            with suppress(Exception):  # the log has it
                await asyncio.shield(asyncio.wrap_future(future))

    def check_open(self) -> None:
        """Raises RouterClosed."""
        self._check_router()
        if self._has_ended:
            raise RouterClosed

    def memory_of(self, item: MemoryItem, agent_id: str, *, lasting: bool) -> Memory:
        """The record of an experience that has an id. Raises InvalidInput."""
        draft = validation.draft(
            item.content,
            content_limit_bytes=self._access.settings.content_limit_bytes,
            type=(MemoryType.EPISODIC if lasting else MemoryType.WORKING).value,
            significance=item.importance,
            tags=item.tags,
            agent=agent_id,
            metadata={"record": EXPERIENCE, "year": item.year},
        )
        now = self.write_context().now
        return draft.memory(MemoryId(item.id or ""), self.space, created_at=item.timestamp, updated_at=now)

    def follow(self, new: Memory | None, future: Future[bool]) -> None:
        """Have what comes after a store done once the change is in it; on the writer thread, mostly."""
        self._on_their_way.add(future)

        def done(future: Future[bool]) -> None:
            self._on_their_way.discard(future)
            if (error := future.exception()) is None:
                with suppress(RuntimeError):  # the loop is closed, and the router with it
                    self._loop.call_soon_threadsafe(self._stored, new)
            else:
                log.error("an experience is not stored: %s", error)

        future.add_done_callback(done)


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
    transaction.set_facet(FACET, owner(context.space, agent_id), _facet(agent_id, after))


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
            tuple(one for memory_id, _ in facet[place] if (one := kept[memory_id]) is not None) for place in PLACES
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
        said = memory.content, memory.significance, year, memory.created_at, list(memory.tags)
        return MemoryItem(*said, memory.id, order)
    return None


def _is_live(row: Row | None) -> TypeGuard[Row]:
    return row is not None and row.standing is Standing.LIVE
