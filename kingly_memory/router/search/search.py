"""A search, from what is asked for to what is shown: `Search.find` has it as one function. This machine and every
remote are asked at once and under one deadline, their lists become one, and a mode chooses from it.

Commands that open no router take the same steps, so that nothing here loads asyncio but a search of a router.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import (
    Detail,
    Hit,
    JsonObject,
    LayerReport,
    Memory,
    Query,
    Results,
    RetrievalMode,
    Source,
    short_id,
)
from kingly_memory.retrieval.fusion import NAMED, by_ranks, cut, is_worded
from kingly_memory.router.search.local import LEAST_BUDGET_S, LocalAnswer, LocalSearch, Wording, spelt

if TYPE_CHECKING:
    import asyncio

    from kingly_memory.ports import Embedder
    from kingly_memory.retrieval.modes import ModePlan
    from kingly_memory.router.access import Access
    from kingly_memory.router.search.remote_side import RemoteAnswer, RemoteSide
    from kingly_memory.router.view import View
    from kingly_memory.settings import Settings


Verify = Callable[[Results, str], Awaitable[Mapping[str, JsonObject]]]
"""Checks what was found for a question, and says by id what came of that."""

BEYOND_BUDGET = "beyond_budget"
"""Why a hit is left out for which not even a title has room."""
LOW_RELEVANCE = "low_relevance"
"""Why one is that answers less well than was asked for."""
USUAL_LIMIT = 10
"""The limit of a search that names none."""

# --- what is asked for ------------------------------------------------------------------------------------------------

_RANKED = 3
"""Candidates of each ranking per hit wanted, where ranks are fused."""
_LEAST_POOL = 10
"""As many as a usual search looks at: a smaller one may as well see repeats."""
_FURTHER = 4
"""How many times as many are looked at when too many of them say the same."""


@dataclass(frozen=True, slots=True)
class Request:
    """How a search is to answer. A budget counts the JSON of the hits as they are shown, in estimated tokens. `plan` is
    what a mode makes of the candidates."""

    fold: bool = True
    detail: Detail = Detail.FULL
    budget_tokens: int | None = None
    by_ranks: bool = False
    min_relevance: float = 0.0
    plan: ModePlan | None = None

    def pool(self, limit: int) -> int:
        """How many candidates to look at first for so many hits."""
        if self.plan is not None:
            return self.plan.pool
        if self.by_ranks:
            return min(limit * _RANKED, max(limit, validation.RESULTS_LIMIT))
        return max(limit, _LEAST_POOL) if self.fold else limit

    def are_enough(self, memories: Sequence[Memory], limit: int) -> bool:
        """Whether as many of them as are wanted are trusted and say different things."""
        if self.plan is not None:
            return self.plan.are_enough(memories, fold=self.fold)
        if not self.fold:
            return True
        from kingly_memory.retrieval.repeats import groups

        return len(groups(memories)) >= limit


AS_FOUND = Request(fold=False)
"""The hits as they were found."""


def request(
    fold: object = True,
    detail: object = "full",
    budget_tokens: object = None,
    by_ranks: object = False,
    min_relevance: object = None,
    *,
    plan: ModePlan | None = None,
) -> Request:
    """What a caller asked for. Raises InvalidInput."""
    budget = (
        None if budget_tokens is None else validation.count("budget_tokens", budget_tokens, most=validation.MOST_TOKENS)
    )
    least = 0.0 if min_relevance is None else validation.share("min_relevance", min_relevance)
    return Request(bool(fold), validation.detail(detail), budget, bool(by_ranks), least, plan)


def plan(
    query: str,
    mode: object,
    *,
    settings: Settings,
    limit: int,
    top_k: int | None,
    min_confidence: float | None,
    min_similarity: float | None,
) -> ModePlan | None:
    """What was asked for; None for the plain search. Overrides alone ask for `similarity`. Raises InvalidInput.

    A limit that is not the usual one says how many, as `top_k` does.
    """
    if mode is None and top_k is None and min_confidence is None and min_similarity is None:
        return None
    from kingly_memory.retrieval.modes import MODES, ModePlan, mode_of

    chosen, reason = mode_of(query, mode, RetrievalMode(settings.default_mode), is_aware=settings.mode_aware)
    config = MODES[chosen]
    name, wanted = ("top_k", top_k) if top_k is not None or limit == USUAL_LIMIT else ("limit", limit)
    if wanted is not None:
        config = replace(config, top_k=validation.count(name, wanted, most=validation.MOST_IN_A_MODE))
    if min_confidence is not None:
        config = replace(config, min_confidence=validation.share("min_confidence", min_confidence))
    least = None if min_similarity is None else validation.share("min_similarity", min_similarity)
    return ModePlan(chosen, reason, config, least)


_ALIVE, _ENDED = "a", "e"
"""How a `next` begins: by what its pages have shown so far. Behind that stands the brief of each memory."""
_ID_CHARACTERS = 8
_NEXT = re.compile(rf"[{_ALIVE}{_ENDED}]([\w-]{{{_ID_CHARACTERS}}}){{1,{validation.RESULTS_LIMIT}}}", re.ASCII)


def continuing(query: Query, request: Request, after: object, **layers: Any) -> Query:
    """The query for the page behind that `next`: it finds nothing of the pages before. What has ended answers only
    where nothing that is alive has answered yet. `layers` are the query's fields that say who is asked. Raises
    InvalidInput."""
    if after is None:
        return replace(query, or_ended=not query.include_archived, **layers)
    if request.plan is not None:
        raise InvalidInput("after", "does not go with a mode, which has no further pages; leave one of them out")
    if not isinstance(after, str) or not _NEXT.fullmatch(after):
        raise InvalidInput("after", "is no `next` of a search; give that of the page before, or leave it out")
    seen = frozenset(after[start : start + _ID_CHARACTERS] for start in range(1, len(after), _ID_CHARACTERS))
    remote_limit = min(request.pool(query.limit) + len(seen), validation.RESULTS_LIMIT)
    return replace(query, seen=seen, or_ended=after[0] == _ENDED, remote_limit=remote_limit, **layers)


# --- the search -------------------------------------------------------------------------------------------------------

PATIENT_SHARE = 0.8
"""Of the remote's time: one that had less of it, on a crowded machine, is not to blame for being late."""
WORDING_SHARE = 0.2
"""Of the remote's time: it is asked as the user wrote it when finding the right words takes longer."""
POOL, LEAST_POOL = 2, 40
"""For each hit that is wanted so many local ones are held against the remote's, and at least that many: what the remote
names may be further down here. As many are looked at anyway."""
CHOOSING_SHARE = 0.5
"""Of the time for the local side: what choosing in a mode may take after the candidates are found."""


