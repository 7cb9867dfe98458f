"""Search: all layers are asked at once, in the words that exist, under one deadline; their lists become one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from kingly_memory.errors import RemoteError
from kingly_memory.ids import MemoryId
from kingly_memory.models import Hit, LayerReport, Memory, Query, Results, Source, Standing
from kingly_memory.ports import Clock, LocalStore, RemoteHit, Row
from kingly_memory.retrieval.blending import is_worded
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.router.searching.local_search import (
    LEAST_BUDGET_S,
    LocalAnswer,
    LocalHit,
    LocalLayer,
    alive_or_ended,
)
from kingly_memory.router.searching.remote_side import RemoteSide
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
    """What a remote said in time, or why it did not."""

    side: RemoteSide
    hits: tuple[RemoteHit, ...]
    took_ms: float
    error: str | None = None

    @property
    def least(self) -> float:
        return min(hit.relevance for hit in self.hits)


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
        sides: Sequence[RemoteSide],
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store = store
        self._local = local
        self._sides = tuple(sides)
        self._threads = threads
        self._clock = clock
        self._settings = settings

    async def search(
        self, query: Query, *, prefer_speed: bool, include_semantic: bool, shape: Shape = AS_FOUND
    ) -> Results:
        """Hits of every layer that answered in time, listed in that shape; `took_ms` counts that too. Never raises
        because of a remote."""
        began = self._clock.monotonic()
        # Its time runs from here on, not from when a thread is free.
        asked = _Asked(
            query, shape, began, self._clock.now().timestamp(), time.monotonic() + self._settings.local_search_s
        )
        sides = self._sides if include_semantic else ()
        reasons = {side.label: reason for side in sides if (reason := side.unreachable()) is not None}
        there = [side for side in sides if side.label not in reasons]
        if prefer_speed or not there:
            local, listed = await self._ask_local(asked)
            if not sides or (prefer_speed and any(is_worded(hit.scores) for hit in local.hits)):
                return self._ended(asked, listed)
            if not there:
                return self._ended(asked, listed, reasons)
            answers = await self._ask_remotes(there, asked, local.repaired)
        else:
            (local, listed), answers = await self._ask_all(there, asked)
        reasons |= {one.side.label: one.error for one in answers if one.error is not None}
        answered = [one for one in answers if one.error is None]
        if not answered:
            return self._ended(asked, listed, reasons)
        look = partial(self._hybrid_results, asked, local, answered, reasons)
        return self._ended(asked, await asyncio.get_running_loop().run_in_executor(self._threads, look))

    async def _ask_local(self, asked: _Asked) -> tuple[LocalAnswer, Results]:
        """What this machine finds, and its answer where it is all there is."""

        def look() -> tuple[LocalAnswer, Results]:
            found = self._looked(asked, asked.pool)
            return found, self._local_results(asked, found)

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _ask_all(
        self, sides: Sequence[RemoteSide], asked: _Asked
    ) -> tuple[tuple[LocalAnswer, Results], list[RemoteAnswer]]:
        """The local layer finds the wording and goes on; from then on remotes are asked in the words that exist."""
        loop = asyncio.get_running_loop()
        worded: asyncio.Future[Wording] = loop.create_future()

        def look() -> tuple[LocalAnswer, Results]:
            wording = self._local.word(asked.query, budget_s=_left_s(asked.deadline_s))
            loop.call_soon_threadsafe(worded.set_result, wording)
            found = self._looked(asked, max(POOL * asked.query.limit, asked.pool, LEAST_POOL), wording)
            return found, self._local_results(asked, found)

        async def ask() -> list[RemoteAnswer]:
            await asyncio.wait({worded}, timeout=WORDING_SHARE * self._settings.remote_search_s)
            return await self._ask_remotes(sides, asked, worded.result().repaired if worded.done() else {})

        return await asyncio.gather(loop.run_in_executor(self._threads, look), ask())

    def _looked(self, asked: _Asked, pool: int, wording: Wording | None = None) -> LocalAnswer:
        """What this machine finds: a pool, or a larger one where its hits repeat each other."""
        wording = wording or self._local.word(asked.query, budget_s=_left_s(asked.deadline_s))

        def look(query: Query, most: int) -> LocalAnswer:
            limit = asked.pool if most == pool else most
            return self._local.search(
                replace(query, limit=limit),
                now_s=asked.now_s,
                budget_s=_left_s(asked.deadline_s),
                wording=wording,
                most=most,
            )

        def gathered(query: Query) -> LocalAnswer:
            return asked.shape.gathered(
                partial(look, query),
                query.limit,
                pool,
                lambda: time.monotonic() < asked.deadline_s - LEAST_BUDGET_S,
            )

        return alive_or_ended(asked.query, gathered)

    async def _ask_remotes(
        self, sides: Sequence[RemoteSide], asked: _Asked, repaired: Mapping[str, str]
    ) -> list[RemoteAnswer]:
        """All at once: each has the same time, whatever becomes of the others."""
        return list(await asyncio.gather(*(self._ask_remote(side, asked, repaired) for side in sides)))

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
            return RemoteAnswer(side, (), self._since_ms(began), error.reason)
        return RemoteAnswer(side, tuple(hits), self._since_ms(began))

    def _local_results(self, asked: _Asked, answer: LocalAnswer) -> Results:
        """In a thread, like what is made of both layers: to fold many hits takes milliseconds."""
        hits = tuple(
            Hit(one.memory, one.relevance, ("local",), one.scores, archived=answer.archived) for one in answer.hits
        )
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

    def _ended(self, asked: _Asked, found: Results, reasons: Mapping[str, str] | None = None) -> Results:
        """The results with the time that they took, and why no remote is among them."""
        found = replace(found, took_ms=(self._clock.monotonic() - asked.began) * 1000)
        if reasons is None:
            return found
        return replace(found, source=Source.LOCAL_FALLBACK, failures={**reasons, **found.failures})

    def _hybrid_results(
        self, asked: _Asked, local: LocalAnswer, answered: Sequence[RemoteAnswer], reasons: Mapping[str, str]
    ) -> Results:
        living = local._replace(hits=()) if local.archived else local
        candidates, named = self._joined(asked.query, living, answered)
        if not candidates and local.archived:
            found = self._local_results(asked, local)
            layers = {one.side.label: LayerReport(one.took_ms, len(one.hits)) for one in answered}
            return replace(found, source=Source.HYBRID, layers={**found.layers, **layers}, failures=reasons)
        # Of several remotes the one that has left out the best.
        full = [one.least for one in answered if len(one.hits) >= (asked.query.remote_limit or asked.pool)]
        fused = fuse(
            candidates,
            local_weight=self._settings.local_weight,
            floor=max(full, default=0.0),
            way=self._settings.fusion,
        )
        found = Results(
            hits=tuple(_by_name(hit, named) for hit in fused),
            source=Source.HYBRID,
            took_ms=0.0,
            layers={
                "local": LayerReport(local.took_ms, len(local.hits), local.cut),
                **{one.side.label: LayerReport(one.took_ms, len(one.hits)) for one in answered},
            },
            failures={**reasons, **_failures(local)},
            repaired=local.repaired,
            asked=asked.query.asked,
        )
        return asked.shape.listed(found, asked.query.limit)

    def _joined(
        self, query: Query, local: LocalAnswer, answered: Sequence[RemoteAnswer]
    ) -> tuple[list[Candidate], dict[str, list[str]]]:
        """Each memory once, whoever found it, and which remotes did. What a filter or another scope excludes stays out
        on every path. The best that any remote says of a memory counts.

        A copy is as the remote has it now: the text found here may be older, and its lifetime over. What two remotes
        hold of the same memory is one copy.
        """
        delivered = self._delivered([one.side.name for one in answered], local.hits)
        found = {hit.memory.id: _candidate(hit, in_remote=hit.memory.id in delivered) for hit in local.hits}
        named: dict[str, list[str]] = {}
        now_s = self._clock.now().timestamp()
        for one, row, remote_hit, doubled in _rows(query, answered):
            if doubled is not None:
                found.pop(doubled, None)
            was_found = row.memory.id in found  # and so was looked at
            known = found.pop(row.memory.id, None) or _unfound(row.memory, in_local=row.position >= 0)
            is_alive = was_found or row.standing is Standing.CACHED or self._local.is_alive(row, now_s)
            if not query.admits(row.memory) or not is_alive:
                continue
            relevance = max(remote_hit.relevance, known.remote or 0.0)
            found[row.memory.id] = replace(known, memory=row.memory, remote=relevance, in_remote=True)
            named.setdefault(row.memory.id, []).append(one.side.label)
        return list(found.values()), named

    def _delivered(self, remotes: Sequence[str], hits: Sequence[LocalHit]) -> set[str]:
        """Which of the hits any of the remotes could have named."""
        owners = [f"{remote}:{hit.memory.id}" for remote in remotes for hit in hits]
        facets = self._store.reader.facets("delivery", owners)
        return {owner.split(":", 1)[1] for owner, facet in facets.items() if facet["state"] == "delivered"}

    def _since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000


def _rows(
    query: Query, answered: Sequence[RemoteAnswer]
) -> Iterator[tuple[RemoteAnswer, Row, RemoteHit, MemoryId | None]]:
    """Each hit with the row it is. Of copies of the same memory, held by several remotes, it is the first; the id of
    the one that says the same comes along."""
    copies: dict[tuple[str, str], tuple[RemoteSide, Row]] = {}
    for one in answered:
        for row, hit in one.side.keepsakes.join(query, one.hits):
            holder, copy = one.side, row
            if row.standing is Standing.CACHED and hit.memory_id is not None:
                holder, copy = copies.setdefault((hit.memory_id, hit.content), (one.side, row))
            if holder is one.side:
                yield one, row, hit, None
            else:
                yield one, copy, hit, row.memory.id


def _by_name(hit: Hit, named: Mapping[str, Sequence[str]]) -> Hit:
    """The hit with the names of the remotes that found it."""
    here = tuple(layer for layer in hit.layers if layer != "remote")
    return replace(hit, layers=(*here, *dict.fromkeys(named.get(hit.memory.id, ()))))


def _failures(local: LocalAnswer) -> dict[str, str]:
    return {} if local.without is None else {"vectors": local.without}


def _candidate(hit: LocalHit, *, in_remote: bool) -> Candidate:
    return Candidate(hit.memory, hit.relevance, None, in_local=True, in_remote=in_remote, scores=hit.scores)


def _unfound(memory: Memory, *, in_local: bool) -> Candidate:
    return Candidate(memory, None, None, in_local=in_local, in_remote=True)


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
