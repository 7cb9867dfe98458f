"""Search in a mode: what was asked for, and what the mode makes of the candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime

from kingly_memory import validation
from kingly_memory.cognition.outcomes import TaskStatus, outcome_of
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Memory, Query, Results, RetrievalMode
from kingly_memory.ports import Embedder
from kingly_memory.retrieval.fusion import VECTORS, cut, is_worded
from kingly_memory.retrieval.modes import (
    AUTO,
    MODES,
    ModeCandidate,
    ModePlan,
    cosine,
    inferred,
    overlap,
    select,
    success,
)
from kingly_memory.router.search.request import Request
from kingly_memory.settings import Settings

USUAL_LIMIT = 10
"""The limit of a search that names none."""
READ_CHARACTERS = 1_000
"""How much of a memory is compared."""
ANTI_PATTERN_TAGS = frozenset({"anti_pattern", "anti-pattern"})

_SUCCEEDED: Mapping[str, bool] = {TaskStatus.COMPLETED: True, TaskStatus.FAILED: False}


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
    chosen, reason = _mode(query, RetrievalMode.SIMILARITY if mode is None else mode, settings)
    config = MODES[chosen]
    name, wanted = ("top_k", top_k) if top_k is not None or limit == USUAL_LIMIT else ("limit", limit)
    if wanted is not None:
        config = replace(config, top_k=validation.count(name, wanted, most=validation.MOST_IN_A_MODE))
    if min_confidence is not None:
        config = replace(config, min_confidence=validation.share("min_confidence", min_confidence))
    least = None if min_similarity is None else validation.share("min_similarity", min_similarity)
    return ModePlan(chosen, reason, config, least)


def _mode(query: str, mode: object, settings: Settings) -> tuple[RetrievalMode, str]:
    """The mode and why it is that one."""
    if mode != AUTO:
        known = [str(one) for one in RetrievalMode]
        if not isinstance(mode, str) or mode not in known:
            raise InvalidInput(
                "mode", f"{validation.shown(mode)!r} is unknown; choose one of {', '.join(known)}, {AUTO}"
            )
        return RetrievalMode(mode), "asked for"
    default = RetrievalMode(settings.default_mode)
    if not settings.mode_aware:
        return default, "the default, since mode_aware is off"
    inference = inferred(query, default)
    if inference.decided_by is None:
        return default, "the default, since no word of the question points to another mode"
    return inference.mode, f"the question says {inference.decided_by!r}"


def chosen(
    found: Results,
    query: Query,
    request: Request,
    plan: ModePlan,
    *,
    embedder: Embedder | None,
    now: datetime,
    deadline_s: float,
) -> Results:
    """The mode's answer, in its order. Memories are compared by their vectors, without an embedder word by word. Those
    whose turn came after `deadline_s` are like nothing else, and the local layer's report says `cut`."""
    hits = list(cut(found.hits, plan.pool))
    if not request.are_enough([hit.memory for hit in hits], query.limit):
        known, least = {hit.memory.id for hit in hits}, plan.config.min_confidence
        further = [hit for hit in found.hits if "local" in hit.layers and hit.memory.confidence >= least]
        hits += [hit for hit in further if hit.memory.id not in known]
    texts = [f"{hit.memory.title or ''} {hit.memory.content[:READ_CHARACTERS]}".strip() for hit in hits]
    asked: list[float] = []
    vectors: list[list[float]] = []
    if embedder is not None:
        [asked] = embedder.embed([query.text[:READ_CHARACTERS]])
        for text in texts:
            if time.monotonic() >= deadline_s:
                break
            vectors += embedder.embed([text])
    nearness = [cosine(asked, vector) for vector in vectors]

    def alike(one: int, other: int) -> float:
        if embedder is None:
            return overlap(texts[one], texts[other])
        return cosine(vectors[one], vectors[other]) if max(one, other) < len(vectors) else 0.0

    candidates = [
        _candidate(hit, hit.scores.get(VECTORS, nearness[place] if place < len(nearness) else None))
        for place, hit in enumerate(hits)
    ]
    selection = select(
        candidates,
        plan.config,
        query=query.text,
        now=now,
        alike=alike,
        min_similarity=plan.min_similarity,
        fold=request.fold,
    )
    local, is_cut = found.layers["local"], embedder is not None and len(vectors) < len(texts)
    return replace(
        found,
        hits=selection.hits,
        layers={**found.layers, "local": replace(local, cut=local.cut or is_cut)},
        mode=plan.mode,
        mode_reason=plan.reason,
        excluded=selection.excluded,
        clusters=selection.clusters,
        folded=selection.folded,
    )


def _candidate(hit: Hit, nearness: float | None) -> ModeCandidate:
    memory: Memory = hit.memory
    outcome = outcome_of(memory)
    succeeded = None if outcome is None else _SUCCEEDED.get(outcome.status)
    failed = succeeded is False
    is_warning = any(tag.casefold() in ANTI_PATTERN_TAGS for tag in memory.tags)
    return ModeCandidate(
        hit=hit,
        success=success(succeeded, memory.metadata.get("success_rate")),
        is_failure=failed or is_warning,
        is_anti_pattern=is_warning or (failed and bool(memory.metadata.get("reason"))),
        is_worded="local" in hit.layers and is_worded(hit.scores),
        cosine=nearness,
    )