class Search:
    """Answers queries for one router. Implements ports.Searcher."""

    def __init__(
        self,
        access: Access,
        view: View,
        local: LocalSearch,
        sides: Sequence[RemoteSide],
        *,
        embedder: Callable[[], Embedder],
    ) -> None:
        """`embedder` compares memories with each other in the modes."""
        self._view = view
        self._local = local
        self._sides = tuple(sides)
        self._embedder = cache(embedder)
        self._access = access
        self._clock = access.clock
        self._settings = access.settings

    async def find(self, query: Query, request: Request = AS_FOUND, verify: Verify | None = None) -> Results:
        """What every layer that answered in time found, as one list and as the request says; `verify` checks that list
        before it is cut to a budget. Never raises because of a remote."""
        import asyncio

        from kingly_memory.router.search.remote_side import merged

        loop, local_s = asyncio.get_running_loop(), self._settings.local_search_s
        began, now_s = self._clock.monotonic(), self._clock.now().timestamp()
        # The time of this machine runs from here on, not from when a thread is free.
        deadline_s = time.monotonic() + local_s
        sides = self._sides if query.include_semantic else ()
        failures = {side.label: reason for side in sides if (reason := side.unreachable()) is not None}
        reached = [side for side in sides if side.label not in failures]
        news = [side.news for side in reached]
        pool = request.pool(query.limit)
        asked_for = query.remote_limit or pool
        wide = max(POOL * pool, LEAST_POOL) if reached and not query.prefer_speed else 0

        # Candidates: this machine finds the words and goes on; then remotes can be asked in those that exist. Where no
        # remote is asked, all that follows is one piece of work, on one thread.
        worded: asyncio.Future[Mapping[str, str]] = loop.create_future()

        def look_here() -> LocalAnswer:
            wording = self._local.word(query, budget_s=max(deadline_s - time.monotonic(), LEAST_BUDGET_S))
            if reached and not worded.done():
                loop.call_soon_threadsafe(worded.set_result, wording.repaired)
            return look(self._local, query, request, now_s=now_s, deadline_s=deadline_s, pool=wide, wording=wording)

        async def ask_there() -> Sequence[RemoteAnswer]:
            """Each remote has the same time, whatever becomes of the others. It runs from the beginning of the
            search."""
            whole_s = self._settings.remote_search_s
            await asyncio.wait({worded}, timeout=WORDING_SHARE * whole_s)
            asked = spelt(query, worded.result() if worded.done() else {})
            left_s = max(whole_s - (self._clock.monotonic() - began), LEAST_BUDGET_S)
            is_patient = left_s >= PATIENT_SHARE * whole_s
            return await asyncio.gather(
                *(side.search(asked, asked_for, left_s, patient=is_patient) for side in reached)
            )

        local: LocalAnswer | None = None
        answers: Sequence[RemoteAnswer] = ()
        if reached and query.prefer_speed:
            local = await self._access.read(look_here)
            answers = () if _is_found_by_words(local) else await ask_there()
        elif reached:
            local, answers = await asyncio.gather(self._access.read(look_here), ask_there())
        if any(side.is_news_since(before) for side, before in zip(reached, news, strict=True)):
            local, deadline_s = None, time.monotonic() + local_s
        failures |= {answer.side.label: answer.error for answer in answers if answer.error is not None}

        # One list: of all layers, in the order of the mode or without repeats, and cut to what was asked for.
        def one_list() -> Results:
            found_here = local or look_here()
            found = local_results(query, found_here)
            is_enough = query.prefer_speed and not answers and _is_found_by_words(found_here)
            if sides and not is_enough:
                found = replace(found, source=Source.LOCAL_FALLBACK, failures={**failures, **found.failures})
            if answered := [answer for answer in answers if answer.error is None]:
                found = merged(found, answered, query, asked_for, access=self._access, visible=self._local, now_s=now_s)
            if request.plan is not None:
                return self._chosen(found, query, request, request.plan)
            return listed(found, request, query)

        if verify is None:
            found = await self._access.read(lambda: shaped(one_list(), query, request, self._view, local_s))
        else:
            found = await self._access.read(one_list)
            checked = replace(found, verdicts=await verify(found, query.text))
            found = await self._access.read(lambda: shaped(checked, query, request, self._view, local_s))
        return replace(found, took_ms=(self._clock.monotonic() - began) * 1000)

    def _chosen(self, found: Results, query: Query, request: Request, plan: ModePlan) -> Results:
        """What a mode makes of the candidates."""
        from kingly_memory.router.search.moded import chosen

        embedder = self._embedder()  # loaded once per process, and its first search is not cut for that
        deadline_s = time.monotonic() + self._settings.local_search_s * CHOOSING_SHARE
        in_mode = chosen(
            found, query.text, plan, fold=request.fold, embedder=embedder, now=self._clock.now(), deadline_s=deadline_s
        )
        return relevant(in_mode, request)


