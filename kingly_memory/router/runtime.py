"""What all spaces of one router share: store, remotes, threads and background tasks, from its first verb to `close`."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol
from weakref import WeakSet

from kingly_memory.cognition.context import ContextRules
from kingly_memory.errors import KinglyMemoryError, NoEventLoop, RouterClosed
from kingly_memory.lifecycle.decay import StrengthRules
from kingly_memory.lifecycle.lifetimes import usual_lifetimes
from kingly_memory.observe import Observer
from kingly_memory.ports import Clock, Embedder, InjectionLog, LanguageModel, LocalStore, Transaction
from kingly_memory.router.delivery.routes import Routes
from kingly_memory.router.remotes.connections import RemoteConnection, Remotes
from kingly_memory.router.search.embedding import Embedding
from kingly_memory.router.services import RemotePart, Services, SharedThreads
from kingly_memory.router.sweep.steward import Lock, Sweeper
from kingly_memory.router.view import Station
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.router")

ModelInUse = AbstractAsyncContextManager[tuple[LanguageModel | None, bool]]
"""The language model that the settings name, if they name one, and whether it runs on this machine."""


class Buffer(Protocol):
    """Something that collects what is to be written a little later."""

    def take(self) -> Callable[[Transaction], Any] | None:
        """A change that writes it; None when there is nothing. It still counts here until it is `written`."""

    def written(self, outcome: Any) -> None:
        """The change is durable and had that outcome. Without this call the same is taken again."""


class Space(Protocol):
    """What goes on in one space, as the runtime sees it."""

    buffers: tuple[Buffer, ...]
    embedding: Embedding | None

    async def sweep_if_due(self, interval_s: float) -> None: ...


class Runtime:
    """One router at work, for all its spaces."""

    def __init__(
        self,
        station: Station,
        *,
        store: LocalStore,
        settings: Settings,
        clock: Clock,
        remotes: Sequence[RemotePart],
        observers: tuple[Observer, ...],
        chance: Callable[[], float] = random.random,
        embedder: Callable[[], Embedder],
        meaning: Callable[[], Embedder] | None,
        sweeping: Lock,
        injections: Callable[[str], InjectionLog],
        language_model: Callable[[], ModelInUse],
        name_at: Callable[[str], str | None],
        erase_records: Callable[[Sequence[str]], int],
        check_trusted: Callable[[], None],
        remotes_follow: Callable[[str, str], None],
    ) -> None:
        """`station` is that of the router itself, whose project is sent to the remotes that its routes name.
        `embedder` compares memories with each other in the modes; `meaning` makes the vectors that searches are
        answered by besides the words; `injections` remembers what sessions of a space were told; `name_at` says what
        the store calls the remote at an address; `check_trusted` raises StoreUntrusted where the user has neither made
        the home nor trusted it; `remotes_follow` has what was added to a project go on for the one that it becomes."""
        self.station = station
        self.services = Services(store, clock, settings, observers, chance, erase_records)
        self.strength = StrengthRules.of(settings)
        self.lifetimes = usual_lifetimes(settings.lifetimes)
        self.context_rules = ContextRules(settings.context_items, settings.lifetimes.working, settings.whisper_tokens)
        self.embedder, self.meaning, self.injections = embedder, meaning, injections
        self.language_model = language_model
        self.name_at = name_at
        self.check_trusted = check_trusted
        self.remotes_follow = remotes_follow
        self.threads = SharedThreads("kingly-reader", 4)
        self.embedding_thread = SharedThreads("kingly-vectors", 1)
        self.question_threads = SharedThreads("kingly-questions", 2)
        self.sweeper = Sweeper(self.services, sweeping)
        routes = station.routes or Routes(tuple(part.route for part in remotes))
        self.remotes = Remotes(
            [RemoteConnection(part, routes, self.services, space=station.space) for part in remotes], routes
        )
        self._spaces: WeakSet[Space] = WeakSet()
        self.unwritten: set[Space] = set()
        """Those that may have something to write down; they stay until that is done, whoever lets go of them."""
        self.is_open = self.is_closed = False
        self._first: Space | None = None
        self._flushing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Task[None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def add(self, space: Space) -> None:
        """The first one is the router's own, whose vectors are made as long as it is open. The others are forgotten
        when nobody refers to them."""
        self._first = self._first or space
        self._spaces.add(space)

    async def open(self) -> None:
        """Open the router, if nobody has. Raises RouterClosed, and what opening raises."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise NoEventLoop from None
        if self._opening is None:
            self.loop = loop
            self._opening = asyncio.create_task(self._open(), name="kingly-opening")
        if loop is not self.loop:
            raise RouterClosed("event loop")
        if not self.is_open:
            await asyncio.shield(self._opening)  # others may wait for it too
            if self.is_closed:
                raise RouterClosed

    @property
    def _embedding(self) -> Embedding | None:
        return None if self._first is None else self._first.embedding

    async def _open(self) -> None:
        """Start what goes on in the background."""
        for other in tuple(_unclosed):
            if other.loop is not None and other.loop.is_closed():  # else it leads deliveries that it never makes
                await other.close()
        _unclosed.add(self)
        self.in_background(self._flush_regularly(), "flush")
        if self._embedding is not None:
            await self._embedding.prepare()
            self.in_background(self._embedding.run(), "vectors")
        # Queued before any store can be, so that the first memory finds its remotes known.
        for delivery in self.remotes.begin():
            self.in_background(delivery, "delivery")
        if interval_s := self.services.settings.sweep_interval_s:
            self.in_background(self._sweep_regularly(interval_s), "sweep")
        self.in_background(self._close_in_the_end(), "end")
        self.is_open = True

    def in_background(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Work that nobody waits for and that closing ends."""
        task = asyncio.create_task(work, name=f"kingly-{name}")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        return task

    async def flush(self) -> None:
        """Write down what may be written a little later: uses of memories and contexts, and copies of what only a
        remote held. One flush at a time, or a use would be counted twice. Raises StoreError."""
        async with self._flushing:
            for space in {*self._spaces, *self.unwritten}:
                changes = [(buffer, change) for buffer in space.buffers if (change := buffer.take()) is not None]
                for buffer, change in changes:
                    buffer.written(await self.services.write(change))
                if not changes:
                    self.unwritten.discard(space)

    async def _flush_if_possible(self) -> None:
        """Uses and copies are worth a warning, not a failure."""
        try:
            await self.flush()
        except Exception as error:  # noqa: BLE001  # this is a background task's top, and closing must go on
            log.warning("use counts could not be written down: %s: %s", type(error).__name__, error)

    async def _flush_regularly(self) -> None:
        while True:
            await self.services.clock.sleep(self.services.settings.pace.usage_flush_s)
            await self._flush_if_possible()

    async def _sweep_regularly(self, interval_s: float) -> None:
        """Once per interval, however many processes have the project open."""
        while True:
            await self.services.clock.sleep(interval_s)
            for space in tuple(self._spaces):
                try:
                    await space.sweep_if_due(interval_s)
                except KinglyMemoryError as error:
                    log.warning("a sweep waits for its next turn: %s", error)

    # --- closing ------------------------------------------------------------------------------------------------------

    async def _close_in_the_end(self) -> None:
        """`asyncio.run` cancels whatever still runs at its end: a router that nobody closed is closed then."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Give deliveries under way a moment, write down what is buffered, and end every task and thread. Safe to call
        twice, and from any event loop. Whatever fails or is cancelled on the way, the rest is let go of."""
        if self.is_closed:
            return
        here = asyncio.get_running_loop()
        loop = self.loop or here
        if loop is not here and loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), loop))
            return
        self.is_closed = True
        _unclosed.discard(self)
        async with AsyncExitStack() as stack:  # from the last line up
            stack.push_async_callback(asyncio.to_thread, self.services.store.close)
            stack.callback(self.threads.shutdown)
            stack.callback(self.question_threads.shutdown, wait=False, cancel_futures=True)
            if self._embedding is not None:
                stack.push_async_callback(asyncio.to_thread, self._embedding.stop)
            for connection in self.remotes.connections:
                stack.callback(connection.part.stop_leading)
            if loop is not here:  # which has ended: no task and no connection of it can be waited for
                stack.push_async_callback(self._flush_if_possible)
                return
            stack.push_async_callback(self.remotes.aclose)
            stack.push_async_callback(self._flush_if_possible)
            stack.push_async_callback(self._end_tasks)
            if self._opening is not None and not self._opening.done():
                await asyncio.wait([self._opening])
            self.is_open = False
            await self.remotes.finish_sending(self.services.settings.pace.closing_s)

    async def _end_tasks(self) -> None:
        tasks = [task for task in (*self._tasks, self._opening) if task not in (None, asyncio.current_task())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_unclosed: set[Runtime] = set()
"""Those of this process that nobody has closed, also where nobody refers to them any more."""
os.register_at_fork(after_in_child=_unclosed.clear)
