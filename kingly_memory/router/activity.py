"""How the tiers are doing: moves of the last hour, and how often a search finds something (seed 003, R10).

One facet of a project, `activity:<digest of the project>`, is replaced by the one after each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kingly_memory.cognition.owners import latest_owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.lifecycle.tiers import HOUR_S, finite
from kingly_memory.models import JsonObject, Tier
from kingly_memory.plain import Plain
from kingly_memory.ports import StoreReader, Transaction

FACET = "activity"
Moves = tuple[tuple[float, int], ...]
"""When (Unix seconds, ascending), and how many."""


@dataclass(frozen=True, slots=True)
class Activity(Plain):
    """`promotions` and `demotions` are those of the last hour; `found` and `missed` count the searches that did and did
    not find something."""

    DIGITS = None

    promotions: Moves = ()
    demotions: Moves = ()
    found: int = 0
    missed: int = 0

    def looked_up(self, *, found: int = 0, missed: int = 0) -> Activity:
        return replace(self, found=self.found + found, missed=self.missed + missed)

    def moved(self, at_s: float, *, promotions: int = 0, demotions: int = 0) -> Activity:
        """After moves up and down. What left for the archive is neither."""
        return replace(
            self,
            promotions=_with(self.promotions, at_s, promotions),
            demotions=_with(self.demotions, at_s, demotions),
        )

    @property
    def lookups(self) -> int:
        """Searches that were counted."""
        return self.found + self.missed

    @property
    def hit_rate(self) -> float:
        """The share of searches that found something; 0.0 before the first."""
        return self.found / self.lookups if self.lookups else 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Activity:
        """What the facet says. One that cannot be read counts as none."""
        fields = data or {}
        try:
            promotions, demotions = (
                tuple((finite(at), int(finite(count))) for at, count in fields[name])
                for name in ("promotions", "demotions")
            )
            return cls(promotions, demotions, int(finite(fields["found"])), int(finite(fields["missed"])))
        except (KeyError, TypeError, ValueError):
            return cls()


def _with(moves: Moves, at_s: float, count: int) -> Moves:
    """Entries farther than an hour from `at_s` are dropped, also those that lie in the future because a clock was set
    back. All moves of one sweep have one time, so there is an entry for each sweep of the hour."""
    near = {at: number for at, number in moves if abs(at_s - at) < HOUR_S}
    if count:
        near[at_s] = near.get(at_s, 0) + count
    return tuple(sorted(near.items()))


def last_hour(moves: Iterable[tuple[float, int]], now_s: float) -> int:
    """How many happened in the hour that ends now. A move leaves it 3,600 s after it happened."""
    return sum(count for at, count in moves if 0 <= now_s - at < HOUR_S)


def memory_stats(counts: Mapping[Tier, int], surprise: float, activity: Activity, now_s: float) -> JsonObject:
    """What `get_memory_stats` answers of the live memories: how many are in each tier, and their average surprise (0.0
    when there is no memory). `surprise` is the sum of theirs."""
    return {
        "tier_counts": {tier.value: counts.get(tier, 0) for tier in Tier},
        "promotions_last_hour": last_hour(activity.promotions, now_s),
        "demotions_last_hour": last_hour(activity.demotions, now_s),
        "hit_rate": activity.hit_rate,
        "avg_surprise_score": surprise / max(sum(counts.values()), 1),
    }


def add(transaction: Transaction, space: str, more: Callable[[Activity], Activity]) -> None:
    """Part of a change."""
    after = more(Activity.from_json(transaction.facet(FACET, latest_owner(space))))
    transaction.set_facet(FACET, latest_owner(space), after.to_json())


def read(reader: StoreReader, space: str) -> Activity:
    return Activity.from_json(reader.facet(FACET, latest_owner(space)))
