"""The same router for code that does not await: one thread of its own runs the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import datetime
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.app.sync_attention import SyncAttention
from kingly_memory.app.sync_threads import SyncThreads
from kingly_memory.app.sync_views import SyncConsensusMemory, SyncContinuumMemory, SyncMemoryStream
from kingly_memory.attention.injection import Injection
from kingly_memory.cognition.confidence import Assessment
from kingly_memory.cognition.experience.cognitive import CognitiveMemory
from kingly_memory.cognition.experience.rules import SEEDS, ExperienceRules
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.outcomes import ASSESSMENT_SIGNIFICANCE, OUTCOME_SIGNIFICANCE
from kingly_memory.cognition.routing import Routing
from kingly_memory.cognition.tasks import Task
from kingly_memory.cognition.thoughts import Thought
from kingly_memory.cognition.working import CURRENT, WorkingContext
from kingly_memory.errors import RouterClosed
from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, TTL, TYPE, Imported, Ttl
from kingly_memory.lifecycle.compaction import NORMAL
from kingly_memory.lifecycle.forgetting import WeakMemories
from kingly_memory.models import JsonObject, Memory, Page, Receipt, Results, Standing, Taken
from kingly_memory.observe import Observer
from kingly_memory.ports import Clock, LanguageModel
from kingly_memory.router.attending.injecting import TOKENS
from kingly_memory.router.delivering.drain import SyncReport
from kingly_memory.router.delivering.known import KnownRemote
from kingly_memory.router.delivering.outbox import OutboxEntry
from kingly_memory.router.sweeping.condition import ArchivePage
from kingly_memory.router.sweeping.outlook import Outlook
from kingly_memory.router.sweeping.sweeper import SweepReport
from kingly_memory.router.sweeping.sweeps import Undone
from kingly_memory.router.upkeep import Overview, PutAway
from kingly_memory.settings import Place, Settings
from kingly_memory.thread_files import ImportedFocus, ImportedThread

if TYPE_CHECKING:  # read by whoever has memories checked
    from kingly_memory.remote_names import Addresses
    from kingly_memory.retrieval.verification import VerifiedResults
    from kingly_memory.router.sweeping.lessons import Lesson

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")


class SyncMemoryRouter:
    """`MemoryRouter` with the same methods and results, without `await`; safe from any thread.

    The first verb opens it. `close()`, leaving `with`, or the end of the program closes it.
    """

    def __init__(self, router: MemoryRouter) -> None:
        self._router = router
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._is_closed = False
        self._starting = threading.Lock()

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        remote: Addresses = None,
        *,
        token: str | Mapping[str, str] | None = None,
        token_file: str | os.PathLike[str] | None = None,
        deliver_earlier: bool = False,
        project: str | None = None,
        agent: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """See `MemoryRouter.open`."""
        return cls(
            MemoryRouter.open(
                home,
                remote,
                token=token,
                token_file=token_file,
                deliver_earlier=deliver_earlier,
                project=project,
                agent=agent,
                settings=settings,
                clock=clock,
                observers=observers,
            )
        )

    @classmethod
    def at(cls, place: Place, *, settings: Settings | None = None) -> Self:
        """See `MemoryRouter.at`."""
        return cls(MemoryRouter.at(place, settings=settings))

    def __enter__(self) -> Self:
        try:
            self._call(self._router.__aenter__)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the router and end its thread. Safe to call twice."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._is_closed = True
        if loop is None or thread is None or self._pid != os.getpid():  # a fork leaves the thread behind
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @property
    def project(self) -> str:
        """See `MemoryRouter.project`."""
        return self._router.project

    @property
    def attention(self) -> SyncAttention:
        """See `MemoryRouter.attention`."""
        return SyncAttention(self._router.attention, self._call)

    @property
    def threads(self) -> SyncThreads:
        """See `MemoryRouter.threads`."""
        return SyncThreads(self._router.threads, self._call)

    @property
    def agent(self) -> str | None:
        """See `MemoryRouter.agent`."""
        return self._router.agent

    def store(
        self,
        content: str,
        key: str | None = None,
        type: str = TYPE,
        significance: float = SIGNIFICANCE,
        confidence: float = CONFIDENCE,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        ttl: Ttl = TTL,
        wait: float | None = None,
        require_remote: bool = False,
    ) -> Receipt:
        """See `MemoryRouter.store`."""
        return self._call(
            lambda: self._router.store(
                content,
                key=key,
                type=type,
                significance=significance,
                confidence=confidence,
                tags=tags,
                title=title,
                context_id=context_id,
                origin=origin,
                metadata=metadata,
                ttl=ttl,
                wait=wait,
                require_remote=require_remote,
            )
        )

    def search(
        self,
        query: str,
        limit: int = 10,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        prefer_speed: bool = False,
        include_semantic: bool = True,
        include_archived: bool = False,
        include_linked: bool = False,
        mode: str | None = None,
        top_k: int | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
        detail: str = "full",
        budget_tokens: int | None = None,
        by_ranks: bool = False,
    ) -> Results:
        """See `MemoryRouter.search`."""
        return self._call(
            lambda: self._router.search(
                query,
                limit=limit,
                types=types,
                tags=tags,
                agent=agent,
                context_id=context_id,
                since=since,
                until=until,
                prefer_speed=prefer_speed,
                include_semantic=include_semantic,
                include_archived=include_archived,
                include_linked=include_linked,
                mode=mode,
                top_k=top_k,
                min_confidence=min_confidence,
                min_similarity=min_similarity,
                fold=fold,
                detail=detail,
                budget_tokens=budget_tokens,
                by_ranks=by_ranks,
            )
        )

    def get(self, key_or_id: str) -> Memory | None:
        """See `MemoryRouter.get`."""
        return self._call(lambda: self._router.get(key_or_id))

    def list(
        self,
        limit: int = 50,
        before: int | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        include_archived: bool = False,
    ) -> Page:
        """See `MemoryRouter.list`."""
        return self._call(lambda: self._router.list(limit, before, types, tags, agent, context_id, include_archived))

    def forget(self, key_or_id: str) -> Memory | None:
        """See `MemoryRouter.forget`."""
        return self._call(lambda: self._router.forget(key_or_id))

    def restore(self, key_or_id: str) -> Memory | None:
        """See `MemoryRouter.restore`."""
        return self._call(lambda: self._router.restore(key_or_id))

    def archive(self, key_or_id: str, reason: str | None = None) -> Memory:
        """See `MemoryRouter.archive`."""
        return self._call(lambda: self._router.archive(key_or_id, reason))

    def archive_all(self, keys_or_ids: Sequence[str], reason: str | None = None) -> tuple[PutAway, ...]:
        """See `MemoryRouter.archive_all`."""
        return self._call(lambda: self._router.archive_all(keys_or_ids, reason))

    def task(
        self,
        description: str,
        *,
        context_id: str | None = None,
        approach: str | None = None,
        significance: float = OUTCOME_SIGNIFICANCE,
        tags: Sequence[str] = (),
    ) -> SyncTask:
        """See `MemoryRouter.task`; use it as `with`."""
        task = self._router.task(
            description, context_id=context_id, approach=approach, significance=significance, tags=tags
        )
        return SyncTask(task, self._call)

    def record_task_outcome(
        self,
        task: str,
        status: str = "completed",
        *,
        context_id: str | None = None,
        approach: str | None = None,
        notes: Sequence[str] = (),
        reason: str | None = None,
        duration_s: float | None = None,
        significance: float = OUTCOME_SIGNIFICANCE,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """See `MemoryRouter.record_task_outcome`."""
        return self._call(
            lambda: self._router.record_task_outcome(
                task,
                status,
                context_id=context_id,
                approach=approach,
                notes=notes,
                reason=reason,
                duration_s=duration_s,
                significance=significance,
                tags=tags,
                metadata=metadata,
            )
        )

    def assess_confidence(
        self, task: str, context_id: str | None = None, significance: float = ASSESSMENT_SIGNIFICANCE
    ) -> Assessment:
        """See `MemoryRouter.assess_confidence`."""
        return self._call(lambda: self._router.assess_confidence(task, context_id, significance))

    def route_task(self, description: str, candidates: Sequence[str]) -> Routing:
        """See `MemoryRouter.route_task`."""
        return self._call(lambda: self._router.route_task(description, candidates))

    def link_memories(
        self,
        source: str,
        target: str,
        link_type: str = "related",
        strength: float = 1.0,
        description: str | None = None,
    ) -> Link:
        """See `MemoryRouter.link_memories`."""
        return self._call(lambda: self._router.link_memories(source, target, link_type, strength, description))

    def inject(
        self, prompt: str, budget_tokens: int = TOKENS, *, session: str | None = None, explain: bool = False
    ) -> Injection:
        """See `MemoryRouter.inject`."""
        return self._call(lambda: self._router.inject(prompt, budget_tokens, session=session, explain=explain))

    def links(self, key_or_id: str) -> tuple[Link, ...]:
        """See `MemoryRouter.links`."""
        return self._call(lambda: self._router.links(key_or_id))

    def record_thought(
        self,
        content: str,
        *,
        chain_id: str | None = None,
        thought_type: str = "inference",
        parent_id: str | None = None,
        context_id: str | None = None,
        significance: float = 0.5,
    ) -> Thought:
        """See `MemoryRouter.record_thought`."""
        return self._call(
            lambda: self._router.record_thought(
                content,
                chain_id=chain_id,
                thought_type=thought_type,
                parent_id=parent_id,
                context_id=context_id,
                significance=significance,
            )
        )

    def thoughts(self, chain_id: str) -> tuple[Thought, ...]:
        """See `MemoryRouter.thoughts`."""
        return self._call(lambda: self._router.thoughts(chain_id))

    def working_context(self, context_id: str = CURRENT, include_related: bool = True) -> WorkingContext:
        """See `MemoryRouter.working_context`."""
        return self._call(lambda: self._router.working_context(context_id, include_related))

    def cognitive(self, agent_id: str | None = None, *, rules: ExperienceRules = SEEDS) -> CognitiveMemory:
        """See `MemoryRouter.cognitive`. A verb that changes it returns when that is in the store, or raises and has
        changed nothing."""
        return self._call(lambda: self._router.cognitive_waiting(agent_id, rules=rules))

    def remember(self, items: Iterable[Imported]) -> Taken:
        """See `MemoryRouter.remember`."""
        return self._call(lambda: self._router.remember(items))

    def remember_thread(self, thread: ImportedThread) -> Taken:
        """See `MemoryRouter.remember_thread`."""
        return self._call(lambda: self._router.remember_thread(thread))

    def remember_focus(self, focus: ImportedFocus) -> bool:
        """See `MemoryRouter.remember_focus`."""
        return self._call(lambda: self._router.remember_focus(focus))

    def export(self) -> Iterator[tuple[Memory, Standing]]:
        """See `MemoryRouter.export`."""
        return self._router.export()

    def sync(self, timeout: float = 30.0, remote: str | None = None) -> SyncReport:
        """See `MemoryRouter.sync`."""
        return self._call(lambda: self._router.sync(timeout, remote))

    def await_vectors(self, timeout: float | None = None) -> bool:
        """See `MemoryRouter.await_vectors`."""
        return self._call(lambda: self._router.await_vectors(timeout))

    def status(self) -> JsonObject:
        """See `MemoryRouter.status`."""
        return self._call(self._router.status)

    def sweep(self, policies: Sequence[str] | None = None, dry_run: bool = False) -> SweepReport:
        """See `MemoryRouter.sweep`."""
        return self._call(lambda: self._router.sweep(policies, dry_run))

    def compact(self, strategy: str = NORMAL, dry_run: bool = False) -> JsonObject:
        """See `MemoryRouter.compact`."""
        return self._call(lambda: self._router.compact(strategy, dry_run))

    def undo_sweep(self) -> Undone:
        """See `MemoryRouter.undo_sweep`."""
        return self._call(self._router.undo_sweep)

    def reinforce(self, key_or_id: str) -> JsonObject:
        """See `MemoryRouter.reinforce`."""
        return self._call(lambda: self._router.reinforce(key_or_id))

    def mark_used(self, keys_or_ids: Sequence[str], *, succeeded: bool = False) -> int:
        """See `MemoryRouter.mark_used`."""
        return self._call(lambda: self._router.mark_used(keys_or_ids, succeeded=succeeded))

    def feedback(self, key_or_id: str, actual: float, predicted: float = 0.5) -> float:
        """See `MemoryRouter.feedback`."""
        return self._call(lambda: self._router.feedback(key_or_id, actual, predicted))

    def weak(self, agent: str | None = None) -> WeakMemories:
        """See `MemoryRouter.weak`."""
        return self._call(lambda: self._router.weak(agent))

    def explain(self, key_or_id: str) -> JsonObject | None:
        """See `MemoryRouter.explain`."""
        return self._call(lambda: self._router.explain(key_or_id))

    def stats(self) -> JsonObject:
        """See `MemoryRouter.stats`."""
        return self._call(self._router.stats)

    def outlook(self, limit: int = 6) -> Outlook:
        """See `MemoryRouter.outlook`."""
        return self._call(lambda: self._router.outlook(limit))

    def overview(self, limit: int = 6) -> Overview:
        """See `MemoryRouter.overview`."""
        return self._call(lambda: self._router.overview(limit))

    def archived(self, limit: int = 50, before: int | None = None) -> ArchivePage:
        """See `MemoryRouter.archived`."""
        return self._call(lambda: self._router.archived(limit, before))

    def compress_and_learn(
        self,
        content: str,
        memory_type: str = "outcome",
        significance: float = SIGNIFICANCE,
        *,
        key: str | None = None,
        level: str | None = None,
        confidence: float = CONFIDENCE,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        language_model: LanguageModel | None = None,
    ) -> Lesson:
        """See `MemoryRouter.compress_and_learn`."""
        return self._call(
            lambda: self._router.compress_and_learn(
                content,
                memory_type,
                significance,
                key=key,
                level=level,
                confidence=confidence,
                tags=tags,
                title=title,
                context_id=context_id,
                origin=origin,
                metadata=metadata,
                language_model=language_model,
            )
        )

    def outbox(
        self, states: Sequence[str] = ("pending", "leased", "dead"), remote: str | None = None
    ) -> Sequence[OutboxEntry]:
        """See `MemoryRouter.outbox`."""
        return self._call(lambda: self._router.outbox(states, remote))

    def outbox_retry(self, ids: Sequence[str] | None = None, remote: str | None = None) -> int:
        """See `MemoryRouter.outbox_retry`."""
        return self._call(lambda: self._router.outbox_retry(ids, remote))

    def outbox_drop(self, ids: Sequence[str], remote: str | None = None) -> int:
        """See `MemoryRouter.outbox_drop`."""
        return self._call(lambda: self._router.outbox_drop(ids, remote))

    def remotes(self) -> tuple[KnownRemote, ...]:
        """See `MemoryRouter.remotes`."""
        return self._call(self._router.remotes)

    def forget_remote(self, address: str) -> KnownRemote:
        """See `MemoryRouter.forget_remote`."""
        return self._call(lambda: self._router.forget_remote(address))

    def search_verified(
        self,
        query: str,
        top_k: int | None = None,
        ground_truth: Sequence[str] | None = None,
        cross_verify: bool = True,
        *,
        agent: str | None = None,
        context_id: str | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        include_archived: bool = False,
        include_semantic: bool = True,
        language_model: LanguageModel | None = None,
        mode: str | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
    ) -> VerifiedResults:
        """See `MemoryRouter.search_verified`."""
        return self._call(
            lambda: self._router.search_verified(
                query,
                top_k,
                ground_truth,
                cross_verify,
                agent=agent,
                context_id=context_id,
                types=types,
                tags=tags,
                since=since,
                until=until,
                include_archived=include_archived,
                include_semantic=include_semantic,
                language_model=language_model,
                mode=mode,
                min_confidence=min_confidence,
                min_similarity=min_similarity,
                fold=fold,
            )
        )

    def stream(self, agent_id: str | None = None) -> SyncMemoryStream:
        """See `MemoryRouter.stream`."""
        return SyncMemoryStream(self._router.stream(agent_id), self._call)

    @property
    def consensus(self) -> SyncConsensusMemory:
        """See `MemoryRouter.consensus`."""
        return SyncConsensusMemory(self._router.consensus, self._call)

    @property
    def continuum(self) -> SyncContinuumMemory:
        """See `MemoryRouter.continuum`."""
        return SyncContinuumMemory(self._router.continuum, self._call)

    def __repr__(self) -> str:
        return repr(self._router).replace("MemoryRouter", "SyncMemoryRouter", 1)

    async def _end(self) -> None:
        """Close the router, then end the calls that other threads still wait for."""
        await self._router.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _call(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop = self._running_loop()
        waiting = asyncio.run_coroutine_threadsafe(begin(), loop)
        try:
            return waiting.result()
        except CancelledError:
            raise RouterClosed from None
        except BaseException:  # Ctrl-C ends the wait, so the work on the loop must end too
            waiting.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._is_closed:
                raise RouterClosed
            if self._loop is None:
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="kingly-portal", daemon=True)
                self._thread.start()
                _open_routers().add(self)
            if self._pid != os.getpid():
                raise RouterClosed("process")
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Holds this router as long as it is open: what nobody refers to any more is closed at the end, too."""
        loop.run_forever()


