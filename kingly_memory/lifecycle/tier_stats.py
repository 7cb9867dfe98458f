"""How the tiers are doing: sizes, moves of the last hour, how often a search finds something (seed 003, decision R10).

Pure values: an `Activity` is kept beside the memories and replaced by the one after each event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kingly_memory.lifecycle.tiers import HOUR_S, finite
from kingly_memory.models import JsonObject, Tier

BUCKET_S = 10.0
"""Events this near to each other are counted together, so that an hour takes 361 entries at most."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Events of the last hour: when (Unix seconds, ascending) and how many. What happens within `BUCKET_S` of an entry
    is counted with that entry, and so leaves the hour up to that much early."""

    entries: tuple[tuple[float, int], ...] = ()

    def add(self, at_s: float, count: int = 1) -> Tally:
        """The tally with those events. Entries farther than an hour from `at_s` are dropped, also those that lie in the
        future because a clock was set back."""
        if count <= 0:
            return self
        near = [(at, number) for at, number in self.entries if abs(at_s - at) < HOUR_S]
        return Tally(_in_buckets([*near, (at_s, count)]))

    def last_hour(self, now_s: float) -> int:
        """How many happened in the hour that ends now. An event leaves it 3,600 s after it happened."""
        return sum(number for at, number in self.entries if 0 <= now_s - at < HOUR_S)


def _in_buckets(entries: Iterable[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    merged: list[tuple[float, int]] = []
    for at, number in sorted(entries):
        if merged and at - merged[-1][0] < BUCKET_S:
            merged[-1] = (merged[-1][0], merged[-1][1] + number)
        else:
            merged.append((at, number))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Activity:
    """What has happened in the tiers. `found` and `missed` count the searches that did and did not find something."""

    promotions: Tally = Tally()
    demotions: Tally = Tally()
    found: int = 0
    missed: int = 0

    def looked_up(self, *, found: int = 0, missed: int = 0) -> Activity:
        return replace(self, found=self.found + found, missed=self.missed + missed)

    def moved(self, at_s: float, *, promotions: int = 0, demotions: int = 0) -> Activity:
        """After moves up and down. What left for the archive is neither."""
        return replace(
            self, promotions=self.promotions.add(at_s, promotions), demotions=self.demotions.add(at_s, demotions)
        )

    @property
    def lookups(self) -> int:
        """Searches that were counted."""
        return self.found + self.missed

    @property
    def hit_rate(self) -> float:
        """The share of searches that found something; 0.0 before the first."""
        return self.found / self.lookups if self.lookups else 0.0

    def to_json(self) -> JsonObject:
        return {
            "promotions": [list(entry) for entry in self.promotions.entries],
            "demotions": [list(entry) for entry in self.demotions.entries],
            "found": self.found,
            "missed": self.missed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Activity:
        """Rebuild what `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(_tally(data["promotions"]), _tally(data["demotions"]), _count(data["found"]), _count(data["missed"]))


def _tally(entries: Iterable[tuple[object, object]]) -> Tally:
    return Tally(tuple((finite(at), _count(number)) for at, number in entries))


def _count(value: object) -> int:
    return int(finite(value))


def memory_stats(counts: Mapping[Tier, int], surprise: float, activity: Activity, now_s: float) -> JsonObject:
    """What `get_memory_stats` answers of the live memories: how many are in each tier, and what their surprises add up
    to. The average of those is 0.0 when there is no memory."""
    return {
        "tier_counts": {tier.value: counts.get(tier, 0) for tier in Tier},
        "promotions_last_hour": activity.promotions.last_hour(now_s),
        "demotions_last_hour": activity.demotions.last_hour(now_s),
        "hit_rate": activity.hit_rate,
        "avg_surprise_score": surprise / max(sum(counts.values()), 1),
    }
