"""The memory of an agent that lives in a store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import WeakSet

from kingly_memory import intake
from kingly_memory.cognition.experience.cognitive import CognitiveMemory
from kingly_memory.cognition.experience.rules import SEEDS, ExperienceRules
from kingly_memory.errors import KinglyMemoryError, RouterClosed
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory
from kingly_memory.ports import LocalStore
from kingly_memory.router.landing import Landing
from kingly_memory.router.minds import records
from kingly_memory.router.minds.keeper import StoreKeeper, Surroundings
from kingly_memory.router.minds.records import Loaded
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")


class Mind(CognitiveMemory):
    """A `CognitiveMemory` whose every change goes to a store, in its order, without being waited for.

    A change that could not be stored is told by the next verb that would make one, or by `saved`, and is tried again.
    """

    def __init__(self, agent_id: str, around: Surroundings, loaded: Loaded, rules: ExperienceRules) -> None:
        self._store_keeper = StoreKeeper(agent_id, around, loaded, waits=False)
        super().__init__(agent_id, rules=rules, now=lambda: around.write_context().now, keeper=self._store_keeper)
        self._store_keeper.keep(self, loaded)

    async def saved(self) -> None:
        """Wait until everything that was experienced survives whatever happens next. Raises StoreError."""
        await self._store_keeper.saved()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.saved()


class Minds:
    """The minds of one router."""

    def __init__(
        self,
        project: str,
        *,
        store: LocalStore,
        read: Callable[[Callable[[], Loaded]], Awaitable[Loaded]],
        landing: Landing,
        write_context: Callable[[], WriteContext],
        check_open: Callable[[], None],
        stored: Callable[[Memory | None, tuple[MemoryId, ...]], None],
        content_limit_bytes: int,
    ) -> None:
        """`stored` is told in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._stored = stored
        self._check_router = check_open
        self._has_ended = False
        self._around = Surroundings(
            store=store,
            landing=landing,
            project=project,
            write_context=write_context,
            check_open=self._check_open,
            written=self._written,
            content_limit_bytes=content_limit_bytes,
            unsaved=set(),
            keepers=WeakSet(),
        )

    async def open(self, agent_id: str, rules: ExperienceRules = SEEDS) -> Mind:
        """Raises InvalidInput, StoreError."""
        name = intake.required("agent_id", agent_id)
        return Mind(name, self._around, await self._load(name), rules)

    async def open_waiting(self, agent_id: str, rules: ExperienceRules = SEEDS) -> CognitiveMemory:
        """For code that does not await: every change is in the store when its verb returns, or the verb raises and
        nothing has changed. Raises InvalidInput, StoreError."""
        name = intake.required("agent_id", agent_id)
        loaded = await self._load(name)
        keeper = StoreKeeper(name, self._around, loaded, waits=True)
        memory = CognitiveMemory(name, rules=rules, now=lambda: self._around.write_context().now, keeper=keeper)
        keeper.keep(memory, loaded)
        return memory

    def take_away(self, memory: Memory) -> None:
        """Somebody had a memory forgotten or put away: whoever remembers it here is without it at once."""
        for keeper in self._around.keepers:
            keeper.take_away(memory.id)

    async def settle(self) -> None:
        """Before the router closes: change no mind any more, and bring into the store what waits for it. What cannot be
        is told by the log."""
        self._has_ended = True
        for keeper in list(self._around.unsaved):
            try:
                await keeper.saved()
            except KinglyMemoryError as error:
                log.error("what an agent experienced is lost with this process: %s", error)

    def _check_open(self) -> None:
        self._check_router()
        if self._has_ended:
            raise RouterClosed

    async def _load(self, agent_id: str) -> Loaded:
        around = self._around
        return await self._read(lambda: records.load(around.store.reader, around.project, agent_id))

    def _written(self, new: Memory | None, changed: tuple[MemoryId, ...]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the router with it
            self._loop.call_soon_threadsafe(self._stored, new, changed)
