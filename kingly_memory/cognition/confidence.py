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
    found, asked = [], stems(description[:READ])
    for hit in hits:
        outcome = outcome_of(hit.memory)
        if outcome is not None:
            said = shared(asked, stems(outcome.task))
            worded = min(max(hit.relevance, (hit.relevance + said) / 2), NAMED * said)
            meant = hit.scores.get("remote", 0.0)
            found.append(replace(hit, relevance=max(worded, meant if said or meant >= MEANT_ALONE else 0.0)))
    return found


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
    known = _similar([one for one in best.values() if one[1].is_known])
    others = _similar([one for one in best.values() if not one[1].is_known])
    known.sort(key=lambda one: (-round(one[0].relevance, 1), -one[0].memory.created_at.timestamp()))
    known = known[:limit]
    most = max((hit.relevance for hit, _ in known), default=1.0)
    return tuple(
        Evidence(hit.memory.id, said.task, said.status, hit.relevance, hit.relevance / most if said.is_known else 0.0)
        for hit, said in sorted([*known, *others[: limit - len(known)]], key=_most_relevant_first)
    )


def _similar(found: list[tuple[Hit, TaskOutcome]]) -> list[tuple[Hit, TaskOutcome]]:
    """All of them, most relevant first, if the first is similar enough."""
    found.sort(key=_most_relevant_first)
    return found if found and found[0][0].relevance >= SIMILAR else []


def _most_relevant_first(found: tuple[Hit, TaskOutcome]) -> tuple[float, str]:
    return -found[0].relevance, found[0].memory.id


def _weight(found: Iterable[Evidence], status: TaskStatus) -> float:
    """Summed without a rounding that would depend on the order."""
    return math.fsum(one.weight for one in found if one.status == status)


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


def assess(description: str, found: Sequence[Evidence]) -> Assessment:
    """The confidence for a task, given what came of similar ones.

    Another success never lowers it and another failure never raises it, as long as the new one is no more relevant
    than the best and weights are from 0.3 to 1, as `evidence` gives them. The order does not matter.
    """
    known = [one for one in found if one.is_known]
    succeeded, failed = _weight(known, TaskStatus.COMPLETED), _weight(known, TaskStatus.FAILED)
    gain = round(_SWING * succeeded / (succeeded + failed)) if known else 0
    loss = _SWING - gain if known else 0
    successes = sum(1 for one in known if one.status == TaskStatus.COMPLETED)
    bonus = _BONUS if successes >= BONUS_FROM else 0
    # By Laplace's rule of succession n outcomes move an expectation by n / (n + 2) of what they show. That is divided
    # by the 5 / 7 of five outcomes, which count in full; what memory says is taken back by the rest. What similar tasks
    # did tells already how hard they are, so a complex description counts in that rest only.
    unearned = 1 - min(len(known) * (ENOUGH + 2) / ((len(known) + 2) * ENOUGH), 1.0)
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
        similar_tasks_count=len(found),
        memory_informed=bool(known),
        evidence=tuple(found),
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
    names, found = _names(candidates), list(hits)
    memories: dict[str, Memory] = {hit.memory.id: hit.memory for hit in found}
    record: dict[str, list[Evidence]] = {name: [] for name in names}
    for one in evidence(found, limit=len(found)):
        outcome = outcome_of(memories[one.id])
        said = (None if outcome is None else outcome.approach, memories[one.id].scope.agent)
        owner = next((name for name in said if name in names), None)
        if one.is_known and owner is not None:
            record[owner].append(one)
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
