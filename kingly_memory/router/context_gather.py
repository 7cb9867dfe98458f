"""The working context from both layers, asked at the same instant like a search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from kingly_memory.cognition.working import WorkingContext
from kingly_memory.errors import RemoteError
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Query, Source, Standing
from kingly_memory.ports import Clock, Remote, RemoteHit
from kingly_memory.router.contexts import AtHand, Contexts
from kingly_memory.router.local_search import LocalSearch
from kingly_memory.router.remote_side import RemoteSide, reason_of
from kingly_memory.settings import Settings

T = TypeVar("T")

Related = Callable[[Sequence[MemoryId]], tuple[JsonObject, ...]]


@dataclass(frozen=True, slots=True)
class _Told:
    """What the remote holds for a context, or why it did not say."""

    hits: tuple[RemoteHit, ...] = ()
    error: str | None = None


class ContextGatherer:
    """Puts working contexts together for one router."""

    def __init__(
        self,
        project: str,
        *,
        contexts: Contexts,
        related: Related,
        local: LocalSearch,
        side: RemoteSide | None,
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._project = project
        self._contexts = contexts
        self._related = related
        self._local = local
        self._side = side
        self._threads = threads
        self._clock = clock
        self._settings = settings

    async def gather(self, context_id: str, *, include_related: bool) -> WorkingContext:
        """What is at hand in a context. Never raises because of the remote."""
        if self._side is None:
            source, at_hand, told = Source.LOCAL, await self._at_hand(context_id), _Told()
        elif (reason := self._side.unreachable()) is not None:
            source, at_hand, told = Source.LOCAL_FALLBACK, await self._at_hand(context_id), _Told(error=reason)
        else:
            at_hand, told = await asyncio.gather(self._at_hand(context_id), self._ask(self._side, context_id))
            source = Source.HYBRID if told.error is None else Source.LOCAL_FALLBACK
        remote = await self._in_thread(lambda: self._joined(context_id, told.hits))
        named = list(dict.fromkeys(memory.id for memory in (*at_hand.items, *remote)))
        related = await self._in_thread(lambda: self._related(named)) if include_related else None
        return WorkingContext(
            context_id=context_id,
            items=at_hand.items,
            remote=remote,
            related=related,
            source=source,
            last_updated=at_hand.last_updated,
            tokens=at_hand.context.tokens,
            whispers=at_hand.context.whispers,
            reason=told.error,
        )

    async def _at_hand(self, context_id: str) -> AtHand:
        return await self._in_thread(lambda: self._contexts.at_hand(context_id))

    async def _ask(self, side: RemoteSide, context_id: str) -> _Told:
        timeout_s = self._settings.remote_search_s

        async def question(remote: Remote) -> list[RemoteHit]:
            return await remote.working_memory(context_id, timeout_s=timeout_s)

        try:
            return _Told(tuple(await side.ask("for a working context", question)))
        except RemoteError as error:
            return _Told(error=reason_of(error))

    def _joined(self, context_id: str, hits: Sequence[RemoteHit]) -> tuple[Memory, ...]:
        """Each memory once, as this machine knows it where it does: what was forgotten or ended here stays so."""
        if self._side is None or not hits:
            return ()
        query = Query("", self._project, context_id=context_id)
        now_s = self._clock.now().timestamp()
        found = {
            row.memory.id: row.memory
            for row, _ in self._side.keepsakes.join(query, hits)
            if query.admits(row.memory) and (row.standing is Standing.CACHED or self._local.is_alive(row, now_s))
        }
        return tuple(found.values())

    async def _in_thread(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)
