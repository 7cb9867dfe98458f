"""How near at hand a memory is kept, and the figures for it (seed 003, decisions R1 to R6). Pure.

    decayed importance = significance · 0.5 ^ (age in hours / half-life of the tier)

where the age counts from the latest of creation, revision and reinforcement: what is confirmed begins to fade anew.
What lies in the future, because a clock was set back, counts as now. `policies.tiered` says when a memory moves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.lifecycle.decay import DAY_S
from kingly_memory.models import Memory, Tier
from kingly_memory.plain import Plain
from kingly_memory.settings import Tiers
from kingly_memory.validation import share

HOUR_S = 3_600.0
USUAL_RELEVANCE = 0.5
"""What is predicted, and what is found, of a memory when nobody says (seed 003). Left at that, no surprise exceeds 0.5:
the threshold of 0.6 is passed only by memories that were ranked low and proved useful."""
SURPRISE_ALPHA = 0.3
"""Weight of the latest surprise in the moving average."""
COOLDOWN_S = DAY_S
"""After a move a memory stays for so long."""
TURN_COOLDOWN_S = 10 * DAY_S
"""A memory changes direction at most once in that time, so that no pattern of use makes it go up and down (R3)."""

_ORDER = {tier: index for index, tier in enumerate(Tier)}


SEEDS_TIERS = Tiers()
TIER_CONFIGS, TIER_HALF_LIVES = MappingProxyType(SEEDS_TIERS.configs), MappingProxyType(SEEDS_TIERS.half_lives)
"""The seed's names for its figures."""


def above(tier: Tier) -> Tier | None:
    """The next nearer tier; None above FAST."""
    return None if tier is Tier.FAST else tuple(Tier)[_ORDER[tier] - 1]


def below(tier: Tier) -> Tier | None:
    """The next farther tier; None below GLACIAL."""
    return None if tier is Tier.GLACIAL else tuple(Tier)[_ORDER[tier] + 1]


@dataclass(frozen=True, slots=True)
class Placement(Plain):
    """The facet `tier:<id>`. All times in Unix seconds.

    The counts grow for as long as the memory lives; a move changes none of them and only notes where they stood, so
    that what earned one promotion does not earn the next. `surprise` (0 to 1) is the moving average; `surprises`
    counts the uses that were more useful than predicted. `moved_at` is None until the first move. `rising` is the
    direction of the last one, and `turned_at` when the direction last changed. The default tier is where the seed
    puts what it stores.
    """

    DIGITS = None

    tier: Tier = Tier.SLOW
    moved_at: float | None = None
    rising: bool | None = None
    turned_at: float | None = None
    reinforced_at: float | None = None
    surprise: float = 0.0
    surprises: int = 0
    successes: int = 0
    accesses_at_move: int = 0
    surprises_at_move: int = 0
    successes_at_move: int = 0

    def is_cooling(self, now_s: float) -> bool:
        """Whether it has just moved. A move far in the future, because a clock was set back, cools nothing."""
        return self.moved_at is not None and abs(now_s - self.moved_at) < COOLDOWN_S

    def is_held(self, now_s: float, *, upward: bool) -> bool:
        """Whether a move that way would be the second change of direction in too short a time."""
        is_turn = self.rising is not None and self.rising != upward
        return is_turn and self.turned_at is not None and abs(now_s - self.turned_at) < TURN_COOLDOWN_S

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        """Rebuild what `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        figures = {name: data[name] for name in ("tier", "rising", *_TIMES, *_COUNTS, "surprise")}
        for name in (*_COUNTS, "surprise", *(name for name in _TIMES if data[name] is not None)):
            finite(data[name])
        return cls(**{**figures, "tier": Tier(data["tier"])})


_TIMES = ("moved_at", "turned_at", "reinforced_at")
_COUNTS = ("surprises", "successes", "accesses_at_move", "surprises_at_move", "successes_at_move")


def finite(value: object) -> float:
    """A number in a facet, which anybody may have written. Raises ValueError, also for one beyond a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError("a facet holds something that is no figure")
    return float(value)


def kept_placement(facet: Mapping[str, Any] | None, memory: Memory, rules: Tiers) -> Placement:
    """What the facet `tier:<id>` says, else where the significance places the memory. A facet that cannot be read
    counts as none."""
    try:
        return placed(memory, rules) if facet is None else Placement.from_json(facet)
    except (KeyError, TypeError, ValueError):
        return placed(memory, rules)


def placed(memory: Memory, rules: Tiers = SEEDS_TIERS) -> Placement:
    """Where a memory without the facet stands: in the nearest tier whose threshold its significance reaches."""
    reached = (tier for tier in Tier if memory.significance >= rules.configs[tier].importance_threshold)
    return _UNMOVED[next(reached, Tier.GLACIAL)]


_UNMOVED = {tier: Placement(tier) for tier in Tier}


def surprised(
    placement: Placement, at_s: float, *, predicted: object = USUAL_RELEVANCE, actual: object = USUAL_RELEVANCE
) -> Placement:
    """After somebody said how useful (0 to 1) a memory was that had been found with relevance `predicted` (0 to 1).

    The average follows every such answer; only one that was more useful than predicted reinforces the memory. Raises
    InvalidInput.
    """
    surprise = max(0.0, share("actual", actual) - share("predicted", predicted))
    average = SURPRISE_ALPHA * surprise + (1 - SURPRISE_ALPHA) * placement.surprise
    after = replace(placement, surprise=average)
    return reinforced(replace(after, surprises=after.surprises + 1), at_s) if surprise > 0 else after


def succeeded(placement: Placement, at_s: float) -> Placement:
    """After a success that refers to the memory."""
    return reinforced(replace(placement, successes=placement.successes + 1), at_s)


def reinforced(placement: Placement, at_s: float) -> Placement:
    """From here on its importance fades anew. An older reinforcement than the latest changes nothing."""
    latest = at_s if placement.reinforced_at is None else max(at_s, placement.reinforced_at)
    return replace(placement, reinforced_at=latest)


def moved(placement: Placement, to: Tier, at_s: float, *, accesses: int) -> Placement:
    """After a move, which begins a cooldown. `accesses` are the memory's uses so far."""
    rising = _ORDER[to] < _ORDER[placement.tier]
    return replace(
        placement,
        tier=to,
        moved_at=at_s,
        rising=rising,
        turned_at=placement.turned_at if placement.rising in (None, rising) else at_s,
        accesses_at_move=accesses,
        surprises_at_move=placement.surprises,
        successes_at_move=placement.successes,
    )


def decayed_importance(significance: float, age_s: float, tier: Tier, rules: Tiers = SEEDS_TIERS) -> float:
    """What is left of a significance after that age in that tier."""
    return float(significance * 0.5 ** (max(age_s, 0.0) / HOUR_S / rules.half_lives[tier]))