def _is_found_by_words(answer: LocalAnswer) -> bool:
    return any(is_worded(hit.scores) for hit in answer.hits)


def look(
    layer: LocalSearch,
    query: Query,
    request: Request,
    *,
    now_s: float,
    deadline_s: float,
    pool: int = 0,
    wording: Wording | None = None,
) -> LocalAnswer:
    """What this machine finds: `pool` hits, or as many as the request needs at first. Where too few of them are trusted
    and differ, it looks further among those that a mode trusts, and four times as far down each time, until time is
    over (`cut`).

    Where nothing that is alive answers, what has ended does, if the query takes that and there was time for all of it.
    """
    first = request.pool(query.limit)
    least = max(query.min_confidence, request.plan.config.min_confidence if request.plan else 0.0)

    def found_in(query: Query, limit: int, most: int, scale: float | None = None) -> LocalAnswer:
        budget_s = max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
        query = query if query.limit == limit else replace(query, limit=limit)
        return layer.search(query, now_s=now_s, budget_s=budget_s, wording=wording, most=most, scale=scale)

    def found_of(query: Query, pool: int) -> LocalAnswer:
        found = further = found_in(query, first, pool)
        while not found.cut and len(further.hits) >= pool and pool < validation.RESULTS_LIMIT:
            if request.are_enough([hit.memory for hit in found.hits], query.limit):
                break
            if time.monotonic() >= deadline_s - LEAST_BUDGET_S:
                return found._replace(cut=True)
            if query.min_confidence == least:
                pool = min(pool * _FURTHER, validation.RESULTS_LIMIT)
            query = replace(query, min_confidence=least)
            further = found_in(query, pool, pool, found.scale)
            both = {hit.memory.id: hit for hit in (*found.hits, *further.hits)}
            hits = sorted(both.values(), key=lambda hit: (NAMED in hit.scores, hit.relevance), reverse=True)
            found = further._replace(hits=tuple(hits), took_ms=found.took_ms + further.took_ms, scale=found.scale)
        return found

    alive = found_of(query, max(first, pool))
    if alive.hits or alive.cut or not query.or_ended:
        return alive
    ended = found_of(replace(query, include_archived=True), max(first, pool))
    hits = tuple(replace(hit, archived=True) for hit in ended.hits)
    return ended._replace(hits=hits, took_ms=alive.took_ms + ended.took_ms) if hits else alive


