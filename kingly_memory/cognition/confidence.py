"""How sure to be of a task, by what came of similar ones (seed 004, AC-004, and decisions K6 and K7). Pure.

Every figure of the rule is a whole number of ten-thousandths, so that the factors add up to the confidence exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kingly_memory.cognition.complexity import surplus
from kingly_memory.cognition.outcomes import KNOWN, Outcome, TaskStatus, outcome_of
from kingly_memory.models import Hit, JsonObject, Memory, Source

EVIDENCE_LIMIT = 5
SIMILAR = 0.35
"""Relevance that the best one needs, or nothing is evidence: to share one word of three is not to be similar."""
LEAST_RELEVANCE = 0.3
"""Relevance that the ones after it need."""

ENOUGH = 5
"""Known outcomes that count in full."""
BONUS_FROM = 3

_ONE = 10_000
_BASE = 5_000
_SWING = 3_000
_BONUS = 1_000
_STEP = 200

_Z_90 = 1.6448536269514722
"""Of the normal distribution, 90 % lies within so many standard deviations."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A similar task and what came of it: `status` is completed, failed, cancelled or unknown.

    `weight` is how much it counts: the relevance divided by the best one's, and 0 unless completed or failed.
    """

    id: str
    task: str
    status: str
    relevance: float
    weight: float

    @property
    def is_known(self) -> bool:
        """True when it counts as a success or as a failure."""
        return self.weight > 0 and self.status in KNOWN

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "task": self.task,
            "status": self.status,
            "relevance": round(self.relevance, 4),
            "weight": round(self.weight, 4),
        }


@dataclass(frozen=True, slots=True)
class Assessment:
    """How sure to be that a task will succeed, and why.

    `factors` add up to `confidence` exactly; what they may be keeps it within 0.2 and 0.9, so that no cap has to act.
    `interval` holds the success rate of such tasks with 90 % probability as far as the evidence tells, (0, 1) when
    there is none. `context` is what was at hand in the context that was named.
    """

    confidence: float
    factors: Mapping[str, float]
    interval: tuple[float, float]
    similar_tasks_count: int
    memory_informed: bool
    evidence: tuple[Evidence, ...]
    assessment_id: str | None = None
    source: Source = Source.LOCAL
    context: tuple[Memory, ...] = ()

    def to_json(self) -> JsonObject:
        """In the names of seed 004, with more beside."""
        return {
            "confidence": self.confidence,
            "confidence_factors": dict(self.factors),
            "similar_tasks_count": self.similar_tasks_count,
            "memory_informed": self.memory_informed,
            "interval": list(self.interval),
            "evidence": [one.to_json() for one in self.evidence],
            "assessment_id": self.assessment_id,
            "source": self.source.value,
            "context": [memory.to_json() for memory in self.context],
        }


def evidence(
    hits: Iterable[Hit], *, limit: int = EVIDENCE_LIMIT, least_relevance: float = LEAST_RELEVANCE
) -> tuple[Evidence, ...]:
    """The outcomes among the hits, each once, most relevant first.

    Outcomes that count neither way never take the place of one that does. Of those that are about equally similar the
    latest are taken, so that what has changed since is seen.
    """
    found = _outcomes(hits, least_relevance)
    known = sorted(_similar([one for one in found if one[1].is_known]), key=_latest_of_the_most_alike)[:limit]
    others = _similar([one for one in found if not one[1].is_known])[: limit - len(known)]
    best = max((hit.relevance for hit, _ in known), default=1.0)
    return tuple(_evidence(hit, outcome, best) for hit, outcome in sorted([*known, *others], key=_order))


def assess(description: str, found: Sequence[Evidence]) -> Assessment:
    """The confidence for a task, given what came of similar ones.

    Another success never lowers it and another failure never raises it, as long as the new one is no more relevant
    than the best and weights are from 0.3 to 1, as `evidence` gives them. The order does not matter.
    """
    known = [one for one in found if one.is_known]
    factors = _factors(known, surplus(description))
    return Assessment(
        confidence=sum(factors.values()) / _ONE,
        factors={name: points / _ONE for name, points in factors.items()},
        interval=interval(_weight(known, TaskStatus.COMPLETED), _weight(known, TaskStatus.FAILED)),
        similar_tasks_count=len(found),
        memory_informed=bool(known),
        evidence=tuple(found),
    )


def interval(successes: float, failures: float) -> tuple[float, float]:
    """Where the success rate lies with 90 % probability, by Wilson's score interval (1927), rounded to four digits."""
    total = successes + failures
    if total <= 0:
        return 0.0, 1.0
    unsure = _Z_90**2
    centre = (successes + unsure / 2) / (total + unsure)
    half = _Z_90 * math.sqrt(successes * (failures / total) + unsure / 4) / (total + unsure)
    return round(max(centre - half, 0.0), 4), round(min(centre + half, 1.0), 4)


