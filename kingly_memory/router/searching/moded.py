"""Search in a mode: candidates from every layer, and what the mode makes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial

from kingly_memory import intake
from kingly_memory.cognition.outcomes import TaskStatus, outcome_of
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Memory, Query, Results, RetrievalMode
from kingly_memory.ports import Clock, Embedder
from kingly_memory.retrieval import diversity, scoring
from kingly_memory.retrieval.blending import VECTORS, is_worded
from kingly_memory.retrieval.diversity import Alike
from kingly_memory.retrieval.folding import statement
from kingly_memory.retrieval.modes import AUTO, MODES, POOL, ModeConfig, inferred
from kingly_memory.retrieval.selection import Candidate, Selection, select
from kingly_memory.router.searching.gather import Gatherer
from kingly_memory.router.searching.local_search import LocalAnswer, LocalLayer
from kingly_memory.router.searching.shaping import Shape
from kingly_memory.settings import Settings

USUAL_LIMIT = 10
"""The limit of a search that names none."""
READ_CHARACTERS = 1_000
"""How much of a memory is compared."""
CHOOSING_SHARE = 0.5
"""Of the time for the local side: what choosing among the candidates may take after they are found."""
ANTI_PATTERN_TAGS = frozenset({"anti_pattern", "anti-pattern"})

_SUCCEEDED: Mapping[str, bool] = {TaskStatus.COMPLETED: True, TaskStatus.FAILED: False}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search in a mode is to do, and why in that mode."""

    mode: RetrievalMode
    reason: str
    config: ModeConfig
    min_similarity: float | None = None
    fold: bool = True

    @property
    def pool(self) -> int:
        """How many candidates are looked at."""
        return POOL * self.config.top_k


def plan(
    query: str,
    mode: str | None,
    *,
    settings: Settings,
    limit: int,
    top_k: int | None,
    min_confidence: float | None,
    min_similarity: float | None,
    fold: bool = True,
) -> Plan | None:
    """What was asked for; None for the plain search. Overrides alone ask for `similarity`. Raises InvalidInput.

    A limit that is not the usual one says how many, as `top_k` does.
    """
    name, wanted = ("top_k", top_k) if top_k is not None or limit == USUAL_LIMIT else ("limit", limit)
    if mode is None and top_k is None and min_confidence is None and min_similarity is None:
        return None
    chosen, reason = _mode(query, RetrievalMode.SIMILARITY if mode is None else mode, settings)
    config = MODES[chosen]
    if wanted is not None:
        config = replace(config, top_k=intake.count(name, wanted, most=intake.MOST_IN_A_MODE))
    if min_confidence is not None:
        config = replace(config, min_confidence=intake.share("min_confidence", min_confidence))
    least = None if min_similarity is None else intake.share("min_similarity", min_similarity)
    return Plan(chosen, reason, config, least, fold)


