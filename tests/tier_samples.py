"""Memories in tiers, and what a steward does with what was decided on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.consolidation import Consolidation, heading
from kingly_memory.lifecycle.subject import Subject, Usage
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.lifecycle.tiers import Placement, of_summary
from kingly_memory.lifecycle.verdicts import Archive, Summarise
from kingly_memory.models import Memory, MemoryType, Origin, Scope, Standing, Tier

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
SEEDS_TTL_S = {Tier.FAST: MINUTE_S, Tier.MEDIUM: HOUR_S, Tier.SLOW: DAY_S, Tier.GLACIAL: 7 * DAY_S}


def subject(
    significance: float = 0.5,
    tier: Tier | None = None,
    *,
    number: int = 1,
    project: str = "app",
    agent: str | None = None,
    tags: tuple[str, ...] = (),
    metadata: dict[str, object] | None = None,
    age_s: float = 0.0,
    accesses: int = 0,
    used_s: float | None = None,
    **facets: object,
) -> Subject:
    """A live memory written `age_s` before noon. `tier` None leaves it without the facet; `facets` are fields of the
    placement."""
    written = datetime.fromtimestamp(NOON_S - age_s, UTC)
    memory = Memory(
        id=MemoryId(f"019b0000-0000-7000-8000-{number:012x}"),
        key=None,
        content=f"note {number}",
        type=MemoryType.SEMANTIC,
        significance=significance,
        confidence=0.5,
        tags=tags,
        title=None,
        scope=Scope(project, agent),
        origin=Origin.AGENT,
        created_at=written,
        updated_at=written,
        revision=1,
        metadata=metadata or {},
    )
    placement = None if tier is None else Placement(tier, **facets)  # type: ignore[arg-type]
    return Subject(memory, Standing.LIVE, usage=Usage(accesses, used_s), placement=placement)


def placement_of(one: Subject) -> Placement:
    return Tiering().placement(one)


def carried_out(subjects: Sequence[Subject], run: Consolidation, tiering: Tiering, now_s: float) -> list[Subject]:
    """The population after a run, with the summaries that it asks for."""
    after, joined = [], {}
    for one in subjects:
        verdict = run.verdicts.get(one.memory.id)
        if isinstance(verdict, Archive | Summarise):
            after.append(replace(one, standing=Standing.ARCHIVED))
        elif verdict is not None:
            after.append(replace(one, placement=tiering.after(one, verdict, now_s)))
        else:
            after.append(one)
        if isinstance(verdict, Summarise):
            joined[heading(one.memory)] = one
    return [*after, *(summary(one, number, now_s) for number, one in enumerate(joined.values()))]


def summary(of: Subject, number: int, now_s: float) -> Subject:
    memory = replace(of.memory, id=MemoryId(f"019b0000-0000-7000-9000-{number:012x}"), significance=0.1)
    return Subject(memory, Standing.LIVE, placement=of_summary(now_s))
