"""Search: both layers are asked at the same instant, under one deadline, and their lists become one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from kingly_memory.errors import RemoteError
from kingly_memory.models import Hit, LayerReport, Memory, Query, Results, Source, Standing
from kingly_memory.ports import Clock, LocalStore, RemoteHit
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.router.local_search import LocalAnswer, LocalHit, LocalSearch
from kingly_memory.router.remote_side import RemoteSide, reason_of
from kingly_memory.settings import Settings

LEAST_BUDGET_S = 0.01
"""What a local search gets that waited for a reader thread until its time was over."""


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What the remote said in time, or why it did not."""

    hits: tuple[RemoteHit, ...]
    took_ms: float
    error: str | None = None


class Gatherer:
    """Answers queries for one router."""

    def __init__(
        self,
        *,
        store: LocalStore,
        local: LocalSearch,
        remote_side: RemoteSide | None,
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store = store
        self._local = local
        self._remote_side = remote_side
        self._threads = threads
        self._clock = clock
        self._settings = settings

    async def search(self, query: Query, *, prefer_speed: bool, include_semantic: bool) -> Results:
        """Hits of every layer that answered in time. Never raises because of the remote."""
        began = self._clock.monotonic()
        side = self._remote_side if include_semantic else None
        if prefer_speed:
            quick = await self._ask_local(query)
            if quick.hits or side is None:
                return self._local_results(quick, Source.LOCAL, began)
        if side is None:
            return self._local_results(await self._ask_local(query), Source.LOCAL, began)
        reason = side.unreachable()
        if reason is not None:
            return self._local_results(await self._ask_local(query), Source.LOCAL_FALLBACK, began, reason)
        local, remote = await asyncio.gather(self._ask_local(query), self._ask_remote(side, query))
        if remote.error is not None:
            return self._local_results(local, Source.LOCAL_FALLBACK, began, remote.error)
        return await self._hybrid_results(side, query, local, remote, began)

    async def _ask_local(self, query: Query) -> LocalAnswer:
        """Its time runs from here on, not from when a thread is free."""
        now_s, deadline_s = self._clock.now().timestamp(), time.monotonic() + self._settings.local_search_s

        def look() -> LocalAnswer:
            budget_s = max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
            return self._local.search(query, now_s=now_s, budget_s=budget_s)

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _ask_remote(self, side: RemoteSide, query: Query) -> RemoteAnswer:
        began = self._clock.monotonic()
        text, timeout_s = query.remote_text or query.text, self._settings.remote_search_s
        try:
            hits = await side.ask(
                "a search",
                lambda remote: remote.search(text, limit=query.limit, types=query.types, timeout_s=timeout_s),
            )
        except RemoteError as error:
            return RemoteAnswer((), self._since_ms(began), reason_of(error))
        return RemoteAnswer(tuple(hits), self._since_ms(began))

    def _local_results(self, answer: LocalAnswer, source: Source, began: float, failure: str | None = None) -> Results:
        hits = tuple(Hit(one.memory, one.relevance, ("local",), one.scores) for one in answer.hits)
        return Results(
            hits=hits,
            source=source,
            took_ms=self._since_ms(began),
            layers={"local": LayerReport(answer.took_ms, len(hits), answer.cut)},
            failures={} if failure is None else {"remote": failure},
            repaired=answer.repaired,
        )

    async def _hybrid_results(
        self, side: RemoteSide, query: Query, local: LocalAnswer, remote: RemoteAnswer, began: float
    ) -> Results:
        loop = asyncio.get_running_loop()
        candidates = await loop.run_in_executor(self._threads, lambda: self._joined(side, query, local, remote))
        fused = fuse(candidates, local_weight=self._settings.local_weight, limit=query.limit)
        return Results(
            hits=fused,
            source=Source.HYBRID,
            took_ms=self._since_ms(began),
            layers={
                "local": LayerReport(local.took_ms, len(local.hits), local.cut),
                "remote": LayerReport(remote.took_ms, len(remote.hits)),
            },
            repaired=local.repaired,
        )

    def _joined(self, side: RemoteSide, query: Query, local: LocalAnswer, remote: RemoteAnswer) -> list[Candidate]:
        """Each memory once, whoever found it. What a filter or another scope excludes stays out on either path.

        A copy is as the remote has it now: the text found here may be older, and its lifetime over.
        """
        delivered = self._delivered(side.name, local.hits)
        found = {hit.memory.id: _candidate(hit, in_remote=hit.memory.id in delivered) for hit in local.hits}
        now_s = self._clock.now().timestamp()
        for row, remote_hit in side.keepsakes.join(query, remote.hits):
            known = found.pop(row.memory.id, None) or _unfound(row.memory, in_local=row.position >= 0)
            is_alive = row.standing is Standing.CACHED or self._local.is_alive(row, now_s)
            if not query.admits(row.memory) or not is_alive:
                continue
            relevance = max(remote_hit.relevance, known.remote or 0.0)
            found[row.memory.id] = replace(known, memory=row.memory, remote=relevance, in_remote=True)
        return list(found.values())

    def _delivered(self, remote: str, hits: Sequence[LocalHit]) -> set[str]:
        facets = self._store.reader.facets("delivery", [f"{remote}:{hit.memory.id}" for hit in hits])
        return {owner.split(":", 1)[1] for owner, facet in facets.items() if facet["state"] == "delivered"}

    def _since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000


def _candidate(hit: LocalHit, *, in_remote: bool) -> Candidate:
    return Candidate(hit.memory, hit.relevance, None, in_local=True, in_remote=in_remote, scores=hit.scores)


def _unfound(memory: Memory, *, in_local: bool) -> Candidate:
    return Candidate(memory, None, None, in_local=in_local, in_remote=True)
