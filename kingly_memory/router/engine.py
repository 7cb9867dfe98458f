"""What one space of a router sees, and the verbs as work on values that were checked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, InvalidSetting, KinglyMemoryError, RemoteUnavailable, RouterClosed
from kingly_memory.lifecycle.lifetimes import LIFETIMES
from kingly_memory.lifecycle.plan import STRENGTH, TIERS, Policies
from kingly_memory.models import REMOTE_ABOVE, Assist, DeliveryState, JsonObject, Memory, Query, Receipt, Results
from kingly_memory.observe import MemoriesForgotten, MemoriesFound, MemoriesSwept, MemoryStored
from kingly_memory.observe import log as event_log
from kingly_memory.ports import LanguageModel, Row, Transaction
from kingly_memory.router import contexts, write
from kingly_memory.router.contexts import Contexts
from kingly_memory.router.delivery.routes import UNNAMED, called
from kingly_memory.router.lifecycle.alive import UsageBuffer
from kingly_memory.router.runtime import Buffer, Runtime
from kingly_memory.router.search.embedding import Embedding
from kingly_memory.router.search.local import LocalSearch
from kingly_memory.router.search.meaning import MeaningSearch, VectorSearch
from kingly_memory.router.search.search import AS_FOUND, Request, Search
from kingly_memory.router.sweep.steward import SweepReport
from kingly_memory.router.view import Station, View
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.validation import Draft

if TYPE_CHECKING:
    from kingly_memory.router.purging import Purged  # read by whoever has memories checked
    from kingly_memory.router.search.verified import VerifiedRetriever

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")

WHISPERS_WAITED_FOR = 5
"""A store waits for the whispers that it makes due, unless it was a very long note."""


class Engine:
    """Does the work of a `MemoryRouter` in one space; what all its spaces share is the runtime's. Implements
    `router.access.Access`, through which its own parts reach the store."""

    def __init__(self, runtime: Runtime, station: Station | None = None) -> None:
        """In the router's own space, or as a view for another space, agent or context."""
        self.runtime = runtime
        self._is_view = station is not None
        self.station = station = station or runtime.station
        self.services = services = runtime.services
        self.store, self.settings, self.clock = services.store, services.settings, services.clock
        self.strength, self.remotes, self.sweeper = runtime.strength, runtime.remotes, runtime.sweeper
        self.space, self.reader = station.space, services.reader
        store, settings, clock = self.store, self.settings, self.clock
        reader, meaning = self.reader, runtime.meaning
        self.injections = runtime.injections(station.space)
        self.usage = UsageBuffer(station.space)
        self._is_closed = False
        self.local = LocalSearch(reader, self.usage)
        """The local side of searches: by meaning too, where there are vectors."""
        self.embedding: Embedding | None = None
        if meaning is not None:
            vectors = VectorSearch(station.space, meaning, reader.vectors, runtime.question_threads)
            self.embedding = Embedding(vectors, store=store, clock=clock, thread=runtime.embedding_thread)
            weight, hurry = settings.words_weight, self.embedding.hurry
            self.local = MeaningSearch(reader, self.usage, vectors=vectors, words_weight=weight, hurry=hurry)
        self._is_embedding = False
        self.sides = sides = runtime.remotes.sides_of(station.space)
        self.view = View(station, store=store, local=self.local, clock=clock)
        self.searching = Search(self, self.view, self.local, sides, embedder=runtime.embedder)
        self.contexts = Contexts(
            station, reader=reader, local=self.local, clock=clock, rules=runtime.context_rules, usage=self.usage
        )
        self.buffers: tuple[Buffer, ...] = (self.usage, *(side.cache for side in sides))
        runtime.add(self)

    def scoped(self, station: Station) -> Engine:
        """The engine of a view, for another space, agent or context: it shares everything else. Nobody has to close
        it."""
        return Engine(self.runtime, station)

    async def opened(self, *, goes_first: bool = True) -> None:
        """Open the router, if nobody has. Every verb begins with this, and goes before what is taken in, unless it
        waits for that. Raises RouterClosed, and what opening raises."""
        if not self._called(goes_first=goes_first):
            await self.runtime.open()

    def _called(self, *, goes_first: bool = True) -> bool:
        """A verb is called. Whether the router is open for it."""
        self.check_open()
        self.runtime.unwritten.add(self)
        if goes_first:
            self.services.callers.called_s = time.monotonic()
        return self.runtime.is_open and self.runtime.loop is asyncio.get_running_loop()

    def check_open(self) -> None:
        if self._is_closed or self.runtime.is_closed:
            raise RouterClosed

    async def close(self) -> None:
        """Let go of everything; of a view, of nothing but itself. Safe to call twice."""
        if not self._is_view:
            await self.runtime.close()
        self._is_closed = True

    # --- reading and writing ------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        return self.clock.now().timestamp()

    async def read(self, look: Callable[[], T]) -> T:
        """Look on a reader thread. Raises RouterClosed, StoreError, and what the look raises."""
        await self.opened()
        return await asyncio.get_running_loop().run_in_executor(self.runtime.threads, self.reader.in_one_go, look)

    def write(self, change: Callable[[Transaction], T]) -> Awaitable[T]:
        """Run a change in a transaction; it is durable when this has been awaited. Raises RouterClosed, StoreError, and
        what the change raises."""
        return self.store.commit(change) if self._called() else self._write_once_open(change)

    async def _write_once_open(self, change: Callable[[Transaction], T]) -> T:
        await self.runtime.open()
        return await self.store.commit(change)

    def write_context(self) -> WriteContext:
        """What a change needs to know, as of now."""
        return WriteContext(
            self.station.space,
            self.station.agent,
            self.station.routes,
            self.runtime.lifetimes,
            self.clock.now(),
            self.runtime.context_rules,
            self.settings.tiers,
            self.settings.redact_secrets,
            self.contexts.last_use,
        )

    def wake(self) -> None:
        """Wake what sends and what makes vectors, because something was stored."""
        for connection in self.remotes.connections:
            connection.wake()
        if self.embedding is not None:
            self.embedding.wanted.set()
            if self._is_view and not self._is_embedding:
                self._is_embedding = True
                self.runtime.in_background(self._embed(self.embedding), "vectors")

    async def _embed(self, embedding: Embedding) -> None:
        """Make the vectors that a view lacks: it has no task that goes on doing that."""
        try:
            await embedding.complete()
        except Exception as error:  # noqa: BLE001  # a background task's top
            log.warning("memories are not found by their meaning for now: %s: %s", type(error).__name__, error)
        finally:
            self._is_embedding = False

    async def flush(self) -> None:
        """Write down what may be written a little later, of every space of the router. Raises StoreError."""
        await self.runtime.flush()

    # --- storing ------------------------------------------------------------------------------------------------------

    def put(
        self, draft: Draft, *, noted: bool = True, if_revision: int | None = None, folds: bool = False
    ) -> Awaitable[Receipt]:
        """Store a draft that has been checked, `noted` in its working context; see `write.store`. Raises StoreError,
        RevisionConflict."""
        placed, context = self._in_context(draft), self.write_context()
        return self.keep(write.store(placed, context, noted=noted, if_revision=if_revision, folds=folds))

    def _in_context(self, draft: Draft) -> Draft:
        """In the context that is meant by what it says. Most say none."""
        if draft.context_id is None and self.station.context_id is None:
            return draft
        return replace(draft, context_id=self.contexts.resolve_to_store(draft.context_id))

    async def put_all(self, drafts: Sequence[Draft], *, once: bool = False) -> list[Receipt]:
        """Store drafts that have been checked, in one transaction; `once`: see `write.store_once`. Answers for those
        that were stored. Raises StoreError."""
        context, began_s = self.write_context(), self.clock.monotonic()
        store = write.store_once if once else partial(write.store, folds=True)
        changes = [store(self._in_context(draft), context) for draft in drafts]
        outcomes = await self.write(lambda transaction: [change(transaction) for change in changes])
        stored = [outcome for outcome in outcomes if outcome is not None]
        await self.follow(*stored, began_s=began_s)
        return [one.receipt for one in stored]

    def put_at_remotes(
        self, draft: Draft, wait_s: float, *, require: bool, if_revision: int | None
    ) -> Awaitable[Receipt]:
        """Store a draft and wait for every remote that it is for. Raises RemoteUnavailable where one is required and
        has not taken it by then."""
        if require and draft.significance <= REMOTE_ABOVE:
            raise InvalidInput("require_remote", f"significance {draft.significance:g} stays on this machine")
        storing = self.put(draft, if_revision=if_revision, folds=True)
        return self._at_remotes(storing, wait_s, require=require) if wait_s > 0 or require else storing

    async def _at_remotes(self, storing: Awaitable[Receipt], wait_s: float, *, require: bool) -> Receipt:
        receipt = await storing
        if wait_s > 0 and receipt.delivery is DeliveryState.PENDING and self.remotes.connections:
            await self.remotes.wait_for(receipt.id, wait_s)
            memory_id = receipt.id
            now = await self.read(lambda: self.view.receipt(memory_id))
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
        reasons = (f"{called(label)} is {offline[label]}" for label in kept_from or [UNNAMED] if label in offline)
        return "; ".join([receipt.reason, *reasons])

    async def keep(self, change: Callable[[Transaction], Stored]) -> Receipt:
        """Run a change that stores a memory, with what comes after a store. Raises what `write` raises."""
        began_s = self.clock.monotonic()
        stored = await self.write(change)
        await self.follow(stored, began_s=began_s)
        return stored.receipt

    async def follow(self, *stored: Stored, began_s: float | None = None) -> None:
        """What comes after a store: its context is in use, observers and deliveries are told, whispers are stored.

        A whisper that is due stays due, so whatever prevents it is no failure of the store.
        """
        self.wake()
        took_ms = 0.0 if began_s is None else (self.clock.monotonic() - began_s) * 1000
        is_heard = self.services.observers or event_log.isEnabledFor(logging.DEBUG)
        for outcome in stored:
            if is_heard:
                self.services.emit(MemoryStored(outcome.receipt.id, outcome.receipt.revision, took_ms))
            if outcome.context_id is None:
                continue
            self.contexts.enter(outcome.context_id)
            self.usage.note(outcome.at_hand, self.now_s(), times=0)
            if outcome.whispers_due > WHISPERS_WAITED_FOR:
                self.runtime.in_background(self._whisper(outcome.context_id, outcome.whispers_due), "whispers")
            elif outcome.whispers_due:
                await self._whisper(outcome.context_id, outcome.whispers_due)

    async def forget(self, names: Sequence[str]) -> list[Memory]:
        """Forget memories in one transaction, each named by key or id. Those that there were; raises InvalidInput,
        StoreError."""
        context, began_s = self.write_context(), self.clock.monotonic()
        changes = [write.forget(name, context) for name in names]
        found = await self.write(lambda transaction: [change(transaction) for change in changes])
        gone = [forgotten.memory for forgotten in found if forgotten is not None]
        self.wake()
        took_ms = (self.clock.monotonic() - began_s) * 1000
        self.services.emit(MemoriesForgotten(tuple(memory.id for memory in gone), took_ms))
        return gone

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

    # --- purging ------------------------------------------------------------------------------------------------------

    async def purge(self, rows: Sequence[Row], whole: Sequence[str], *, force: bool, dry_run: bool) -> Purged:
        """Purge memories, and documents and logs of `whole` spaces, or only say what that would take away. Raises
        InvalidInput where one is pinned and it is not said to `force` it, and then purges nothing; StoreError, after
        which it can be repeated: tombstones among the rows are looked for in the files again."""
        from kingly_memory.router import purging  # few routers purge

        planned = await self.read(lambda: purging.plan(self.reader, rows, whole))
        if dry_run:
            return planned
        if not force and (count := planned.pinned):
            many = "memory is" if count == 1 else "memories are"
            raise InvalidInput("force", f"{count:,} {many} pinned, and nothing was purged; unpin first, or say force")
        await self.flush()
        gone: list[Memory] = []
        by_remote: Counter[str] = Counter()
        copies = lines = 0

        def erase_records(texts: Sequence[str]) -> None:
            nonlocal lines
            lines += self.services.erase_records(texts)

        for start in range(0, len(planned.ids), purging.AT_ONCE):
            some = planned.ids[start : start + purging.AT_ONCE]
            done = await self.write(purging.purge(some, self.write_context(), erase_records))
            self.wake()
            gone += done.memories
            by_remote.update(done.by_remote)
            copies += done.copies
        documents = 0
        for space in whole:
            agents = {row.memory.scope.agent for row in rows if row.memory.scope.space == space}
            documents += await self.write(purging.purge_rest(space, agents, self.clock.now()))
        ids = tuple(memory.id for memory in gone)
        buried = {*ids, *(row.memory.id for row in rows if row.is_tombstone)}
        scrubbed = await self.read(lambda: self.store.scrub(buried, whole))
        await self.write(purging.scrubbed({*buried, *whole}))
        said = [*gone, *(row.memory for row in rows)]
        await self.read(lambda: purging.purge_prompts(self.runtime.injections, buried, said, whole))
        return purging.Purged(
            ids,
            documents=documents,
            remotes=dict(by_remote),
            log_lines=lines,
            is_complete=scrubbed.is_complete,
            elsewhere=copies,
            left_in=scrubbed.left_in,
            users=planned.users,
        )

    # --- searching ----------------------------------------------------------------------------------------------------

    async def find(
        self,
        query: Query,
        request: Request = AS_FOUND,
        *,
        assist: Assist = Assist.NONE,
        language_model: LanguageModel | None = None,
        is_search: bool = False,
    ) -> Results:
        """Answer a query that has been checked, from every layer and as the request says; `assist` is what that model
        does for it, else the configured one. What a verb looks up for itself is no search of anybody's, so `stats` does
        not count whether it found something."""
        await self.opened()
        if query.context_id is not None:
            query = replace(query, context_id=self.contexts.resolve(query.context_id))
        is_checked = request.plan is not None and self.settings.verification_enabled
        if assist is not Assist.NONE:
            results = await self._assisted(query, request, assist, language_model)
        else:
            results = await self.searching.find(query, request, self._verdicts if is_checked else None)
        self.note_found([hit.memory.id for hit in results if not hit.archived], is_search=is_search)
        found = tuple((hit.memory, hit.relevance) for hit in results)
        self.services.emit(MemoriesFound(results.source.value, results.took_ms, query.text, found))
        return results

    async def _assisted(self, query: Query, request: Request, assist: Assist, own: LanguageModel | None) -> Results:
        from kingly_memory.router.search.assisted import Assisted

        async with AsyncExitStack() as stack:
            try:
                model, is_here = await stack.enter_async_context(self.model(own))
                reason = "there is none; KINGLY_LLM_URL and KINGLY_LLM_MODEL name one"
            except InvalidSetting as error:  # the search can do without
                model, is_here, reason = None, False, str(error)
            assisted = Assisted(self, self.searching, self.view, assist, model, is_here, reason)
            return await assisted.find(query, request)

    @asynccontextmanager
    async def model(self, own: LanguageModel | None = None) -> AsyncIterator[tuple[LanguageModel | None, bool]]:
        """The caller's own language model, which may be anywhere, else the configured one, and whether that is on this
        machine. Raises InvalidSetting."""
        if own is not None:
            yield own, False
            return
        async with self.runtime.language_model() as configured:
            yield configured

    async def _verdicts(self, results: Results, question: str) -> dict[str, JsonObject]:
        async with self.model() as (model, is_here):
            verified = await self.retriever(model, is_here).verify(results, question, top_k=max(len(results), 1))
        return {hit.memory.id: hit.verification.to_json() for hit in verified}

    def retriever(self, model: LanguageModel | None, is_here: bool) -> VerifiedRetriever:
        from kingly_memory.router.search.verified import VerifiedRetriever

        return VerifiedRetriever(self.searching, model, clock=self.clock, model_is_here=is_here)

    def note_found(self, memory_ids: Sequence[str], *, is_search: bool = True) -> None:
        """A search has answered with these, which are alive: each was used, and the search found something or not. What
        has ended does not come back by being found."""
        note = self.usage.note_search if is_search else self.usage.note
        note(memory_ids, self.now_s())

    # --- sweeping -----------------------------------------------------------------------------------------------------

    async def sweep(self, policies: Policies, *, dry_run: bool) -> SweepReport:
        """Carry out the plan of those policies, or only report it. Raises SweepUnderWay, StoreError."""
        await self.flush()
        report = await self.sweeper.sweep(policies, self.write_context(), dry_run=dry_run)
        kept = self.settings.revisions_kept
        crowded = await self.read(lambda: self.reader.with_revisions(kept))
        report = replace(report, revisions=sum(crowded.values()) - kept * len(crowded))
        if not dry_run:
            await self.write(write.drop_revisions(crowded, kept))
            self.wake()
            await self.write(contexts.tidy(self.now_s(), self.runtime.context_rules))
            from kingly_memory.router import documents, purging  # which little else of this class needs

            while await self.write(documents.tidy(self.now_s())):
                pass
            await purging.scrub_rest(self.services)
            await self.read(lambda: self.store.read_share(self.now_s()))
            self.services.emit(MemoriesSwept(report.archived, report.erased, report.promoted, report.demoted))
        return report

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
        return Policies.chosen(names, usual, self.strength, settings.tiers)
