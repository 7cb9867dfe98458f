"""The engine of one router: its parts, its background tasks, and the verbs as work on values that were checked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from kingly_memory.cognition.context import ContextRules
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, KinglyMemoryError, RemoteUnavailable, RouterClosed
from kingly_memory.lifecycle.lifetimes import LIFETIMES
from kingly_memory.lifecycle.plan import STRENGTH, TIERS, Policies
from kingly_memory.lifecycle.policies import LifecycleRules
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, Memory, Query, Receipt, Results
from kingly_memory.observe import Events, MemoriesSwept, MemoryStored, Observer
from kingly_memory.ports import Clock, Embedder, InjectionLog, LanguageModel, LocalStore, Row, StoreReader, Transaction
from kingly_memory.router import contexts, write
from kingly_memory.router.agents.memory import AgentMemories
from kingly_memory.router.context_gather import ContextGatherer
from kingly_memory.router.contexts import Contexts
from kingly_memory.router.link_keeper import RemotePart, Services
from kingly_memory.router.linking import Associations
from kingly_memory.router.remotes import RemoteConnection, Remotes
from kingly_memory.router.routes import UNNAMED, Routes, called
from kingly_memory.router.search.embedding import Embedding
from kingly_memory.router.search.local import LocalLayer, LocalSearch
from kingly_memory.router.search.meaning import MeaningSearch, VectorSearch
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.search.request import AS_FOUND, Request
from kingly_memory.router.search.search import Search
from kingly_memory.router.shared_threads import SharedThreads
from kingly_memory.router.store_futures import StoreFutures
from kingly_memory.router.sweep import Lock, Sweeper, SweepReport
from kingly_memory.router.usage import UsageBuffer
from kingly_memory.router.view import Station, View
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.settings import Settings
from kingly_memory.validation import Draft

if TYPE_CHECKING:
    from kingly_memory.router.purging import Purged  # read by whoever has memories checked
    from kingly_memory.router.search.verified import VerifiedRetriever

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")

ModelInUse = AbstractAsyncContextManager[tuple[LanguageModel | None, bool]]
"""The language model that the settings name, if they name one, and whether it runs on this machine."""

WHISPERS_WAITED_FOR = 5
"""A store waits for the whispers that it makes due, unless it was a very long note."""


class Buffer(Protocol):
    """Something that collects what is to be written a little later."""

    def take(self) -> Callable[[Transaction], Any] | None:
        """A change that writes it; None when there is nothing. It still counts here until it is `written`."""
        ...

    def written(self, outcome: Any) -> None:
        """The change is durable and had that outcome. Without this call the same is taken again."""
        ...


class Engine:
    """Does the work of one `MemoryRouter`. Implements `router.access.Access`, through which families of verbs that have
    a class of their own reach the store."""

    def __init__(
        self,
        station: Station,
        *,
        store: LocalStore,
        settings: Settings,
        clock: Clock,
        remotes: Sequence[RemotePart] = (),
        observers: tuple[Observer, ...] = (),
        chance: Callable[[], float] = random.random,
        embedder: Callable[[], Embedder] | None = None,
        meaning: Callable[[], Embedder] | None = None,
        sweeping: Lock | None = None,
        injections: Callable[[str], InjectionLog] | None = None,
        language_model: Callable[[], ModelInUse] = lambda: nullcontext((None, False)),
        name_at: Callable[[str], str | None] = lambda _: None,
        erase_records: Callable[[Sequence[str]], int] = lambda _: 0,
    ) -> None:
        """`remotes` are those that the station's routes name. `embedder` compares memories with each other in the
        modes; `meaning` makes the vectors that searches are answered by besides the words; `injections` remembers what
        sessions of a space were told; `name_at` says what the store calls the remote at an address; `erase_records`
        takes records with one of these texts out of the audit, and counts them."""
        self.store = store
        self.settings = settings
        self.clock = clock
        self.language_model = language_model
        self.name_at = name_at
        self._erase_records = erase_records
        self.rules = LifecycleRules.of(settings)
        self.events = Events(observers)
        self.store_futures = StoreFutures()
        self.threads = SharedThreads("kingly-reader", 4)
        self.sweeper = Sweeper(store=store, store_futures=self.store_futures, lock=sweeping or Lock())
        self._context_rules = ContextRules(settings.context_items, settings.lifetimes.working, settings.whisper_tokens)
        self._embedder, self._meaning, self._injection_log = embedder, meaning, injections
        self._embedding_threads = SharedThreads("kingly-vectors", 1)
        routes = station.routes or Routes(tuple(part.route for part in remotes))
        services = Services(store, clock, settings, self.events, chance)
        connections = [
            RemoteConnection(part, routes, services, space=station.space, store_futures=self.store_futures)
            for part in remotes
        ]
        self.remotes = Remotes(connections, routes)
        self._flushing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_open = False
        self.is_closed = False
        self._root = self
        """The router's own engine, which has opened what all its views use."""
        self._views: WeakSet[Engine] = WeakSet()
        self._unwritten: set[Engine] = set()
        """Views that may have something to write down; they stay until that is done, whoever lets go of them."""
        self.settle_in(station, self.remotes.sides)

    def settle_in(self, station: Station, sides: Sequence[RemoteSide]) -> None:
        """What each space has of its own."""
        store, reader, clock = self.store, self.store.reader, self.clock
        self.station = station
        self.injections = None if self._injection_log is None else self._injection_log(station.space)
        self.usage = UsageBuffer(station.space)
        self._agent_memories: AgentMemories | None = None
        words = LocalSearch(reader, self.usage.last_use)
        self._vectors = None if self._meaning is None else VectorSearch(station.space, self._meaning, reader.vectors)
        self.embedding = (
            None
            if self._vectors is None
            else Embedding(self._vectors, store=store, clock=clock, thread=self._embedding_threads)
        )
        self._is_embedding = False
        self.view = View(station, store=store, local=words, clock=clock)
        self.associations = Associations(station, view=self.view, reader=reader, local=words, clock=clock)
        self.searching = Search(
            view=self.view,
            reader=reader,
            local=self.local_layer(words),
            sides=sides,
            embedder=self._embedder,
            threads=self.threads,
            clock=clock,
            settings=self.settings,
        )
        self.contexts = Contexts(
            station.space,
            station.agent,
            station.context_id,
            reader=reader,
            local=words,
            clock=clock,
            rules=self._context_rules,
            usage=self.usage,
        )
        self.context_gatherer = ContextGatherer(
            self.contexts, self.associations, sides, threads=self.threads, patience_s=self.settings.remote_search_s
        )
        self.buffers: tuple[Buffer, ...] = (self.usage, *(side.cache for side in sides))

    def scoped(self, station: Station) -> Engine:
        """The engine of a view, for another space, agent or context: it shares everything else. Nobody has to close it,
        and the router forgets it when nobody refers to it."""
        view = copy(self)
        view.settle_in(station, [one.side_of(station.space) for one in self.remotes.connections])
        self._views.add(view)
        return view

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def opened(self) -> None:
        """Open the router, if nobody has. Every verb begins with this. Raises RouterClosed, and what opening raises."""
        self.check_open()
        if self._root is not self:
            self._unwritten.add(self)
            await self._root.opened()
            return
        loop = asyncio.get_running_loop()
        if self._opening is None:
            self._loop = loop
            self._opening = asyncio.create_task(self._open(), name="kingly-opening")
        if loop is not self._loop:
            raise RouterClosed("event loop")
        if not self.is_open:
            await asyncio.shield(self._opening)  # others may wait for it too
            self.check_open()

    def check_open(self) -> None:
        if self.is_closed or self._root.is_closed:
            raise RouterClosed

    async def _open(self) -> None:
        """Start what goes on in the background."""
        self._in_background(self._flush_regularly(), "flush")
        if self.embedding is not None:
            await self.embedding.prepare()
            self._in_background(self.embedding.run(), "vectors")
        # Queued before any store can be, so that the first memory finds its remotes known.
        for delivery in self.remotes.begin():
            self._in_background(delivery, "delivery")
        if self.settings.sweep_interval_s:
            self._in_background(self._sweep_regularly(self.settings.sweep_interval_s), "sweep")
        self._in_background(self._close_in_the_end(), "end")
        self.is_open = True

    def _in_background(self, work: Coroutine[None, None, None], name: str) -> None:
        """Work that nobody waits for and that closing ends."""
        task = asyncio.create_task(work, name=f"kingly-{name}")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _close_in_the_end(self) -> None:
        """`asyncio.run` cancels whatever still runs at its end: a router that nobody closed is closed then."""
        try:
            await asyncio.Event().wait()
        finally:
            if not self.is_closed:
                await self.close()

    async def close(self) -> None:
        """Store what agents experienced, and let go of everything; of a view, of nothing but itself.
        Safe to call twice. Whatever fails or is cancelled on the way, the rest is let go of all the same."""
        try:
            for one in (self, *self._views) if self._root is self else (self,):
                await one.settle()
        finally:
            if self._root is self:
                await self._let_go()
            else:
                self.is_closed = True

    async def settle(self) -> None:
        """Have what agents experienced stored."""
        if self._agent_memories is not None:
            await self._agent_memories.settle()

    async def _let_go(self) -> None:
        """Give deliveries under way a moment, write down what is buffered, and end every task and thread."""
        if self.is_closed:
            return
        self.is_closed = True
        async with AsyncExitStack() as stack:  # from the last line up
            stack.push_async_callback(asyncio.to_thread, self.store.close)
            stack.callback(self.threads.shutdown)
            if self.embedding is not None:
                stack.push_async_callback(asyncio.to_thread, self.embedding.stop)
            stack.push_async_callback(self.remotes.aclose)
            stack.push_async_callback(self._flush_if_possible)
            stack.push_async_callback(self._end_tasks)
            if self._opening is not None and not self._opening.done():
                await asyncio.wait([self._opening])
            self.is_open = False
            await self.remotes.finish_sending(self.settings.pace.closing_s)

    async def _end_tasks(self) -> None:
        tasks = [task for task in (*self._tasks, self._opening) if task not in (None, asyncio.current_task())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- reading and writing ------------------------------------------------------------------------------------------

    @property
    def space(self) -> str:
        return self.station.space

    @property
    def reader(self) -> StoreReader:
        return self.store.reader

    def now_s(self) -> float:
        return self.clock.now().timestamp()

    async def read(self, look: Callable[[], T]) -> T:
        """Look on a reader thread. Raises RouterClosed, StoreError, and what the look raises."""
        await self.opened()
        return await asyncio.get_running_loop().run_in_executor(self.threads, look)

    async def write(self, change: Callable[[Transaction], T]) -> T:
        """Run a change in a transaction; it is durable when this returns. Raises RouterClosed, StoreError, and what the
        change raises."""
        await self.opened()
        return await self.store_futures.of(self.store.write(change))

    def write_context(self) -> WriteContext:
        """What a change needs to know, as of now."""
        return WriteContext(
            self.space,
            self.station.agent,
            self.station.routes,
            self.settings.lifetimes,
            self.clock.now(),
            self._context_rules,
            self.rules.tiers,
            self.settings.redact_secrets,
            self.contexts.last_use,
        )

    def wake(self) -> None:
        """Something was stored."""
        self.remotes.wake()
        if self.embedding is not None:
            self.embedding.wake()
            if self._root is not self and not self._is_embedding:
                self._is_embedding = True
                self._in_background(self._embed(self.embedding), "vectors")

    async def _embed(self, embedding: Embedding) -> None:
        """Make the vectors that a view lacks: it has no task that goes on doing that."""
        try:
            await embedding.complete()
        except Exception as error:  # noqa: BLE001  # a background task's top
            log.warning("memories are not found by their meaning for now: %s: %s", type(error).__name__, error)
        finally:
            self._is_embedding = False

    async def flush(self) -> None:
        """Write down what may be written a little later: uses of memories and contexts, and copies of what only a
        remote held. One flush at a time, or a use would be counted twice. Raises StoreError."""
        async with self._flushing:
            for engine in (self._root, *self._unwritten):
                changes = [(buffer, change) for buffer in engine.buffers if (change := buffer.take()) is not None]
                for buffer, change in changes:
                    buffer.written(await self.store_futures.of(self.store.write(change)))
                if not changes:
                    self._unwritten.discard(engine)

    async def _flush_if_possible(self) -> None:
        """Uses and copies are worth a warning, not a failure."""
        try:
            await self.flush()
        except Exception as error:  # noqa: BLE001  # this is a background task's top, and closing must go on
            log.warning("use counts could not be written down: %s: %s", type(error).__name__, error)

    async def _flush_regularly(self) -> None:
        while True:
            await self.clock.sleep(self.settings.pace.usage_flush_s)
            await self._flush_if_possible()

    # --- storing ------------------------------------------------------------------------------------------------------

    async def put(
        self, draft: Draft, *, noted: bool = True, if_revision: int | None = None, folds: bool = False
    ) -> Receipt:
        """Store a draft that has been checked, `noted` in its working context; see `write.store`. Raises StoreError,
        RevisionConflict."""
        placed, context = self._placed(draft), self.write_context()
        return await self.keep(
            lambda transaction: write.store(
                transaction, placed, context, noted=noted, if_revision=if_revision, folds=folds
            )
        )

    def _placed(self, draft: Draft) -> Draft:
        """In the context that is meant by what it says. Most say none."""
        if draft.context_id is None and self.station.context_id is None:
            return draft
        return replace(draft, context_id=self.contexts.resolve_to_store(draft.context_id))

    async def put_all(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """Store drafts that have been checked, in one transaction. Raises StoreError."""
        placed, context = [self._placed(draft) for draft in drafts], self.write_context()
        stored = await self.write(
            lambda transaction: [write.store(transaction, one, context, folds=True) for one in placed]
        )
        await self.follow(*stored)
        return [one.receipt for one in stored]

    async def put_at_remotes(self, draft: Draft, wait_s: float, *, require: bool, if_revision: int | None) -> Receipt:
        """Store a draft and wait for every remote that it is for. Raises RemoteUnavailable where one is required and
        has not taken it by then."""
        if require and draft.significance <= REMOTE_ABOVE:
            raise InvalidInput("require_remote", f"significance {draft.significance:g} stays on this machine")
        receipt = await self.put(draft, if_revision=if_revision, folds=True)
        if wait_s > 0 and receipt.delivery is DeliveryState.PENDING and self.remotes.connections:
            row = await self.read(lambda: self.reader.row(receipt.id))
            if row is not None:
                await self.remotes.wait_for(row.memory, wait_s)
                now = await self.read(lambda: self.view.receipt(row.memory.id))
                receipt = receipt if now is None else replace(now, sightings=receipt.sightings, secrets=receipt.secrets)
        if require and receipt.delivery is not DeliveryState.DELIVERED:
            raise RemoteUnavailable(await self._why_not_there(receipt), receipt=receipt)
        return receipt

    async def _why_not_there(self, receipt: Receipt) -> str:
        """What keeps a memory from its remotes, by what this machine knows of them as well."""
        try:
            offline = await self.read(self.view.offline_reasons) or {}
        except KinglyMemoryError:
            offline = {}
        kept_from = [label for label, at in receipt.remotes.items() if at["delivery"] != DeliveryState.DELIVERED]
        told = (f"{called(label)} is {offline[label]}" for label in kept_from or [UNNAMED] if label in offline)
        return "; ".join([receipt.reason, *told])

    async def keep(self, change: Callable[[Transaction], Stored]) -> Receipt:
        """Run a change that stores a memory, with what comes after a store. Raises what `write` raises."""
        stored = await self.write(change)
        await self.follow(stored)
        return stored.receipt

    async def follow(self, *stored: Stored) -> None:
        """What comes after a store: its context is in use, observers and deliveries are told, whispers are stored.

        A whisper that is due stays due, so whatever prevents it is no failure of the store.
        """
        self.wake()
        for one in stored:
            self.events.emit(MemoryStored(one.receipt.id, one.receipt.revision))
            if one.context_id is None:
                continue
            self.contexts.enter(one.context_id)
            self.usage.note(one.at_hand, self.now_s(), times=0)
            if one.whispers_due > WHISPERS_WAITED_FOR:
                self._in_background(self._whisper(one.context_id, one.whispers_due), "whispers")
            elif one.whispers_due:
                await self._whisper(one.context_id, one.whispers_due)

    async def _whisper(self, context_id: str, due: int) -> None:
        """Store the whispers that are due. What another process notes meanwhile it whispers itself, or the next note
        does."""
        try:
            for _ in range(due):
                found = await self.read(lambda: self.contexts.due(context_id))
                if found is None or not await self.write(write.whisper(found, self.write_context())):
                    return
        except KinglyMemoryError as error:
            log.warning("a whisper waits for the next note: %s", error)

    def take_away(self, memory: Memory) -> None:
        """No agent's memory that is open here remembers it any longer."""
        if self._agent_memories is not None:
            self._agent_memories.take_away(memory)

    # --- purging ------------------------------------------------------------------------------------------------------

    async def purge(self, rows: Sequence[Row], whole: Sequence[str], *, force: bool, dry_run: bool) -> Purged:
        """Purge memories, and documents and logs of `whole` spaces, or only say what that would take away. Raises
        InvalidInput where one is pinned and it is not said to `force` it, and then purges nothing; StoreError, after
        which it can be repeated: tombstones among the rows are looked for in the files again."""
        from kingly_memory.router import purging  # few routers purge

        planned = await self.read(lambda: purging.plan(self.reader, rows, whole))
        if dry_run:
            return planned
        if not force:
            purging.check_not_pinned(planned)
        await self.flush()
        gone: list[Memory] = []
        told: Counter[str] = Counter()
        copies = 0
        for start in range(0, len(planned.ids), purging.AT_ONCE):
            some = planned.ids[start : start + purging.AT_ONCE]
            done = await self.write(purging.purge(some, self.write_context()))
            for memory in done.memories:
                self.take_away(memory)
            self.wake()
            gone += done.memories
            told.update(done.told)
            copies += done.copies
        documents = 0
        for space in whole:
            agents = {row.memory.scope.agent for row in rows if row.memory.scope.space == space}
            documents += await self.write(purging.purge_rest(space, agents))
        ids = tuple(one.id for one in gone)
        texts = [one.content for one in gone]
        buried = {*ids, *(row.memory.id for row in rows if row.is_tombstone)}
        lines = await self.read(lambda: self._erase_records(texts))  # first: a purge that is repeated knows no text
        scrubbed = await self.read(lambda: self.store.scrub(buried, whole))
        return purging.Purged(
            ids,
            documents=documents,
            remotes=dict(told),
            log_lines=lines,
            is_complete=scrubbed.is_complete,
            elsewhere=copies,
            left_in=scrubbed.left_in,
            users=planned.users,
        )

    # --- searching ----------------------------------------------------------------------------------------------------

    async def find(self, query: Query, *, prefer_speed: bool = False, include_semantic: bool = True) -> Results:
        """Answer a query that has been checked, from every layer."""
        await self.opened()
        return await self.search(query, AS_FOUND, prefer_speed=prefer_speed, include_semantic=include_semantic)

    async def look(self, query: Query) -> Results:
        """What a search finds, before anybody counts it as used."""
        await self.opened()
        return await self.searching.find(query)

    async def search(self, query: Query, request: Request, *, prefer_speed: bool, include_semantic: bool) -> Results:
        """The same, answered as the request says."""
        if query.context_id is not None:
            query = replace(query, context_id=self.contexts.resolve(query.context_id))
        is_checked = request.plan is not None and self.settings.verification_enabled
        results = await self.searching.find(
            query,
            request,
            prefer_speed=prefer_speed,
            include_semantic=include_semantic,
            verify=self._verdicts if is_checked else None,
        )
        self.note_found([hit.memory.id for hit in results if not hit.archived])
        return results

    async def _verdicts(self, results: Results, question: str) -> dict[str, JsonObject]:
        async with self.language_model() as (model, is_here):
            verified = await self.retriever(model, is_here).verify(results, question, top_k=max(len(results), 1))
        return {one.memory.id: one.verification.to_json() for one in verified}

    def retriever(self, model: LanguageModel | None, is_here: bool) -> VerifiedRetriever:
        from kingly_memory.router.search.verified import VerifiedRetriever

        return VerifiedRetriever(self.searching, model, clock=self.clock, model_is_here=is_here)

    def note_found(self, memory_ids: Sequence[str]) -> None:
        """A search has answered with these, which are alive: each was used, and the search found something or not. What
        has ended does not come back by being found."""
        self.usage.note_search(memory_ids, self.now_s())

    def local_layer(self, words: LocalSearch) -> LocalLayer:
        """The local side of searches: by meaning too, where there are vectors."""
        if self._vectors is None or self.embedding is None:
            return words
        return MeaningSearch(
            words,
            self._vectors,
            self.reader.vectors,
            words_weight=self.settings.words_weight,
            hurry=self.embedding.hurry,
        )

    # --- sweeping -----------------------------------------------------------------------------------------------------

    async def sweep(self, policies: Policies, *, dry_run: bool) -> SweepReport:
        """Carry out the plan of those policies, or only report it. Raises SweepUnderWay, StoreError."""
        await self.flush()
        report = await self.sweeper.sweep(policies, self.write_context(), dry_run=dry_run)
        kept = self.settings.revisions_kept
        crowded = await self.read(lambda: self.reader.with_revisions(kept))
        report = replace(report, revisions=sum(crowded.values()) - kept * len(crowded))
        if not dry_run:
            await self.write(write.let_go(crowded, kept))
            self.wake()
            await self.write(contexts.tidy(self.now_s(), self._context_rules))
            from kingly_memory.router import documents  # which no other work of this class needs

            while await self.write(documents.tidy(self.now_s())):
                pass
            self.events.emit(MemoriesSwept(report.archived, report.erased, report.promoted, report.demoted))
        return report

    async def _sweep_regularly(self, interval_s: float) -> None:
        """Once per interval, however many processes have the project open."""
        while True:
            await self.clock.sleep(interval_s)
            for engine in (self, *self._views):
                try:
                    await engine.sweep_if_due(interval_s)
                except KinglyMemoryError as error:
                    log.warning("a sweep waits for its next turn: %s", error)

    async def sweep_if_due(self, interval_s: float) -> None:
        last_s = await self.read(lambda: self.sweeper.last_s(self.space))
        # One that lies in the future, because a clock was ahead, puts off nothing.
        if last_s is None or not 0 <= self.now_s() - last_s < interval_s:
            await self.sweep(self.policies(None), dry_run=False)

    def policies(self, names: Sequence[str] | None) -> Policies:
        """The policies of those names; without, lifetimes and whatever the settings switch on. Raises InvalidInput."""
        settings = self.settings
        usual = (
            LIFETIMES,
            *(STRENGTH,) * settings.auto_forget_enabled,
            *(TIERS,) * settings.tiers_enabled,
        )
        return Policies.chosen(names, usual, self.rules)

    # --- agents -------------------------------------------------------------------------------------------------------

    @property
    def agent_memories(self) -> AgentMemories:
        """What agents remember, made when it is first asked for."""
        if self._agent_memories is None:
            self._agent_memories = AgentMemories(
                self,
                store=self.store,
                store_futures=self.store_futures,
                check_open=self.check_open,
                stored=self._after_experience,
            )
        return self._agent_memories

    def _after_experience(self, new: Memory | None) -> None:
        if new is not None:
            self.events.emit(MemoryStored(new.id, new.revision))
        self.wake()