# --- what is shown ----------------------------------------------------------------------------------------------------

SHOWING_SHARE = 0.3
"""Of the time for the local side: what looking for passages may take after the hits are found."""


def local_results(query: Query, answer: LocalAnswer) -> Results:
    """What this machine found, as results."""
    return Results(
        hits=answer.hits,
        source=Source.LOCAL,
        took_ms=0.0,
        layers={"local": LayerReport(answer.took_ms, len(answer.hits), answer.cut)},
        failures={} if answer.without is None else {"vectors": answer.without},
        repaired=answer.repaired,
        asked=query.asked,
    )


def relevant(results: Results, request: Request) -> Results:
    """Without what answers less well than was asked for."""
    hits = tuple(hit for hit in results if hit.relevance >= request.min_relevance)
    if len(hits) == len(results):
        return results
    return replace(results, hits=hits, excluded={**results.excluded, LOW_RELEVANCE: len(results) - len(hits)})


def listed(results: Results, request: Request, query: Query) -> Results:
    """At most as many hits as are wanted, none of which repeats another; what they stand for besides is named."""
    results = relevant(results, request)
    hits: Sequence[Hit] = by_ranks(results.hits) if request.by_ranks else results.hits
    under: dict[str, tuple[str, ...]] = {}
    if request.fold and len(hits) > 1:
        from kingly_memory.retrieval.repeats import fold, newer_first

        hits, under = fold(hits)
        hits = newer_first(hits, query.text)
    if len(hits) > query.limit:
        hits = cut(hits, query.limit)
        under = {hit.memory.id: under[hit.memory.id] for hit in hits if hit.memory.id in under}
    layers, local = results.layers, results.layers["local"]
    if len(layers) == 1:
        layers = {"local": LayerReport(local.took_ms, len(hits), local.cut)}
    return replace(results, hits=tuple(hits), folded=under, layers=layers)


def shaped(found: Results, query: Query, request: Request, view: View, local_s: float) -> Results:
    """The results as the caller gets them: ended memories are marked, texts have the detail that the request names, and
    `next` is set where there may be another page. `local_s` is the time that this machine has for a search.

    A `next` names all that was shown so far, and what was folded into it, so that neither a store nor a correction
    meanwhile shifts a page.
    """
    found = view.marked(found) if query.include_archived else found
    disclosed = found
    if request.detail is not Detail.FULL or request.budget_tokens is not None:
        disclosed = _shortened(found, query, request, time.monotonic() + local_s * SHOWING_SHARE)
    is_last = len(found) < query.limit and len(disclosed) == len(found)
    if request.plan is not None or is_last:
        return disclosed
    ids = {memory_id for hit in disclosed for memory_id in (hit.memory.id, *found.folded.get(hit.memory.id, ()))}
    seen = query.seen | {short_id(memory_id) for memory_id in ids}
    if not ids or len(seen) > validation.RESULTS_LIMIT:
        return disclosed
    is_ended = query.or_ended and disclosed[0].archived
    return replace(disclosed, next=(_ENDED if is_ended else _ALIVE) + "".join(sorted(seen)))


def _shortened(results: Results, query: Query, request: Request, deadline_s: float) -> Results:
    """The hits in as much detail as was asked for, and no more of them than the budget holds.

    After `deadline_s` on the monotonic clock they are shown by title, and the local layer's report says `cut`.
    """
    from kingly_memory.retrieval.snippets import disclose

    disclosed = disclose(
        results.hits,
        request.detail,
        asked=(query.text, *results.repaired.values()),
        budget_tokens=request.budget_tokens,
        repeats=results.folded,
        deadline_s=deadline_s,
    )
    ids = disclosed.shown.keys()
    local = results.layers["local"]
    return replace(
        results,
        hits=disclosed.hits,
        shown=disclosed.shown,
        layers={**results.layers, "local": replace(local, cut=local.cut or disclosed.cut)},
        excluded={**results.excluded, **({BEYOND_BUDGET: disclosed.left_out} if disclosed.left_out else {})},
        folded=disclosed.named,
        more_folded=disclosed.unnamed,
        clusters={memory_id: number for memory_id, number in results.clusters.items() if memory_id in ids},
        verdicts={memory_id: verdict for memory_id, verdict in results.verdicts.items() if memory_id in ids},
    )