@cache
def _open_routers() -> WeakSet[SyncMemoryRouter]:
    """The routers of this process. Those that nobody has closed are closed when the program ends.

    `atexit` would be too late: by then thread pools take no more work, and closing needs them. So this is registered
    where concurrent.futures registers the end of its pools, and runs before it.
    """
    routers: WeakSet[SyncMemoryRouter] = WeakSet()

    def close_all() -> None:
        for router in list(routers):
            try:
                router.close()
            except Exception as error:  # noqa: BLE001  # the end of the program: the others are still to be closed
                log.warning("a memory router could not be closed: %s: %s", type(error).__name__, error)

    threading._register_atexit(close_all)  # type: ignore[attr-defined]  # noqa: SLF001  # there is no public name
    return routers


class SyncTask:
    """`Task` for code that does not await: use it as `with memory.task(…) as task:`."""

    def __init__(self, task: Task, call: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]) -> None:
        self._task = task
        self._call = call

    @property
    def description(self) -> str:
        return self._task.description

    @property
    def context(self) -> WorkingContext | None:
        """See `Task`."""
        return self._task.context

    @property
    def receipt(self) -> Receipt | None:
        """See `Task`."""
        return self._task.receipt

    def __enter__(self) -> Self:
        self._call(self._task.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(lambda: self._task.__aexit__(kind, error, trace))

    def note(self, text: str) -> None:
        """See `Task.note`."""
        self._call(lambda: self._task.note(text))

    def fail(self, reason: str) -> None:
        """See `Task.fail`."""
        self._task.fail(reason)
