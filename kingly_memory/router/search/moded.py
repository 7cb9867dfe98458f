"""Search in a mode: what the mode makes of the candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime

from kingly_memory.cognition.outcomes import TaskStatus, outcome_of
from kingly_memory.dataclass import replace
from kingly_memory.models import Hit, Memory, Results
from kingly_memory.ports import Embedder
from kingly_memory.retrieval.fusion import VECTORS, cut, is_worded
from kingly_memory.retrieval.modes import ModeCandidate, ModePlan, cosine, select, success

READ_CHARACTERS = 1_000
"""How much of a memory is compared."""
ANTI_PATTERN_TAGS = frozenset({"anti_pattern", "anti-pattern"})

_SUCCEEDED: Mapping[str, bool] = {TaskStatus.COMPLETED: True, TaskStatus.FAILED: False}


def chosen(
    found: Results,
    question: str,
    plan: ModePlan,
    *,
    fold: bool,
    embedder: Embedder,
    now: datetime,
    deadline_s: float,
) -> Results:
    """The mode's answer, in its order. Memories are compared by the vectors of that embedder. Those whose turn came
    after `deadline_s` are like nothing else, and the local layer's report says `cut`."""
    hits = list(cut(found.hits, plan.pool))
    if not plan.are_enough([hit.memory for hit in hits], fold=fold):
        chosen_ids, least = {hit.memory.id for hit in hits}, plan.config.min_confidence
        further = [hit for hit in found.hits if "local" in hit.layers and hit.memory.confidence >= least]
        hits += [hit for hit in further if hit.memory.id not in chosen_ids]
    texts = [f"{hit.memory.title or ''} {hit.memory.content[:READ_CHARACTERS]}".strip() for hit in hits]
    [asked] = embedder.embed([question[:READ_CHARACTERS]])
    vectors: list[list[float]] = []
    for text in texts:
        if time.monotonic() >= deadline_s:
            break
        vectors += embedder.embed([text])
    nearness = [cosine(asked, vector) for vector in vectors]

    def alike(left: int, right: int) -> float:
        return cosine(vectors[left], vectors[right]) if max(left, right) < len(vectors) else 0.0

    candidates = [
        _candidate(hit, hit.scores.get(VECTORS, nearness[index] if index < len(nearness) else None))
        for index, hit in enumerate(hits)
    ]
    selected = select(
        found,
        candidates,
        plan.config,
        query=question,
        now=now,
        alike=alike,
        min_similarity=plan.min_similarity,
        fold=fold,
    )
    local, is_cut = found.layers["local"], len(vectors) < len(texts)
    return replace(
        selected,
        layers={**found.layers, "local": replace(local, cut=local.cut or is_cut)},
        mode=plan.mode,
        mode_reason=plan.reason,
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
