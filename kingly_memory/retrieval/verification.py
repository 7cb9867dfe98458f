"""What verified retrieval answers: each memory with a verdict on it and who gave that (seed 000, priority 3). Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from kingly_memory.models import JsonObject, Memory
from kingly_memory.retrieval.fusion import cut_with, is_ours

NEUTRAL = 0.5
TO_THE_POINT = 0.3
"""Of the relevance of the best answer: what a verified memory needs to go before those that answer better."""
"""The confidence of a verdict, and the retrieval score of a memory, when nobody said any."""


class VerificationStatus(StrEnum):
    """What came of checking a memory. Unverifiable ones were not checked at all."""

    VERIFIED = "verified"
    UNCERTAIN = "uncertain"
    CONTRADICTED = "contradicted"
    UNVERIFIABLE = "unverifiable"


class Basis(StrEnum):
    """What memories are held against."""

    GROUND_TRUTH = "ground_truth"
    CROSS_VERIFY = "cross_verify"
    NONE = "none"


class Judge(StrEnum):
    """Who gave a verdict: a language model, a comparison of words, numbers and negations, or nobody but the memory's
    own confidence and the threshold for it."""

    MODEL = "model"
    WORDS = "words"
    CONFIDENCE = "confidence"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on one memory. `confidence` says how sure the verdict is; it is kept in [0, 1]."""

    status: VerificationStatus
    confidence: float
    reason: str
    contradicting_source: str | None = None
    judge: Judge = Judge.NONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", share_of(self.confidence))

    def to_json(self) -> JsonObject:
        return {
            "status": self.status.value,
            "confidence": round(self.confidence, 4),
            "reason": self.reason,
            "contradicting_source": self.contradicting_source,
            "judge": self.judge.value,
        }


@dataclass(frozen=True, slots=True)
class VerifiedMemory:
    """A memory, what came of checking it, and how well it answers the query (0 to 1)."""

    memory: Memory
    verification: Verification
    retrieval_score: float = NEUTRAL

    def to_json(self) -> JsonObject:
        return {
            **self.memory.to_json(),
            "verification": self.verification.to_json(),
            "retrieval_score": round(self.retrieval_score, 4),
        }


@dataclass(frozen=True, slots=True)
class VerifiedResults:
    """The memories by status: verified ones by how sure the verdict is, all others by how well they answer.

    `metadata`: `query`; `total_candidates`, how many were checked; `verification_method`, what they were held against;
    `counts`, how many of all of them have which status; `judges`, how many verdicts are whose. A search adds how it
    was done: `asked`, what was looked up where that was taken out of a longer text; `repaired`, the words that were
    taken for misspelt; `folded`, by the id of a memory those that say the same; `source`, `failures` and `took_ms`; and
    in a mode `mode`, `mode_reason` and `excluded`.
    """

    verified: tuple[VerifiedMemory, ...] = ()
    uncertain: tuple[VerifiedMemory, ...] = ()
    contradicted: tuple[VerifiedMemory, ...] = ()
    unverifiable: tuple[VerifiedMemory, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, checked: Iterable[VerifiedMemory], *, top_k: int, query: str, basis: Basis, **more: Any) -> Self:
        """At most `top_k` memories in all: verified ones first, the surest before the others; the other places go by
        retrieval score. A verified one that barely answers takes no place from one that answers better. Half of the
        places, rounded up, are for memories that were stored here."""
        ranked = sorted(checked, key=lambda one: -one.retrieval_score)
        least = TO_THE_POINT * max((one.retrieval_score for one in ranked), default=0.0)
        first = sorted((one for one in ranked if _is_verified(one) and one.retrieval_score >= least), key=_by_verdict)
        others = [one for one in ranked if not (_is_verified(one) and one.retrieval_score >= least)]
        order = [*first, *others]
        kept = cut_with(order, top_k, [one for one in order if is_ours(one.memory)])
        verified = sorted(filter(_is_verified, kept), key=_by_verdict)
        shown = [*verified, *(one for one in kept if not _is_verified(one))]
        lists = {status.value: tuple(one for one in shown if one.verification.status is status) for status in _LISTS}
        counts = Counter(one.verification.status.value for one in ranked)
        return cls(
            **lists,
            metadata={
                "query": query,
                "total_candidates": len(ranked),
                "verification_method": basis.value,
                "counts": {status.value: counts[status.value] for status in _LISTS},
                "judges": dict(Counter(one.verification.judge.value for one in ranked)),
                **more,
            },
        )

    @property
    def all_usable(self) -> tuple[VerifiedMemory, ...]:
        """What may be used, the uncertain ones with care."""
        return self.verified + self.uncertain

    @property
    def high_confidence(self) -> tuple[VerifiedMemory, ...]:
        """What was verified."""
        return self.verified

    def __iter__(self) -> Iterator[VerifiedMemory]:
        return (one for status in _LISTS for one in getattr(self, status.value))

    def __len__(self) -> int:
        return sum(len(getattr(self, status.value)) for status in _LISTS)

    def to_json(self) -> JsonObject:
        lists = {status.value: [one.to_json() for one in getattr(self, status.value)] for status in _LISTS}
        return {**lists, "metadata": dict(self.metadata)}


_LISTS = tuple(VerificationStatus)


def _is_verified(one: VerifiedMemory) -> bool:
    return one.verification.status is VerificationStatus.VERIFIED


def _by_verdict(one: VerifiedMemory) -> float:
    return -one.verification.confidence


def share_of(value: object) -> float:
    """A number as a share in [0, 1]; neutral when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return NEUTRAL
    return min(max(float(value), 0.0), 1.0) if abs(value) <= 1 else float(value > 0)


def retrieval_score(candidate: object) -> float:
    """How well a candidate answers the query, neutral for one that does not say."""
    return share_of(getattr(candidate, "relevance", None))


def by_confidence(memory: Memory, threshold: float, because: str) -> Verification:
    """The verdict when nothing else can be asked: what the memory says of itself."""
    if memory.confidence >= threshold:
        reason = f"{because}, and its own confidence reaches {threshold:g}"
        return Verification(VerificationStatus.VERIFIED, memory.confidence, reason, judge=Judge.CONFIDENCE)
    reason = f"{because}, and its own confidence is below {threshold:g}"
    return Verification(VerificationStatus.UNCERTAIN, memory.confidence, reason, judge=Judge.CONFIDENCE)


def unverifiable(confidence: float, reason: str) -> Verification:
    return Verification(VerificationStatus.UNVERIFIABLE, confidence, reason)


def undecided(reason: str, judge: Judge = Judge.MODEL) -> Verification:
    """The verdict where a model gave none, or nobody had the time."""
    return Verification(VerificationStatus.UNCERTAIN, NEUTRAL, reason, judge=judge)
