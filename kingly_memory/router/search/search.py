"""Search, from the question to what is shown: this machine and every remote are asked at once and under one deadline,
their lists become one, and a mode chooses from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import TYPE_CHECKING

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import RemoteError
from kingly_memory.models import DeliveryState, Hit, JsonObject, LayerReport, MemoryStatus, Query, Results, Source
from kingly_memory.ports import Clock, Embedder, RemoteHit, Row, StoreReader
from kingly_memory.retrieval.fusion import Candidate, fuse, is_worded
from kingly_memory.router.search.local import LEAST_BUDGET_S, LocalAnswer, LocalSearch, Wording, spelt
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.search.request import AS_FOUND, Request, listed, local_results, look, relevant, shaped
from kingly_memory.router.view import View
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.retrieval.modes import ModePlan

Verify = Callable[[Results, str], Awaitable[Mapping[str, JsonObject]]]
"""Checks what was found for a question, and says by id what came of that."""

PATIENT_SHARE = 0.8
"""Of the remote's time: one that had less of it, on a crowded machine, is not to blame for being late."""
WORDING_SHARE = 0.2
"""Of the remote's time: it is asked as the user wrote it when finding the right words takes longer."""
POOL, LEAST_POOL = 2, 40
"""For each hit that is wanted so many local ones are held against the remote's, and at least that many: what the remote
names may be further down here. As many are looked at anyway."""
CHOOSING_SHARE = 0.5
"""Of the time for the local side: what choosing in a mode may take after the candidates are found."""


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a remote answered in time, or why it did not."""

    side: RemoteSide
    hits: tuple[RemoteHit, ...]
    took_ms: float
    error: str | None = None


class Search:
    """Answers queries for one router. Implements ports.Searcher."""

    def __init__(
        self,
        *,
        view: View,
        reader: StoreReader,
        local: LocalSearch,
        sides: Sequence[RemoteSide],
        embedder: Callable[[], Embedder] | None,
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        """`embedder` compares memories with each other in the modes; without one they are compared word by word."""
        self._view = view
        self._reader = reader
        self._local = local
        self._sides = tuple(sides)
        self._new_embedder = embedder
        self._threads = threads
        self._clock = clock
        self._settings = settings

    async def find(
        self,
        query: Query,
        request: Request = AS_FOUND,
        *,
        prefer_speed: bool = False,
        include_semantic: bool = True,
        verify: Verify | None = None,
    ) -> Results:
        """What every layer that answered in time found, as one list and as the request says; `verify` checks that list
        before it is cut to a budget. Never raises because of a remote."""
        loop, settings = asyncio.get_running_loop(), self._settings
        began, now_s = self._clock.monotonic(), self._clock.now().timestamp()
        # The time of this machine runs from here on, not from when a thread is free.
        deadline_s = time.monotonic() + settings.local_search_s
        sides = self._sides if include_semantic else ()
        news = [side.news for side in self._sides]
        failures = {side.label: reason for side in sides if (reason := side.unreachable()) is not None}
        reached = [side for side in sides if side.label not in failures]
        at_once = bool(reached) and not prefer_speed
        pool = request.pool(query.limit)

        # Candidates: this machine finds the words and goes on; then remotes can be asked in those that exist.
        worded: asyncio.Future[Wording] = loop.create_future()

        def look_here() -> LocalAnswer:
            wording = self._local.word(query, budget_s=max(deadline_s - time.monotonic(), LEAST_BUDGET_S))
            loop.call_soon_threadsafe(worded.set_result, wording)
            wide = max(POOL * pool, LEAST_POOL) if at_once else 0
            return look(self._local, query, request, now_s=now_s, deadline_s=deadline_s, pool=wide, wording=wording)

        async def ask_there() -> list[RemoteAnswer]:
            await asyncio.wait({worded}, timeout=WORDING_SHARE * settings.remote_search_s)
            spelt_query = spelt(query, worded.result().repaired if worded.done() else {})
            return await asyncio.gather(*(self._ask(side, spelt_query, pool, began) for side in reached))

        here = loop.run_in_executor(self._threads, look_here)
        answers: list[RemoteAnswer] = []
        if at_once:
            local, answers = await asyncio.gather(here, ask_there())
        else:
            local = await here
            if prefer_speed and any(is_worded(hit.scores) for hit in local.hits):
                sides, reached = (), []
            if reached:
                answers = await ask_there()
        if news != [side.news for side in self._sides]:  # what others stored or forgot has come in meanwhile
            worded, deadline_s = loop.create_future(), time.monotonic() + settings.local_search_s
            local = await loop.run_in_executor(self._threads, look_here)
        failures |= {answer.side.label: answer.error for answer in answers if answer.error is not None}

        # One list: of all layers, in the order of the mode or without repeats, and cut to what was asked for.
        def one_list() -> Results:
            found = self._fused(query, request, local, [one for one in answers if one.error is None])
            if request.plan is None:
                return listed(found, request, query)
            return relevant(self._chosen(found, query, request, request.plan), request)

        def shape(found: Results) -> Results:
            return shaped(found, query, request, self._view, settings.local_search_s)

        if verify is None:
            found = await loop.run_in_executor(self._threads, lambda: shape(one_list()))
        else:
            found = await loop.run_in_executor(self._threads, one_list)
            checked = replace(found, verdicts=await verify(found, query.text))
            found = await loop.run_in_executor(self._threads, lambda: shape(checked))
        if sides and found.source is Source.LOCAL:
            found = replace(found, source=Source.LOCAL_FALLBACK)
        took_ms = (self._clock.monotonic() - began) * 1000
        return replace(found, took_ms=took_ms, failures={**(failures if sides else {}), **found.failures})

    @cached_property
    def _embedder(self) -> Embedder | None:
        """Made when a mode first needs it: most processes never search in one."""
        return None if self._new_embedder is None else self._new_embedder()

    async def _ask(self, side: RemoteSide, query: Query, pool: int, search_began: float) -> RemoteAnswer:
        """Each remote has the same time, whatever becomes of the others. It runs from the beginning of the search."""
        began = self._clock.monotonic()
        text, limit = query.remote_text or query.text, query.remote_limit or pool
        timeout_s = max(self._settings.remote_search_s - (began - search_began), LEAST_BUDGET_S)
        hits: list[RemoteHit] = []
        error = None
        catching_up = asyncio.ensure_future(side.catch_up(timeout_s))
        try:
            hits = await side.ask(
                "a search",
                lambda remote: remote.search(
                    text, space=query.space, limit=limit, types=query.types, timeout_s=timeout_s
                ),
                patient=timeout_s >= PATIENT_SHARE * self._settings.remote_search_s,
            )
        except RemoteError as failed:
            error = failed.reason
        await catching_up
        return RemoteAnswer(side, tuple(hits), (self._clock.monotonic() - began) * 1000, error)

    def _chosen(self, found: Results, query: Query, request: Request, plan: ModePlan) -> Results:
        from kingly_memory.router.search import moded

        embedder = self._embedder  # loaded once per process, and its first search is not cut for that
        deadline_s = time.monotonic() + self._settings.local_search_s * CHOOSING_SHARE
        return moded.chosen(
            found, query, request, plan, embedder=embedder, now=self._clock.now(), deadline_s=deadline_s
        )

    def _fused(self, query: Query, request: Request, local: LocalAnswer, answered: Sequence[RemoteAnswer]) -> Results:
        """All that the layers found, as one list."""
        found = local_results(query, local)
        if not answered:
            return found
        layers = {answer.side.label: LayerReport(answer.took_ms, len(answer.hits)) for answer in answered}
        found = replace(found, source=Source.HYBRID, layers={**found.layers, **layers})
        # What has ended answers only where nothing that is alive does.
        is_ended = any(hit.archived for hit in local.hits)
        candidates = self._candidates(query, () if is_ended else local.hits, answered)
        if is_ended and not candidates:
            return found
        asked_for = query.remote_limit or request.pool(query.limit)
        full = [min(hit.relevance for hit in answer.hits) for answer in answered if len(answer.hits) >= asked_for]
        # Of several remotes the one that has left out the best.
        hits = fuse(candidates, local_weight=self._settings.local_weight, floor=max(full, default=0.0))
        return replace(found, hits=hits)

    def _candidates(self, query: Query, local: Sequence[Hit], answered: Sequence[RemoteAnswer]) -> list[Candidate]:
        """Each memory once, whoever found it. What a filter or another scope excludes stays out
        on every path. The best that any remote says of a memory counts.

        A copy is as the remote has it now: the text found here may be older, and its lifetime over.
        """
        sides = [answer.side.name for answer in answered]
        deliveries = self._reader.deliveries(sides, [hit.memory.id for hit in local])
        delivered = {
            memory_id
            for each in deliveries.values()
            for memory_id, delivery in each.items()
            if delivery.state is DeliveryState.DELIVERED
        }
        candidates = {
            hit.memory.id: Candidate(
                hit.memory, hit.relevance, None, True, hit.memory.id in delivered, hit.layers, hit.scores
            )
            for hit in local
        }
        copies: dict[tuple[str, str], tuple[RemoteSide, Row]] = {}
        now_s = self._clock.now().timestamp()
        for answer in answered:
            for stored, hit in answer.side.cache.join(query, answer.hits):
                row = stored
                if row.status is MemoryStatus.CACHED and hit.memory_id is not None:
                    # What two remotes hold of the same memory is one copy, the first one's.
                    holder, copy = copies.setdefault((hit.memory_id, hit.content), (answer.side, row))
                    if holder is not answer.side:
                        candidates.pop(row.memory.id, None)
                        row = copy
                candidate = candidates.pop(row.memory.id, None)  # what was found here has been looked at
                is_alive = candidate or row.status is MemoryStatus.CACHED or self._local.is_alive(row, now_s)
                if query.admits(row.memory) and is_alive:
                    candidate = candidate or Candidate(row.memory, None, None, row.position >= 0, True, ())
                    relevance = max(hit.relevance, candidate.remote or 0.0)
                    layers = tuple(dict.fromkeys([*candidate.layers, answer.side.label]))
                    candidates[row.memory.id] = replace(
                        candidate, memory=row.memory, remote=relevance, in_remote=True, layers=layers
                    )
        return list(candidates.values())
