"""Calibration: how near the confidence is to a success rate that is known, beside 0.5 and the rule as first written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from benchmarks.measure import Plan, by_words
from benchmarks.report import Table
from benchmarks.wordings import FAMILIES, wordings
from kingly_memory import MemoryRouter
from kingly_memory.cognition.confidence import assess, evidence
from kingly_memory.ids import MemoryId
from kingly_memory.models import Hit
from kingly_memory.validation import draft

Forecast = Callable[[int, int], float]
"""The confidence after so many successes among so many similar tasks."""

RATES = tuple(number / 20 for number in range(21))
SAMPLES = (1, 2, 3, 5)
GAIN = 0.2
"""By how much the error at five samples of exact rates is to be below the baseline's (seed 004, AC-004)."""
RECORDED = 5
"""Similar tasks recorded before the one that is asked about, …"""
OTHER_FAMILIES = 4
"""… among as many of each of these."""
SAMPLES_PER_FAMILY = 25

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def baseline(successes: int, samples: int) -> float:
    """What is said without any memory."""
    return 0.5


def literal(successes: int, samples: int) -> float:
    """Seed 004 as it is written: failures count for nothing."""
    return min(0.5 + 0.3 * successes / samples + (0.1 if successes >= 3 else 0.0), 1.0)


def ours(successes: int, samples: int) -> float:
    statuses = ["completed"] * successes + ["failed"] * (samples - successes)
    return assess("a task", evidence(_hit(number, status) for number, status in enumerate(statuses))).confidence


FORECASTS: Mapping[str, Forecast] = {"baseline 0.5": baseline, "literal": literal, "ours": ours}


async def measure(plan: Plan) -> Table:
    """The errors by sample size are computed, not drawn: every outcome counts with its probability. Those of recorded
    tasks come from routers that tell similar tasks from others by their words."""
    rows = [
        *(_row("mean absolute error, exact rates", error_at_exact_rates, samples) for samples in SAMPLES),
        *(_row("mean absolute error, binomial samples", mean_absolute_error, samples) for samples in SAMPLES),
        *(_row("Brier score, binomial samples", brier_score, samples) for samples in SAMPLES),
        *_recorded_rows(await _recorded(plan)),
    ]
    return Table("calibration", ("against known success rates", "n", *FORECASTS, "better by", "goal", ""), tuple(rows))


def error_at_exact_rates(forecast: Forecast, samples: int) -> float:
    """Mean |confidence − rate| where the sample shows exactly the rate: 0, 1/n, … 1."""
    return math.fsum(abs(forecast(count, samples) - count / samples) for count in range(samples + 1)) / (samples + 1)


def mean_absolute_error(forecast: Forecast, samples: int) -> float:
    """Mean |confidence − rate| over rates 0, 0.05, … 1 and all samples that each rate can give."""
    return _mean(samples, lambda count, rate: abs(forecast(count, samples) - rate))


def brier_score(forecast: Forecast, samples: int) -> float:
    """Mean squared difference between the confidence and what the next task does, over the same rates and samples."""
    return _mean(samples, lambda count, rate: (forecast(count, samples) - rate) ** 2 + rate * (1 - rate))


def chances(samples: int, rate: float) -> Iterator[tuple[int, float]]:
    """How probable each number of successes is."""
    for count in range(samples + 1):
        yield count, math.comb(samples, count) * rate**count * (1 - rate) ** (samples - count)


def _mean(samples: int, loss: Callable[[int, float], float]) -> float:
    losses = (chance * loss(count, rate) for rate in RATES for count, chance in chances(samples, rate))
    return math.fsum(losses) / len(RATES)


@dataclass(frozen=True, slots=True)
class _Case:
    """A task whose success rate is known, and the confidence of each forecast in it."""

    rate: float
    forecasts: Mapping[str, float]


async def _recorded(plan: Plan) -> list[_Case]:
    """Each rate for each family of tasks, in a project of its own; a tiny run makes do with one family."""
    random = Random(1)
    families = range(len(FAMILIES))[: max(1, plan.samples // SAMPLES_PER_FAMILY)]
    settings = by_words(durability="process")
    cases = []
    for family in families:
        for successes in range(RECORDED + 1):
            project = f"family {family}, {successes} of {RECORDED}"
            async with MemoryRouter.open(plan.folder / "calibration", project=project, settings=settings) as memory:
                cases.append(await _case(memory, family, successes, random))
    return cases


async def _case(memory: MemoryRouter, family: int, successes: int, random: Random) -> _Case:
    """Record similar tasks among others, each in words of its own, then ask about one in words not heard before."""
    *recorded, asked = wordings(family, RECORDED + 1, random)
    outcomes = [(task, number < successes) for number, task in enumerate(recorded)]
    others = random.sample([other for other in range(len(FAMILIES)) if other != family], OTHER_FAMILIES)
    for other in others:
        rate = random.random()
        outcomes += [(task, random.random() < rate) for task in wordings(other, RECORDED, random)]
    for task, succeeded in random.sample(outcomes, len(outcomes)):
        await memory.record_task_outcome(task, "completed" if succeeded else "failed")
    found = await memory.search(f"task similar to: {asked}", types=("procedural", "episodic"), limit=5)
    completed = sum(hit.memory.metadata.get("status") == "completed" for hit in found)
    assessment = await memory.assess_confidence(asked)
    forecasts = (0.5, literal(completed, len(found)) if len(found) else 0.5, assessment.confidence)
    return _Case(successes / RECORDED, dict(zip(FORECASTS, forecasts, strict=True)))


def _recorded_rows(cases: Sequence[_Case]) -> Iterator[tuple[str, ...]]:
    def mean(loss: Callable[[float, float], float]) -> dict[str, float]:
        return {
            name: math.fsum(loss(one.forecasts[name], one.rate) for one in cases) / len(cases) for name in FORECASTS
        }

    yield _cells("mean absolute error, recorded tasks", len(cases), mean(lambda forecast, rate: abs(forecast - rate)))
    yield _cells(
        "Brier score, recorded tasks",
        len(cases),
        mean(lambda forecast, rate: (forecast - rate) ** 2 + rate * (1 - rate)),
    )


def _row(name: str, error_of: Callable[[Forecast, int], float], samples: int) -> tuple[str, ...]:
    errors = {label: error_of(forecast, samples) for label, forecast in FORECASTS.items()}
    has_goal = error_of is error_at_exact_rates and samples == SAMPLES[-1]
    return _cells(name, samples, errors, GAIN if has_goal else None)


def _cells(name: str, count: int, errors: Mapping[str, float], goal: float | None = None) -> tuple[str, ...]:
    gain = errors["baseline 0.5"] - errors["ours"]
    promise, verdict = ("", "") if goal is None else (f"better by ≥ {goal:g}", "held" if gain >= goal else "missed")
    return (name, str(count), *(f"{error:.4f}" for error in errors.values()), f"{gain:.4f}", promise, verdict)


def _hit(number: int, status: str) -> Hit:
    task = draft("a task", type="procedural", metadata={"status": status})
    memory = task.memory(MemoryId(f"{number:032x}"), "bench", created_at=_NOW, updated_at=_NOW)
    return Hit(memory, 1.0, ("local",))
