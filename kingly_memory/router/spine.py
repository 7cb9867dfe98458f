"""What the router's verbs stand on: its parts and background tasks, opening and closing, reading and writing."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import cached_property
from types import TracebackType
from typing import Self, TypeVar

from kingly_memory import intake
from kingly_memory.cognition.working import ContextRules
from kingly_memory.errors import KinglyMemoryError, RouterClosed
from kingly_memory.lifecycle.lifetimes import Lifetimes
from kingly_memory.lifecycle.rules import LifecycleRules
from kingly_memory.models import DeliveryState, Receipt
from kingly_memory.observe import Events, Observer
from kingly_memory.ports import Clock, Embedder, InjectionLog, LocalStore, Transaction
from kingly_memory.router.access import Access
from kingly_memory.router.branch import Ground, RemotePart
from kingly_memory.router.context_gather import ContextGatherer
from kingly_memory.router.contexts import Contexts
from kingly_memory.router.delivering.routes import UNNAMED, called
from kingly_memory.router.landing import Landing
from kingly_memory.router.linking.associations import Associations
from kingly_memory.router.lock import Lock
from kingly_memory.router.remotes import Remotes
from kingly_memory.router.searching.embedding import Embedding
from kingly_memory.router.searching.gather import Gatherer
from kingly_memory.router.searching.local_search import LocalLayer, LocalSearch
from kingly_memory.router.searching.local_side import LocalSide
from kingly_memory.router.searching.moded import ModedSearch
from kingly_memory.router.searching.vector_search import VectorSearch
from kingly_memory.router.sweeping.activity import Lookups
from kingly_memory.router.sweeping.sweeper import Sweeper
from kingly_memory.router.usage import UsageBuffer
from kingly_memory.router.view import Station, View
from kingly_memory.router.write import WriteContext
from kingly_memory.router.write_behind import WriteBehind
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")


class Spine:
    """What every verb stands on: the parts, the background tasks, and the ways to the store and back."""

    def __init__(
        self,
        station: Station,
        agent: str | None,
        *,
        store: LocalStore,
        remotes: Sequence[RemotePart] = (),
        settings: Settings,
        clock: Clock,
        observers: tuple[Observer, ...] = (),
        chance: Callable[[], float] = random.random,
        embedder: Callable[[], Embedder] | None = None,
        sweeping: Lock | None = None,
        meaning: Callable[[], Embedder] | None = None,
        injections: InjectionLog | None = None,
    ) -> None:
        """`remotes` are those that the station's routes name. `embedder` compares memories with each other in the
        modes; `meaning` makes the vectors that searches are answered by besides the words, if any; `injections`
        remembers what sessions were told, if anything does."""
        self._station = station
        self._agent = agent
        self._store = store
        self._settings = settings
        self._clock = clock
        self._injections = injections
        self._events = Events(observers)
        self._lifetimes = Lifetimes.of(settings)
        self._usage = UsageBuffer()
        self._lookups = Lookups(station.project)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="kingly-reader")
        self._vectors = None if meaning is None else VectorSearch(station.project, meaning, store.reader.vectors)
        self._embedding = None if self._vectors is None else Embedding(self._vectors, store=store, clock=clock)
        words = LocalSearch(store.reader, self._usage.last_use)
        local = self._local_layer(words)
        self._view = View(station, store=store, local=words, clock=clock)
        self._associations = Associations(station, view=self._view, reader=store.reader, local=words, clock=clock)
        self._landing = Landing()
        ground = Ground(station.project, store, self._landing, clock, settings, self._events, chance)
        self._remotes = Remotes(remotes, station.routes, ground)
        sides = self._remotes.sides
        self._gatherer = Gatherer(
            store=store, local=local, sides=sides, threads=self._threads, clock=clock, settings=settings
        )
        self._moded = ModedSearch(
            gatherer=self._gatherer,
            local=local,
            embedder=embedder,
            threads=self._threads,
            clock=clock,
            settings=settings,
        )
        self._tasks: list[asyncio.Task[None]] = []
        rules = ContextRules(settings.context_items, settings.working_lifetime_s, settings.whisper_tokens)
        self._context_rules = rules
        self._contexts = Contexts(
            station.project, agent, reader=store.reader, local=words, clock=clock, rules=rules, usage=self._usage
        )
        self._context_gatherer = ContextGatherer(
            station.project,
            contexts=self._contexts,
            associations=self._associations,
            reader=store.reader,
            local=words,
            sides=sides,
            threads=self._threads,
            clock=clock,
            settings=settings,
        )
        self._behind = WriteBehind(
            [self._usage, self._lookups, self._contexts, *(side.keepsakes for side in sides)],
            store=store,
            landing=self._landing,
            clock=clock,
            pause_s=settings.usage_flush_s,
        )
        self._sweeper = Sweeper(store=store, landing=self._landing, lock=sweeping or Lock())
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def _opened(self) -> None:
        """Open the router, if nobody has. Every verb begins with this. Raises RouterClosed, and what opening raises."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._opening is None:
            self._loop = loop
            self._opening = asyncio.create_task(self._open(), name="kingly-opening")
        if loop is not self._loop:
            raise RouterClosed("event loop")
        if not self._is_open:
            await asyncio.shield(self._opening)  # others may wait for it too
            self._check_open()

    async def _open(self) -> None:
        await self._begin()
        self._is_open = True

    async def _begin(self) -> None:
        """Start what goes on in the background."""
        self._tasks = [asyncio.create_task(self._behind.run(), name="kingly-flush")]
        if self._embedding is not None:
            await self._embedding.prepare()
            self._tasks.append(asyncio.create_task(self._embedding.run(), name="kingly-vectors"))
        # Queued before any store can be, so that the first memory finds its remotes known.
        self._tasks += [asyncio.create_task(one, name="kingly-delivery") for one in self._remotes.begin()]
        self._tasks.append(asyncio.create_task(self._close_in_the_end(), name="kingly-end"))

    async def _close_in_the_end(self) -> None:
        """`asyncio.run` cancels whatever still runs at its end: a router that nobody closed is closed then."""
        try:
            await asyncio.Event().wait()
        finally:
            if not self._is_closed:
                await self.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give deliveries under way a moment, write down what is buffered, and let go of everything.

        Safe to call twice. Whatever fails or is cancelled on the way, the rest is let go of all the same.
        """
        if self._is_closed:
            return
        self._is_closed = True
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._store.close)
            stack.callback(self._threads.shutdown)
            if self._embedding is not None:
                stack.push_async_callback(asyncio.to_thread, self._embedding.stop)
            stack.push_async_callback(self._remotes.aclose)
            stack.push_async_callback(self._behind.flush_if_possible)
            stack.push_async_callback(self._end_tasks)
            if self._opening is not None and not self._opening.done():
                await asyncio.wait([self._opening])
            self._is_open = False
            await self._remotes.finish_sending(self._settings.closing_s)

    def _local_layer(self, words: LocalSearch) -> LocalLayer:
        """The local side of searches: by meaning too, where there are vectors."""
        if self._vectors is None or self._embedding is None:
            return words
        return LocalSide(
            words,
            self._vectors,
            self._store.reader.vectors,
            words_weight=self._settings.words_weight,
            outdated=self._embedding.note,
            hurry=self._embedding.hurry,
        )

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        """Work that nobody waits for and that closing ends."""
        task = asyncio.create_task(work, name="kingly-whispers")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _end_tasks(self) -> None:
        tasks = [task for task in (*self._tasks, self._opening) if task not in (None, asyncio.current_task())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _awaited(self, receipt: Receipt, seconds: float) -> Receipt:
        """The receipt once every remote that the memory is for has answered, or the seconds are over."""
        row = await self._read(lambda: self._store.reader.row(receipt.id))
        if row is None or not self._remotes.branches:
            return receipt
        await self._remotes.wait_for(row.memory, seconds)
        return await self._read(lambda: self._view.receipt(receipt.id)) or receipt

    async def _why_not_there(self, receipt: Receipt) -> str:
        """What keeps a memory from its remotes, by what this machine knows of them as well."""
        try:
            offline = await self._read(self._view.offline_reasons) or {}
        except KinglyMemoryError:
            offline = {}
        kept_from = [label for label, at in receipt.remotes.items() if at["delivery"] != DeliveryState.DELIVERED]
        told = (f"{called(label)} is {offline[label]}" for label in kept_from or [UNNAMED] if label in offline)
        return "; ".join([receipt.reason, *told])

    def _patience_s(self, wait: float | None, require_remote: bool) -> float:
        if wait is None:
            return self._settings.call_timeout_s if require_remote else 0.0
        return intake.seconds("wait", wait)

    def _wake(self, *memory_ids: str) -> None:
        """Something was stored; these are not new, or may not be."""
        self._remotes.wake()
        if self._embedding is not None:
            self._embedding.wake(memory_ids)

    def _write_context(self) -> WriteContext:
        return WriteContext(
            self._station.project,
            self._agent,
            self._station.routes,
            self._lifetimes,
            self._clock.now(),
            self._context_rules,
            self._rules.tiers,
        )

    @cached_property
    def _rules(self) -> LifecycleRules:
        return LifecycleRules.of(self._settings)

    @cached_property
    def _access(self) -> Access:
        return Access(self._store.reader, self._read, self._write, self._write_context, self._wake)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RouterClosed

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        await self._opened()
        return await self._landing.of(self._store.write(change))

    async def _read(self, look: Callable[[], T]) -> T:
        await self._opened()
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)