def trust(known: int) -> float:
    """The share in which so many outcomes count, from 0 to 1.

    By Laplace's rule of succession n outcomes move an expectation by n / (n + 2) of what they show; that is divided by
    the 5 / 7 of five outcomes, which count in full.
    """
    return min(known * (ENOUGH + 2) / ((known + 2) * ENOUGH), 1.0)


def _factors(known: Sequence[Evidence], surplus_steps: int) -> dict[str, int]:
    """In ten-thousandths.

    What memory says is taken back by the share that a small sample has not earned. What similar tasks did tells already
    how hard they are, so a complex description counts in that share only.
    """
    unearned = 1 - trust(len(known))
    gain, loss = _swings(known)
    successes = sum(1 for one in known if one.status == TaskStatus.COMPLETED)
    bonus = _BONUS if successes >= BONUS_FROM else 0
    return {
        "base": _BASE,
        "memory_informed": gain,
        "failure_penalty": -loss,
        "pattern_bonus": bonus,
        "small_sample": -round((gain - loss + bonus) * unearned),
        "complexity_penalty": -round(_STEP * surplus_steps * unearned),
    }


def _swings(known: Sequence[Evidence]) -> tuple[int, int]:
    """What the rates of successes and failures are worth."""
    if not known:
        return 0, 0
    succeeded, failed = _weight(known, TaskStatus.COMPLETED), _weight(known, TaskStatus.FAILED)
    gain = round(_SWING * succeeded / (succeeded + failed))
    return gain, _SWING - gain


def _weight(known: Iterable[Evidence], status: TaskStatus) -> float:
    """Summed without a rounding that would depend on the order."""
    return math.fsum(one.weight for one in known if one.status == status)


def _outcomes(hits: Iterable[Hit], least_relevance: float) -> list[tuple[Hit, Outcome]]:
    """Relevant enough, each memory once, best first."""
    best: dict[str, tuple[Hit, Outcome]] = {}
    for hit in hits:
        outcome = outcome_of(hit.memory) if hit.relevance >= least_relevance else None
        before = best.get(hit.memory.id)
        if outcome is not None and (before is None or before[0].relevance < hit.relevance):
            best[hit.memory.id] = (hit, outcome)
    return sorted(best.values(), key=_order)


def _similar(found: list[tuple[Hit, Outcome]]) -> list[tuple[Hit, Outcome]]:
    """All of them, if the first is similar enough."""
    return found if found and found[0][0].relevance >= SIMILAR else []


def _latest_of_the_most_alike(found: tuple[Hit, Outcome]) -> tuple[float, float]:
    hit, _ = found
    return -round(hit.relevance, 1), -hit.memory.created_at.timestamp()


def _order(found: tuple[Hit, Outcome]) -> tuple[float, str]:
    return -found[0].relevance, found[0].memory.id


def _evidence(hit: Hit, outcome: Outcome, best: float) -> Evidence:
    weight = hit.relevance / best if outcome.is_known else 0.0
    return Evidence(hit.memory.id, outcome.task, outcome.status, hit.relevance, weight)
