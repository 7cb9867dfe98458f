"""Search: both layers are asked at once, in the words that exist, under one deadline; their lists become one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from kingly_memory.errors import RemoteError
from kingly_memory.models import Hit, LayerReport, Memory, Query, Results, Source, Standing
from kingly_memory.ports import Clock, LocalStore, RemoteHit
from kingly_memory.retrieval.blending import is_worded
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.router.local_search import LocalAnswer, LocalHit, LocalSearch
from kingly_memory.router.remote_side import RemoteSide, reason_of
from kingly_memory.router.wording import Wording, spelt
from kingly_memory.settings import Settings

PATIENT_SHARE = 0.8
"""Of the remote's time: one that had less of it, on a crowded machine, is not to blame for being late."""
LEAST_BUDGET_S = 0.01
"""What a layer gets whose time was over before it could be asked."""
WORDING_SHARE = 0.2
"""Of the remote's time: it is asked as the user wrote it when finding the right words takes longer."""
POOL, LEAST_POOL = 2, 40
"""For each hit that is wanted so many local ones are held against the remote's, and at least that many: what the remote
names may be further down here. As many are looked at anyway."""


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
        reason = None if side is None else side.unreachable()
        if side is None or prefer_speed or reason is not None:
            local = await self._ask_local(query)
            if side is None or (prefer_speed and any(is_worded(hit.scores) for hit in local.hits)):
                return self._local_results(query, local, Source.LOCAL, began)
            if reason is not None:
                return self._local_results(query, local, Source.LOCAL_FALLBACK, began, reason)
            remote = await self._ask_remote(side, spelt(query, local.repaired), began)
        else:
            local, remote = await self._ask_both(side, query, began)
        if remote.error is not None:
            return self._local_results(query, local, Source.LOCAL_FALLBACK, began, remote.error)
        return await self._hybrid_results(side, query, local, remote, began)

    async def _ask_local(self, query: Query) -> LocalAnswer:
        """Its time runs from here on, not from when a thread is free."""
        now_s, deadline_s = self._local_deadline()

        def look() -> LocalAnswer:
            return self._local.search(query, now_s=now_s, budget_s=_left_s(deadline_s))

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _ask_both(self, side: RemoteSide, query: Query, began: float) -> tuple[LocalAnswer, RemoteAnswer]:
        """The local layer finds the wording and goes on; from then on the remote is asked in the words that exist."""
        loop = asyncio.get_running_loop()
        worded: asyncio.Future[Wording] = loop.create_future()
        now_s, deadline_s = self._local_deadline()
        most = max(POOL * query.limit, LEAST_POOL)

        def look() -> LocalAnswer:
            wording = self._local.word(query, budget_s=_left_s(deadline_s))
            loop.call_soon_threadsafe(worded.set_result, wording)
            left_s = _left_s(deadline_s)
            return self._local.search(query, now_s=now_s, budget_s=left_s, wording=wording, most=most)

        async def ask() -> RemoteAnswer:
            await asyncio.wait({worded}, timeout=WORDING_SHARE * self._settings.remote_search_s)
            repaired = worded.result().repaired if worded.done() else {}
            return await self._ask_remote(side, spelt(query, repaired), began)

        return await asyncio.gather(loop.run_in_executor(self._threads, look), ask())

    async def _ask_remote(self, side: RemoteSide, query: Query, began: float) -> RemoteAnswer:
        """Its time has run since the search began."""
        asked = self._clock.monotonic()
        text, limit = query.remote_text or query.text, query.remote_limit or query.limit
        timeout_s = max(self._settings.remote_search_s - (asked - began), LEAST_BUDGET_S)
        try:
            hits = await side.ask(
                "a search",
                lambda remote: remote.search(text, limit=limit, types=query.types, timeout_s=timeout_s),
                patient=timeout_s >= PATIENT_SHARE * self._settings.remote_search_s,
            )
        except RemoteError as error:
            return RemoteAnswer((), self._since_ms(asked), reason_of(error))
        return RemoteAnswer(tuple(hits), self._since_ms(asked))

    def _local_deadline(self) -> tuple[float, float]:
        """The time of day in Unix seconds, and when the local layer's time is over on the monotonic clock."""
        return self._clock.now().timestamp(), time.monotonic() + self._settings.local_search_s

    def _local_results(
        self, query: Query, answer: LocalAnswer, source: Source, began: float, failure: str | None = None
    ) -> Results:
        hits = tuple(Hit(one.memory, one.relevance, ("local",), one.scores) for one in answer.hits[: query.limit])
        return Results(
            hits=hits,
            source=source,
            took_ms=self._since_ms(began),
            layers={"local": LayerReport(answer.took_ms, len(hits), answer.cut)},
            failures={} if failure is None else {"remote": failure},
            repaired=answer.repaired,
            asked=query.asked,
        )

    async def _hybrid_results(
        self, side: RemoteSide, query: Query, local: LocalAnswer, remote: RemoteAnswer, began: float
    ) -> Results:
        loop = asyncio.get_running_loop()
        candidates = await loop.run_in_executor(self._threads, lambda: self._joined(side, query, local, remote))
        fused = fuse(
            candidates,
            local_weight=self._settings.local_weight,
            limit=query.limit,
            floor=min(hit.relevance for hit in remote.hits) if len(remote.hits) >= query.limit else 0.0,
            way=self._settings.fusion,
        )
        return Results(
            hits=fused,
            source=Source.HYBRID,
            took_ms=self._since_ms(began),
            layers={
                "local": LayerReport(local.took_ms, len(local.hits), local.cut),
                "remote": LayerReport(remote.took_ms, len(remote.hits)),
            },
            repaired=local.repaired,
            asked=query.asked,
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


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