class ModedSearch:
    """Answers queries in a mode for one router. Without an embedder, memories are compared word by word."""

    def __init__(
        self,
        *,
        gatherer: Gatherer,
        local: LocalLayer,
        embedder: Callable[[], Embedder] | None,
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._gatherer = gatherer
        self._local = local
        self._new_embedder = embedder
        self._threads = threads
        self._clock = clock
        self._settings = settings

    @cached_property
    def _embedder(self) -> Embedder | None:
        """Made when a mode first needs it: most processes never search in one."""
        return None if self._new_embedder is None else self._new_embedder()

    async def search(self, query: Query, plan: Plan, *, prefer_speed: bool, include_semantic: bool) -> Results:
        """The mode's answer, in its order. Never raises because of the remote."""
        began = self._clock.monotonic()
        asked = replace(query, limit=plan.pool)
        found = await self._gatherer.search(asked, prefer_speed=prefer_speed, include_semantic=include_semantic)
        choose = partial(self._chosen, asked, plan, found.hits)
        selection, cut = await asyncio.get_running_loop().run_in_executor(self._threads, choose)
        local = found.layers["local"]
        return replace(
            found,
            hits=selection.hits,
            took_ms=(self._clock.monotonic() - began) * 1000,
            layers={**found.layers, "local": replace(local, cut=local.cut or cut)},
            mode=plan.mode,
            mode_reason=plan.reason,
            excluded=selection.excluded,
            clusters=selection.clusters,
            folded=selection.folded,
        )

    def _chosen(self, query: Query, plan: Plan, found: Sequence[Hit]) -> tuple[Selection, bool]:
        """What the mode makes of the hits, and whether there was no time to compare them all."""
        embedder = self._embedder  # loaded once per process, and its first search is not cut for that
        deadline_s = time.monotonic() + self._settings.local_search_s * CHOOSING_SHARE
        hits = [*found, *self._further(query, plan, found, deadline_s)]
        likeness = _Likeness(embedder, query.text, [hit.memory for hit in hits], deadline_s)
        nearness = [hit.scores.get(VECTORS, likeness.to_query(index)) for index, hit in enumerate(hits)]
        candidates = [_candidate(*pair) for pair in zip(hits, nearness, strict=True)]
        selection = select(
            candidates,
            plan.config,
            query=query.text,
            now=self._clock.now(),
            alike=likeness.alike,
            min_similarity=plan.min_similarity,
            fold=plan.fold,
        )
        return selection, likeness.cut

    def _further(self, query: Query, plan: Plan, found: Sequence[Hit], deadline_s: float) -> list[Hit]:
        """When too few of the candidates are trusted enough and say different things, those further down that are and
        do."""
        least, top_k = plan.config.min_confidence, plan.config.top_k
        trusted = [hit.memory for hit in found if hit.memory.confidence >= least]
        said = {_statement(memory, plan) for memory in trusted}
        if len(said) >= top_k or len(found) < plan.pool:
            return []
        asked, now_s = replace(query, min_confidence=least), self._clock.now().timestamp()

        def look(most: int) -> LocalAnswer:
            budget_s = max(deadline_s - time.monotonic(), 0.0) * CHOOSING_SHARE
            return self._local.search(replace(asked, limit=most), now_s=now_s, budget_s=budget_s)

        answer = Shape(plan.fold).gathered(look, top_k, plan.pool, lambda: time.monotonic() < deadline_s)
        known = {hit.memory.id for hit in found}
        further = [
            one for one in answer.hits if one.memory.id not in known and _statement(one.memory, plan) not in said
        ]
        # They come behind the others, and their relevance is relative to the best of them.
        best = further[0].relevance if further else 0.0
        scale = min(found[-1].relevance / best, 1.0) if best else 1.0
        return [Hit(one.memory, one.relevance * scale, ("local",), one.scores) for one in further]


class _Likeness:
    """How alike memories are to each other and to the question; computed when asked, vectors once.

    Memories whose turn came after the deadline are like nothing else, and `cut` says so.
    """

    def __init__(self, embedder: Embedder | None, query: str, memories: Sequence[Memory], deadline_s: float) -> None:
        self._texts = [_text(memory) for memory in memories]
        self._vectors: list[list[float]] = []
        self._query: list[float] | None = None
        self.cut = False
        if embedder is None:
            return
        [self._query] = embedder.embed([query[:READ_CHARACTERS]])
        for text in self._texts:
            if time.monotonic() >= deadline_s:
                self.cut = True
                return
            self._vectors += embedder.embed([text])

    def to_query(self, index: int) -> float | None:
        """The cosine, None without vectors."""
        if self._query is None or index >= len(self._vectors):
            return None
        return diversity.cosine(self._query, self._vectors[index])

    @property
    def alike(self) -> Alike:
        return self._by_words if self._query is None else self._by_vectors

    def _by_vectors(self, one: int, other: int) -> float:
        if max(one, other) >= len(self._vectors):
            return 0.0
        return diversity.cosine(self._vectors[one], self._vectors[other])

    def _by_words(self, one: int, other: int) -> float:
        return diversity.overlap(self._texts[one], self._texts[other])


def _mode(query: str, mode: object, settings: Settings) -> tuple[RetrievalMode, str]:
    """The mode and why it is that one."""
    if mode != AUTO:
        known = [str(one) for one in RetrievalMode]
        if not isinstance(mode, str) or mode not in known:
            raise InvalidInput("mode", f"{intake.shown(mode)!r} is unknown; choose one of {', '.join(known)}, {AUTO}")
        return RetrievalMode(mode), "asked for"
    default = RetrievalMode(settings.default_mode)
    if not settings.mode_aware:
        return default, "the default, since mode_aware is off"
    inference = inferred(query, default)
    if inference.decided_by is None:
        return default, "the default, since no word of the question points to another mode"
    return inference.mode, f"the question says {inference.decided_by!r}"


def _candidate(hit: Hit, cosine: float | None) -> Candidate:
    memory = hit.memory
    outcome = outcome_of(memory)
    succeeded = None if outcome is None else _SUCCEEDED.get(outcome.status)
    failed = succeeded is False
    is_warning = any(tag.casefold() in ANTI_PATTERN_TAGS for tag in memory.tags)
    return Candidate(
        hit=hit,
        success=scoring.success(succeeded, memory.metadata.get("success_rate")),
        is_failure=failed or is_warning,
        is_anti_pattern=is_warning or (failed and bool(memory.metadata.get("reason"))),
        is_worded="local" in hit.layers and is_worded(hit.scores),
        cosine=cosine,
    )


def _statement(memory: Memory, plan: Plan) -> Hashable:
    """What may be there once."""
    return statement(memory) if plan.fold else memory.id


def _text(memory: Memory) -> str:
    return f"{memory.title or ''} {memory.content[:READ_CHARACTERS]}".strip()
