"""Strengths by the rule of seed 000, worked out beforehand, and memories with facets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.policies import Subject, Usage
from kingly_memory.lifecycle.tiers import Placement
from kingly_memory.models import Memory, MemoryStatus, Scope, Tier
from tests.store_samples import memory as sample

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0

SIGNIFICANCES = (0.0, 0.5, 1.0)
REINFORCEMENTS = (0, 1, 4)

_TABLE = {
    (0, 0): (0.5, 0.55, 0.65, 0.75, 0.825, 0.975, 1.0, 1.0, 1.0),
    (0, 1): (0.534657, 0.584657, 0.684657, 0.801986, 0.876986, 1.0, 1.0, 1.0, 1.0),
    (0, 5): (0.589588, 0.639588, 0.739588, 0.884382, 0.959382, 1.0, 1.0, 1.0, 1.0),
    (0, 60): (0.7, 0.75, 0.85, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    (7, 0): (0.425348, 0.475348, 0.575348, 0.638022, 0.713022, 0.863022, 0.850696, 0.950696, 1.0),
    (7, 1): (0.460006, 0.510006, 0.610006, 0.690008, 0.765008, 0.915008, 0.920011, 1.0, 1.0),
    (7, 5): (0.514936, 0.564936, 0.664936, 0.772404, 0.847404, 0.997404, 1.0, 1.0, 1.0),
    (7, 60): (0.625348, 0.675348, 0.775348, 0.938022, 1.0, 1.0, 1.0, 1.0, 1.0),
    (30, 0): (0.250037, 0.300037, 0.400037, 0.375055, 0.450055, 0.600055, 0.500074, 0.600074, 0.800074),
    (30, 1): (0.284694, 0.334694, 0.434694, 0.427041, 0.502041, 0.652041, 0.569388, 0.669388, 0.869388),
    (30, 5): (0.339625, 0.389625, 0.489625, 0.509437, 0.584437, 0.734437, 0.67925, 0.77925, 0.97925),
    (30, 60): (0.450037, 0.500037, 0.600037, 0.675055, 0.750055, 0.900055, 0.900074, 1.0, 1.0),
    (60, 0): (0.125037, 0.175037, 0.275037, 0.187555, 0.262555, 0.412555, 0.250074, 0.350074, 0.550074),
    (60, 1): (0.159694, 0.209694, 0.309694, 0.239541, 0.314541, 0.464541, 0.319388, 0.419388, 0.619388),
    (60, 5): (0.214625, 0.264625, 0.364625, 0.321937, 0.396937, 0.546937, 0.42925, 0.52925, 0.72925),
    (60, 60): (0.325037, 0.375037, 0.475037, 0.487555, 0.562555, 0.712555, 0.650074, 0.750074, 0.950074),
    (120, 0): (0.031268, 0.081268, 0.181268, 0.046903, 0.121903, 0.271903, 0.062537, 0.162537, 0.362537),
    (120, 1): (0.065926, 0.115926, 0.215926, 0.098889, 0.173889, 0.323889, 0.131852, 0.231852, 0.431852),
    (120, 5): (0.120856, 0.170856, 0.270856, 0.181285, 0.256285, 0.406285, 0.241713, 0.341713, 0.541713),
    (120, 60): (0.231268, 0.281268, 0.381268, 0.346903, 0.421903, 0.571903, 0.462537, 0.562537, 0.762537),
    (365, 0): (0.000109, 0.050109, 0.150109, 0.000163, 0.075163, 0.225163, 0.000218, 0.100218, 0.300218),
    (365, 1): (0.034766, 0.084766, 0.184766, 0.052149, 0.127149, 0.277149, 0.069533, 0.169533, 0.369533),
    (365, 5): (0.089697, 0.139697, 0.239697, 0.134545, 0.209545, 0.359545, 0.179394, 0.279394, 0.479394),
    (365, 60): (0.200109, 0.250109, 0.350109, 0.300163, 0.375163, 0.525163, 0.400218, 0.500218, 0.700218),
}
"""By idle days and accesses: the strengths at significance 0, 0.5 and 1, each with 0, 1 and 4 fresh reinforcements."""


class Sample(NamedTuple):
    days: int
    accesses: int
    reinforcements: int
    significance: float
    strength: float


def samples() -> Iterator[Sample]:
    """All of the table, half-life 30 days."""
    for (days, accesses), row in _TABLE.items():
        figures = iter(row)
        for significance in SIGNIFICANCES:
            for reinforcements in REINFORCEMENTS:
                yield Sample(days, accesses, reinforcements, significance, next(figures))


def memory(number: int = 1, *, days_old: float = 0.0, **said: Any) -> Memory:
    """A memory as it was stored that many days before noon."""
    then = datetime.fromtimestamp(NOON_S - days_old * DAY_S, UTC)
    memory_id = MemoryId(f"019b0000-0000-7000-8000-{number:012x}")
    text = said.pop("content", f"note {number}")
    return sample(text, "app", **{"id": memory_id, "created_at": then, "updated_at": then, **said})


def subject(number: int = 1, *, days_old: float = 0.0, **said: Any) -> Subject:
    """A live memory; what is no field of a Subject is one of its memory."""
    own = {name: said.pop(name) for name in Subject.__match_args__ if name in said}
    return Subject(memory(number, days_old=days_old, **said), **{"status": MemoryStatus.LIVE, **own})


def placed(
    significance: float = 0.5,
    tier: Tier | None = None,
    *,
    number: int = 1,
    age_s: float = 0.0,
    accesses: int = 0,
    used_s: float | None = None,
    agent: str | None = None,
    tags: tuple[str, ...] = (),
    metadata: dict[str, object] | None = None,
    **facet: Any,
) -> Subject:
    """A live memory of that significance in that tier. `tier` None leaves it without the facet; `facet` are fields of
    the placement."""
    return subject(
        number,
        days_old=age_s / DAY_S,
        significance=significance,
        scope=Scope("app", agent=agent),
        tags=tags,
        metadata=metadata or {},
        usage=Usage(accesses, used_s),
        placement=None if tier is None else Placement(tier, **facet),
    )
