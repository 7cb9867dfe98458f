"""How sure to be of a task, and whom to give it to, by what came of similar ones (seed 004, AC-004; decisions K6, K7).

Pure. Every figure of the rule is a whole number of ten-thousandths, so that the factors add up to the confidence
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from kingly_memory import validation
from kingly_memory.cognition.outcomes import KNOWN, TaskOutcome, TaskStatus, outcome_of
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Memory, Source
from kingly_memory.plain import Plain
from kingly_memory.text.writing import shared, stems

EVIDENCE_LIMIT = 5
SIMILAR = 0.35
"""Relevance that the best one needs, or nothing is evidence: to share one word of three is not to be similar."""
LEAST_RELEVANCE = 0.3
"""Relevance that the ones after it need."""
ENOUGH = 5
"""Known outcomes that count in full."""
BONUS_FROM = 3
MOST_CANDIDATES = 100

NAMED = 2.0
"""A search counts for up to so many times the likeness of the names."""
MEANT_ALONE = 0.6
"""What a remote has to say at least where the names share no word."""
READ = 4_096
"""Characters of either description that are compared."""

FREE_CHARACTERS = 1_000
MOST_SURPLUS = 5

_ONE = 10_000
_BASE = 5_000
_SWING = 3_000
_BONUS = 1_000
_STEP = 200


# --- how alike, and how much at once ----------------------------------------------------------------------------------


def by_likeness(description: str, hits: Iterable[Hit]) -> list[Hit]:
    """The outcomes among the hits, each with how alike it is as relevance: what the search says, raised halfway to
    the likeness of the two descriptions (the share of words in common, Dice 1945) where that is more, or what a remote
    says of their meaning.

    A search ranks by how rare words are in the store: the words of a task that is done every day are not, and still
    they make it the same task. Measured on 40 kinds of tasks that share words: either alone errs by half as much again.
    What an outcome's reason or notes share with the description does not make it the same task.
    """
    alike, task_stems = [], stems(description[:READ])
    for hit in hits:
        outcome = outcome_of(hit.memory)
        if outcome is not None:
            likeness = shared(task_stems, stems(outcome.task))
            worded = min(max(hit.relevance, (hit.relevance + likeness) / 2), NAMED * likeness)
            meant = hit.scores.get("remote", 0.0)
            alike.append(replace(hit, relevance=max(worded, meant if likeness or meant >= MEANT_ALONE else 0.0)))
    return alike


def surplus(description: str) -> int:
    """What a description asks beyond an ordinary task, from 0 to 5: one for every 1,000 characters begun after the
    first 1,000."""
    return min(-(-max(len(description) - FREE_CHARACTERS, 0) // FREE_CHARACTERS), MOST_SURPLUS)


# --- evidence ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evidence(Plain):
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


def evidence(hits: Iterable[Hit], *, limit: int = EVIDENCE_LIMIT) -> tuple[Evidence, ...]:
    """The outcomes among the hits, each once, most relevant first.

    Outcomes that count neither way never take the place of one that does. Of those that are about equally similar the
    latest are taken, so that what has changed since is seen.
    """
    best: dict[str, tuple[Hit, TaskOutcome]] = {}
    for hit in hits:
        outcome = outcome_of(hit.memory) if hit.relevance >= LEAST_RELEVANCE else None
        before = best.get(hit.memory.id)
        if outcome is not None and (before is None or before[0].relevance < hit.relevance):
            best[hit.memory.id] = (hit, outcome)
    counted = _similar([one for one in best.values() if one[1].is_known])
    uncounted = _similar([one for one in best.values() if not one[1].is_known])
    counted.sort(key=lambda one: (-round(one[0].relevance, 1), -one[0].memory.created_at.timestamp()))
    counted = counted[:limit]
    most = max((hit.relevance for hit, _ in counted), default=1.0)
    return tuple(
        Evidence(
            hit.memory.id,
            result.task,
            result.status,
            hit.relevance,
            hit.relevance / most if result.is_known else 0.0,
        )
        for hit, result in sorted([*counted, *uncounted[: limit - len(counted)]], key=_most_relevant_first)
    )


def _similar(outcomes: list[tuple[Hit, TaskOutcome]]) -> list[tuple[Hit, TaskOutcome]]:
    """All of them, most relevant first, if the first is similar enough."""
    outcomes.sort(key=_most_relevant_first)
    return outcomes if outcomes and outcomes[0][0].relevance >= SIMILAR else []


def _most_relevant_first(pair: tuple[Hit, TaskOutcome]) -> tuple[float, str]:
    return -pair[0].relevance, pair[0].memory.id


def _weight(similar: Iterable[Evidence], status: TaskStatus) -> float:
    """Summed without a rounding that would depend on the order."""
    return math.fsum(one.weight for one in similar if one.status == status)


# --- confidence -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assessment(Plain):
    """How sure to be that a task will succeed, and why.

    `confidence_factors` add up to `confidence` exactly; what they may be keeps it within 0.2 and 0.9, so that no cap
    has to act. `context` is what was at hand in the context that was named.
    """

    confidence: float
    confidence_factors: Mapping[str, float]
    similar_tasks_count: int
    memory_informed: bool
    evidence: tuple[Evidence, ...]
    assessment_id: str | None = None
    source: Source = Source.LOCAL
    context: tuple[Memory, ...] = ()


def assess(description: str, similar: Sequence[Evidence]) -> Assessment:
    """The confidence for a task, given what came of similar ones.

    Another success never lowers it and another failure never raises it, as long as the new one is no more relevant
    than the best and weights are from 0.3 to 1, as `evidence` gives them. The order does not matter.
    """
    counted = [one for one in similar if one.is_known]
    succeeded, failed = _weight(counted, TaskStatus.COMPLETED), _weight(counted, TaskStatus.FAILED)
    gain = round(_SWING * succeeded / (succeeded + failed)) if counted else 0
    loss = _SWING - gain if counted else 0
    successes = sum(1 for one in counted if one.status == TaskStatus.COMPLETED)
    bonus = _BONUS if successes >= BONUS_FROM else 0
    # By Laplace's rule of succession n outcomes move an expectation by n / (n + 2) of what they show. That is divided
    # by the 5 / 7 of five outcomes, which count in full; what memory says is taken back by the rest. What similar tasks
    # did tells already how hard they are, so a complex description counts in that rest only.
    unearned = 1 - min(len(counted) * (ENOUGH + 2) / ((len(counted) + 2) * ENOUGH), 1.0)
    factors = {
        "base": _BASE,
        "memory_informed": gain,
        "failure_penalty": -loss,
        "pattern_bonus": bonus,
        "small_sample": -round((gain - loss + bonus) * unearned),
        "complexity_penalty": -round(_STEP * surplus(description) * unearned),
    }
    return Assessment(
        confidence=sum(factors.values()) / _ONE,
        confidence_factors={name: points / _ONE for name, points in factors.items()},
        similar_tasks_count=len(similar),
        memory_informed=bool(counted),
        evidence=tuple(similar),
    )


# --- routing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankedCandidate(Plain):
    """One that could do the task. `score` is the success rate to expect of it, from 0 to 1; 0.5 when it is untried.

    `evidence` are the ids of the outcomes that the score rests on, most relevant first.
    """

    name: str
    score: float
    successes: int
    failures: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Routing(Plain):
    """Candidates, best first; equals in the order they were named."""

    SHOWN = ("best",)

    ranked: tuple[RankedCandidate, ...]

    @property
    def best(self) -> str:
        return self.ranked[0].name


def rank(candidates: Sequence[str], hits: Iterable[Hit]) -> Routing:
    """Rank the candidates by what came of similar tasks. Raises InvalidInput on names that make no list.

    An outcome counts for the candidate that its approach names, else for the one that is the agent who recorded it. The
    score is the success rate by Laplace's rule of succession: one success and one failure are assumed before any is
    seen.
    """
    names, outcomes = _names(candidates), list(hits)
    memories: dict[str, Memory] = {hit.memory.id: hit.memory for hit in outcomes}
    record: dict[str, list[Evidence]] = {name: [] for name in names}
    for similar in evidence(outcomes, limit=len(outcomes)):
        outcome = outcome_of(memories[similar.id])
        names_given = (None if outcome is None else outcome.approach, memories[similar.id].scope.agent)
        owner = next((name for name in names_given if name in names), None)
        if similar.is_known and owner is not None:
            record[owner].append(similar)
    scored = []
    for name, own in record.items():
        succeeded = _weight(own, TaskStatus.COMPLETED)
        score = round((1 + succeeded) / (2 + succeeded + _weight(own, TaskStatus.FAILED)), 4)
        successes = sum(1 for one in own if one.status == TaskStatus.COMPLETED)
        scored.append(RankedCandidate(name, score, successes, len(own) - successes, tuple(one.id for one in own)))
    return Routing(tuple(sorted(scored, key=lambda one: -one.score)))


def _names(candidates: object) -> tuple[str, ...]:
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InvalidInput("candidates", f"expected a list of names, not {type(candidates).__name__}")
    if not 1 <= len(candidates) <= MOST_CANDIDATES:
        raise InvalidInput("candidates", f"{len(candidates)} were named; name 1 to {MOST_CANDIDATES}")
    names = tuple(validation.required("candidates", one) for one in candidates)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidInput("candidates", f"{validation.shown(repeated)!r} is named twice")
    return names
