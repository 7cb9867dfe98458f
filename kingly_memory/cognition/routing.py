"""Which agent or approach to give a task to, by their record on similar ones. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kingly_memory import intake
from kingly_memory.cognition.confidence import Evidence, evidence
from kingly_memory.cognition.outcomes import TaskStatus, outcome_of
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, JsonObject, Memory

MOST_CANDIDATES = 100


@dataclass(frozen=True, slots=True)
class Candidate:
    """One that could do the task. `score` is the success rate to expect of it, from 0 to 1; 0.5 when it is untried.

    `evidence` are the ids of the outcomes that the score rests on, most relevant first.
    """

    name: str
    score: float
    successes: int
    failures: int
    evidence: tuple[str, ...]

    def to_json(self) -> JsonObject:
        return {
            "name": self.name,
            "score": self.score,
            "successes": self.successes,
            "failures": self.failures,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Routing:
    """Candidates, best first; equals in the order they were named."""

    ranked: tuple[Candidate, ...]

    @property
    def best(self) -> str:
        return self.ranked[0].name

    def to_json(self) -> JsonObject:
        return {"best": self.best, "ranked": [one.to_json() for one in self.ranked]}


def rank(candidates: Sequence[str], hits: Iterable[Hit]) -> Routing:
    """Rank the candidates by what came of similar tasks. Raises InvalidInput on names that make no list.

    An outcome counts for the candidate that its approach names, else for the one that is the agent who recorded it.
    """
    names = _names(candidates)
    found = list(hits)
    memories: dict[str, Memory] = {hit.memory.id: hit.memory for hit in found}
    record: dict[str, list[Evidence]] = {name: [] for name in names}
    for one in evidence(found, limit=len(found)):
        owner = _owner(memories[one.id], names)
        if one.is_known and owner is not None:
            record[owner].append(one)
    scored = [_candidate(name, record[name]) for name in names]
    return Routing(tuple(sorted(scored, key=lambda one: -one.score)))


def _names(candidates: object) -> tuple[str, ...]:
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InvalidInput("candidates", f"expected a list of names, not {type(candidates).__name__}")
    if not 1 <= len(candidates) <= MOST_CANDIDATES:
        raise InvalidInput("candidates", f"{len(candidates)} were named; name 1 to {MOST_CANDIDATES}")
    names = tuple(intake.required("candidates", one) for one in candidates)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidInput("candidates", f"{intake.shown(repeated)!r} is named twice")
    return names


def _owner(memory: Memory, names: Sequence[str]) -> str | None:
    outcome = outcome_of(memory)
    said = (None if outcome is None else outcome.approach, memory.scope.agent)
    return next((one for one in said if one in names), None)


def _candidate(name: str, record: Sequence[Evidence]) -> Candidate:
    """The success rate by Laplace's rule of succession: one success and one failure are assumed before any is seen."""
    succeeded = [one for one in record if one.status == TaskStatus.COMPLETED]
    weight, total = (math.fsum(one.weight for one in which) for which in (succeeded, record))
    return Candidate(
        name=name,
        score=round((1 + weight) / (2 + total), 4),
        successes=len(succeeded),
        failures=len(record) - len(succeeded),
        evidence=tuple(one.id for one in record),
    )
