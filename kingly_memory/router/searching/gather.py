"""Search: both layers are asked at once, in the words that exist, under one deadline; their lists become one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from kingly_memory.errors import RemoteError
from kingly_memory.models import Hit, LayerReport, Memory, Query, Results, Source, Standing
from kingly_memory.ports import Clock, LocalStore, RemoteHit
from kingly_memory.retrieval.blending import is_worded
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.router.searching.local_search import LEAST_BUDGET_S, LocalAnswer, LocalHit, LocalLayer
from kingly_memory.router.searching.remote_side import RemoteSide, reason_of
from kingly_memory.router.searching.shaping import AS_FOUND, Shape
from kingly_memory.router.searching.wording import Wording, spelt
from kingly_memory.settings import Settings

PATIENT_SHARE = 0.8
"""Of the remote's time: one that had less of it, on a crowded machine, is not to blame for being late."""
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for. The local side's time is over at `deadline_s` on the monotonic clock; `now_s` is the time of
    day in Unix seconds, and the search began at `began` on the clock."""

    query: Query
    shape: Shape
    began: float
    now_s: float
    deadline_s: float

    @property
    def pool(self) -> int:
        return self.shape.pool(self.query.limit)


class Gatherer:
    """Answers queries for one router."""

    def __init__(
        self,
        *,
        store: LocalStore,
        local: LocalLayer,
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

    async def search(
        self, query: Query, *, prefer_speed: bool, include_semantic: bool, shape: Shape = AS_FOUND
    ) -> Results:
        """Hits of every layer that answered in time, listed in that shape; `took_ms` counts that too. Never raises
        because of the remote."""
        began = self._clock.monotonic()
        # Its time runs from here on, not from when a thread is free.
        asked = _Asked(
            query, shape, began, self._clock.now().timestamp(), time.monotonic() + self._settings.local_search_s
        )
        side = self._remote_side if include_semantic else None
        reason = None if side is None else side.unreachable()
        if side is None or prefer_speed or reason is not None:
            local, listed = await self._ask_local(asked)
            if side is None or (prefer_speed and any(is_worded(hit.scores) for hit in local.hits)):
                return self._ended(asked, listed)
            if reason is not None:
                return self._ended(asked, listed, reason)
            remote = await self._ask_remote(side, asked, local.repaired)
        else:
            (local, listed), remote = await self._ask_both(side, asked)
        if remote.error is not None:
            return self._ended(asked, listed, remote.error)
        look = partial(self._hybrid_results, side, asked, local, remote)
        return self._ended(asked, await asyncio.get_running_loop().run_in_executor(self._threads, look))

    async def _ask_local(self, asked: _Asked) -> tuple[LocalAnswer, Results]:
        """What this machine finds, and its answer where it is all there is."""

        def look() -> tuple[LocalAnswer, Results]:
            found = self._looked(asked, asked.pool)
            return found, self._local_results(asked, found)

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _ask_both(self, side: RemoteSide, asked: _Asked) -> tuple[tuple[LocalAnswer, Results], RemoteAnswer]:
        """The local layer finds the wording and goes on; from then on the remote is asked in the words that exist."""
        loop = asyncio.get_running_loop()
        worded: asyncio.Future[Wording] = loop.create_future()

        def look() -> tuple[LocalAnswer, Results]:
            wording = self._local.word(asked.query, budget_s=_left_s(asked.deadline_s))
            loop.call_soon_threadsafe(worded.set_result, wording)
            found = self._looked(asked, max(POOL * asked.query.limit, asked.pool, LEAST_POOL), wording)
            return found, self._local_results(asked, found)

        async def ask() -> RemoteAnswer:
            await asyncio.wait({worded}, timeout=WORDING_SHARE * self._settings.remote_search_s)
            return await self._ask_remote(side, asked, worded.result().repaired if worded.done() else {})

        return await asyncio.gather(loop.run_in_executor(self._threads, look), ask())

    def _looked(self, asked: _Asked, pool: int, wording: Wording | None = None) -> LocalAnswer:
        """What this machine finds: a pool, or a larger one where its hits repeat each other."""

        def look(most: int) -> LocalAnswer:
            limit = asked.pool if most == pool else most
            return self._local.search(
                replace(asked.query, limit=limit),
                now_s=asked.now_s,
                budget_s=_left_s(asked.deadline_s),
                wording=wording,
                most=most,
            )

        return asked.shape.gathered(
            look, asked.query.limit, pool, lambda: time.monotonic() < asked.deadline_s - LEAST_BUDGET_S
        )

    async def _ask_remote(self, side: RemoteSide, asked: _Asked, repaired: Mapping[str, str]) -> RemoteAnswer:
        """Its time has run since the search began."""
        began, query = self._clock.monotonic(), spelt(asked.query, repaired)
        text, limit = query.remote_text or query.text, query.remote_limit or asked.pool
        timeout_s = max(self._settings.remote_search_s - (began - asked.began), LEAST_BUDGET_S)
        try:
            hits = await side.ask(
                "a search",
                lambda remote: remote.search(text, limit=limit, types=query.types, timeout_s=timeout_s),
                patient=timeout_s >= PATIENT_SHARE * self._settings.remote_search_s,
            )
        except RemoteError as error:
            return RemoteAnswer((), self._since_ms(began), reason_of(error))
        return RemoteAnswer(tuple(hits), self._since_ms(began))

    def _local_results(self, asked: _Asked, answer: LocalAnswer) -> Results:
        """In a thread, like what is made of both layers: to fold many hits takes milliseconds."""
        hits = tuple(Hit(one.memory, one.relevance, ("local",), one.scores) for one in answer.hits)
        found = Results(
            hits=hits,
            source=Source.LOCAL,
            took_ms=0.0,
            layers={},
            failures=_failures(answer),
            repaired=answer.repaired,
            asked=asked.query.asked,
        )
        listed = asked.shape.listed(found, asked.query.limit)
        return replace(listed, layers={"local": LayerReport(answer.took_ms, len(listed), answer.cut)})

    def _ended(self, asked: _Asked, found: Results, failure: str | None = None) -> Results:
        """The results with the time that they took, and why the remote is not among them."""
        found = replace(found, took_ms=(self._clock.monotonic() - asked.began) * 1000)
        if failure is None:
            return found
        return replace(found, source=Source.LOCAL_FALLBACK, failures={"remote": failure, **found.failures})

    def _hybrid_results(self, side: RemoteSide, asked: _Asked, local: LocalAnswer, remote: RemoteAnswer) -> Results:
        candidates = self._joined(side, asked.query, local, remote)
        is_full = len(remote.hits) >= (asked.query.remote_limit or asked.pool)
        fused = fuse(
            candidates,
            local_weight=self._settings.local_weight,
            limit=len(candidates) if asked.shape.fold else asked.pool,
            floor=min(hit.relevance for hit in remote.hits) if is_full else 0.0,
            way=self._settings.fusion,
        )
        found = Results(
            hits=fused,
            source=Source.HYBRID,
            took_ms=0.0,
            layers={
                "local": LayerReport(local.took_ms, len(local.hits), local.cut),
                "remote": LayerReport(remote.took_ms, len(remote.hits)),
            },
            failures=_failures(local),
            repaired=local.repaired,
            asked=asked.query.asked,
        )
        return asked.shape.listed(found, asked.query.limit)

    def _joined(self, side: RemoteSide, query: Query, local: LocalAnswer, remote: RemoteAnswer) -> list[Candidate]:
        """Each memory once, whoever found it. What a filter or another scope excludes stays out on either path.

        A copy is as the remote has it now: the text found here may be older, and its lifetime over.
        """
        delivered = self._delivered(side.name, local.hits)
        found = {hit.memory.id: _candidate(hit, in_remote=hit.memory.id in delivered) for hit in local.hits}
        now_s = self._clock.now().timestamp()
        for row, remote_hit in side.keepsakes.join(query, remote.hits):
            was_found = row.memory.id in found  # and so was looked at
            known = found.pop(row.memory.id, None) or _unfound(row.memory, in_local=row.position >= 0)
            is_alive = was_found or row.standing is Standing.CACHED or self._local.is_alive(row, now_s)
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


def _failures(local: LocalAnswer) -> dict[str, str]:
    return {} if local.without is None else {"vectors": local.without}


def _candidate(hit: LocalHit, *, in_remote: bool) -> Candidate:
    return Candidate(hit.memory, hit.relevance, None, in_local=True, in_remote=in_remote, scores=hit.scores)


def _unfound(memory: Memory, *, in_local: bool) -> Candidate:
    return Candidate(memory, None, None, in_local=in_local, in_remote=True)


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
