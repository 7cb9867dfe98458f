"""How near at hand a memory is kept, and the figures for it (seed 003, decisions R1 to R6). Pure.

    decayed importance = significance · 0.5 ^ (age in hours / half-life of the tier)

where the age counts from the latest of creation, revision and reinforcement: what is confirmed begins to fade anew.
What lies in the future, because a clock was set back, counts as now.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from kingly_memory.errors import InvalidSetting
from kingly_memory.intake import share
from kingly_memory.lifecycle import checks
from kingly_memory.models import JsonObject, Memory, Tier
from kingly_memory.settings import Range

HOUR_S = 3_600.0
DAY_S = 86_400.0

KEPT_TRANSITIONS = 10

USUAL_RELEVANCE = 0.5
"""What is predicted, and what is found, of a memory when nobody says (seed 003). Left at that, no surprise exceeds 0.5:
the threshold of 0.6 is passed only by memories that were ranked low and proved useful."""

SURPRISES_IN_A_ROW = 3
"""A threshold that takes more perfect surprises than this would never be passed (decision R6)."""

_FINITE = Range(least=-sys.float_info.max)
_TIERS = tuple(Tier)
_ORDER = {tier: place for place, tier in enumerate(_TIERS)}


class UpdateFrequency(StrEnum):
    """How often a tier is looked at, in the seed's words. Nothing here happens at such a pace: every sweep looks at all
    tiers, and how often it comes is the setting `sweep_interval_s`. The words are for programs that keep their own."""

    PER_EVENT = "per_event"
    PER_ROUND = "per_round"
    PER_CYCLE = "per_cycle"
    MONTHLY = "monthly"


@dataclass(frozen=True, slots=True)
class TierConfig:
    """One tier. `ttl_seconds`: how long a memory may be idle there; `max_items`: of one project.

    `importance_threshold` (0 to 1): the significance from which a memory is placed there, and the decayed importance
    below which it steps down. Raises InvalidSetting.
    """

    ttl_seconds: float
    max_items: int
    importance_threshold: float
    update_frequency: str

    def __post_init__(self) -> None:
        checks.number("ttl_seconds", self.ttl_seconds, checks.POSITIVE)
        checks.whole("max_items", self.max_items)
        checks.number("importance_threshold", self.importance_threshold, checks.SHARE)
        if self.update_frequency not in tuple(UpdateFrequency):
            known = ", ".join(UpdateFrequency)
            raise InvalidSetting("update_frequency", f"{self.update_frequency!r} is unknown; choose one of {known}")


TIER_CONFIGS: Mapping[Tier, TierConfig] = MappingProxyType(
    {
        Tier.FAST: TierConfig(60, 1_000, 0.8, UpdateFrequency.PER_EVENT),
        Tier.MEDIUM: TierConfig(3_600, 500, 0.5, UpdateFrequency.PER_ROUND),
        Tier.SLOW: TierConfig(86_400, 200, 0.3, UpdateFrequency.PER_CYCLE),
        Tier.GLACIAL: TierConfig(604_800, 100, 0.0, UpdateFrequency.MONTHLY),
    }
)

TIER_HALF_LIVES: Mapping[Tier, float] = MappingProxyType(
    {Tier.FAST: 1.0, Tier.MEDIUM: 24.0, Tier.SLOW: 168.0, Tier.GLACIAL: 720.0}
)
"""Hours in which importance halves. The seed names the table and leaves it empty; the figures are decision R4."""


@dataclass(frozen=True, slots=True)
class TierRules:
    """All figures of the tiers, by default the seed's. Raises InvalidSetting.

    A memory rises by `promotion_accesses` uses, a surprise of `surprise_threshold`, or `success_references`, each
    counted since it last moved. After a move it stays for `cooldown_s`; and it changes direction at most once in
    `turn_cooldown_s`, so that no pattern of use makes it go up and down (decision R3). SLOW is left downward below
    `glacial_entry` only.
    """

    configs: Mapping[Tier, TierConfig] = field(default_factory=lambda: TIER_CONFIGS)
    half_lives: Mapping[Tier, float] = field(default_factory=lambda: TIER_HALF_LIVES)
    promotion_accesses: int = 5
    surprise_threshold: float = 0.6
    success_references: int = 2
    surprise_alpha: float = 0.3
    glacial_entry: float = 0.3
    cooldown_s: float = DAY_S
    turn_cooldown_s: float = 10 * DAY_S

    def __post_init__(self) -> None:
        for name in ("configs", "half_lives"):
            if set(getattr(self, name)) != set(Tier):
                raise InvalidSetting(name, f"needs exactly one entry for each of {', '.join(Tier)}")
        for tier, hours in self.half_lives.items():
            checks.number(f"half_lives.{tier}", hours, checks.POSITIVE)
        for name in ("promotion_accesses", "success_references"):
            checks.whole(name, getattr(self, name))
        for name in ("surprise_threshold", "surprise_alpha", "cooldown_s", "turn_cooldown_s"):
            checks.number(name, getattr(self, name), checks.POSITIVE)
        for name in ("surprise_threshold", "surprise_alpha", "glacial_entry"):
            checks.number(name, getattr(self, name), checks.SHARE)
        self._check_order()
        self._check_reach()

    def _check_order(self) -> None:
        for upper, lower in pairwise(Tier):
            high, low = self.configs[upper].importance_threshold, self.configs[lower].importance_threshold
            if high <= low:
                raise InvalidSetting(
                    "importance_threshold", f"that of {upper} ({high:g}) must be above that of {lower} ({low:g})"
                )

    def _check_reach(self) -> None:
        reached = 1 - (1 - self.surprise_alpha) ** SURPRISES_IN_A_ROW
        if self.surprise_threshold > reached:
            raise InvalidSetting(
                "surprise_threshold",
                f"{self.surprise_threshold:g} is never reached: with surprise_alpha {self.surprise_alpha:g}, "
                f"{SURPRISES_IN_A_ROW} perfect surprises give {reached:.3f}; lower the one or raise the other",
            )


SEEDS_TIERS = TierRules()


def above(tier: Tier) -> Tier | None:
    """The next nearer tier; None above FAST."""
    place = _ORDER[tier]
    return None if place == 0 else _TIERS[place - 1]


def below(tier: Tier) -> Tier | None:
    """The next farther tier; None below GLACIAL."""
    place = _ORDER[tier]
    return None if place == len(_TIERS) - 1 else _TIERS[place + 1]


@dataclass(frozen=True, slots=True)
class Transition:
    """One move. `at` in Unix seconds."""

    at: float
    source: Tier
    target: Tier
    reason: str

    @property
    def is_upward(self) -> bool:
        return _ORDER[self.target] < _ORDER[self.source]


@dataclass(frozen=True, slots=True)
class Placement:
    """The facet `tier:<id>`. All times in Unix seconds.

    The counts grow for as long as the memory lives; a move changes none of them and only notes where they stood, so
    that what earned one promotion does not earn the next. `surprise` (0 to 1) is the moving average; `surprises`
    counts the uses that were more useful than predicted. `moved_at` is None until the first move. The latest
    transitions are kept, oldest first. The default is where the seed puts what it is told to remember.
    """

    tier: Tier = Tier.SLOW
    moved_at: float | None = None
    reinforced_at: float | None = None
    surprise: float = 0.0
    surprises: int = 0
    successes: int = 0
    accesses_at_move: int = 0
    surprises_at_move: int = 0
    successes_at_move: int = 0
    history: tuple[Transition, ...] = ()

    def turned_at(self, *, upward: bool) -> float | None:
        """When it last changed direction, if a move that way would change it again.

        Three moves lead from end to end, so the latest turn is always among the transitions that are kept.
        """
        if not self.history or self.history[-1].is_upward == upward:
            return None
        turns = (two.at for one, two in pairwise(self.history) if one.is_upward != two.is_upward)
        return max(turns, default=None)

    def to_json(self) -> JsonObject:
        return {
            "tier": self.tier.value,
            "moved_at": self.moved_at,
            "reinforced_at": self.reinforced_at,
            "surprise": self.surprise,
            "surprises": self.surprises,
            "successes": self.successes,
            "accesses_at_move": self.accesses_at_move,
            "surprises_at_move": self.surprises_at_move,
            "successes_at_move": self.successes_at_move,
            "history": [
                {"at": one.at, "from": one.source.value, "to": one.target.value, "reason": one.reason}
                for one in self.history
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        """Rebuild what `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        history = (
            Transition(finite(one["at"]), Tier(one["from"]), Tier(one["to"]), str(one["reason"]))
            for one in data["history"]
        )
        return cls(
            tier=Tier(data["tier"]),
            moved_at=_moment(data["moved_at"]),
            reinforced_at=_moment(data["reinforced_at"]),
            surprise=finite(data["surprise"]),
            **{name: int(finite(data[name])) for name in _COUNTS},
            history=tuple(history),
        )


_COUNTS = ("surprises", "successes", "accesses_at_move", "surprises_at_move", "successes_at_move")


def _moment(value: object) -> float | None:
    return None if value is None else finite(value)


def finite(value: object) -> float:
    """A number of a facet: the file may have been written by anybody, and it is reckoned with. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _FINITE.holds(value):
        raise ValueError("a facet holds something that is no figure")
    return float(value)


def told_placement(facet: Mapping[str, Any] | None, memory: Memory, rules: TierRules) -> Placement:
    """What the facet `tier:<id>` says, else where the significance places the memory. A facet that cannot be read
    counts as none."""
    try:
        return placed(memory, rules) if facet is None else Placement.from_json(facet)
    except (KeyError, TypeError, ValueError):
        return placed(memory, rules)


def placed(memory: Memory, rules: TierRules = SEEDS_TIERS) -> Placement:
    """Where a memory without the facet stands: in the nearest tier whose threshold its significance reaches.

    It does not depend on the time, so a store from before there were tiers needs no filling in.
    """
    for tier in _TIERS:
        if memory.significance >= rules.configs[tier].importance_threshold:
            return _UNMOVED[tier]
    return _UNMOVED[Tier.GLACIAL]


_UNMOVED = {tier: Placement(tier) for tier in _TIERS}


def of_summary(now_s: float) -> Placement:
    """Where the summary of evicted memories is kept: at rest, and left alone by the run that made it."""
    return Placement(Tier.GLACIAL, moved_at=now_s)


def surprised(
    placement: Placement,
    at_s: float,
    *,
    predicted: object = USUAL_RELEVANCE,
    actual: object = USUAL_RELEVANCE,
    rules: TierRules = SEEDS_TIERS,
) -> Placement:
    """After somebody said how useful (0 to 1) a memory was that had been found with relevance `predicted` (0 to 1).

    The average follows every such answer; only one that was more useful than predicted reinforces the memory. Raises
    InvalidInput.
    """
    surprise = max(0.0, share("actual", actual) - share("predicted", predicted))
    average = rules.surprise_alpha * surprise + (1 - rules.surprise_alpha) * placement.surprise
    after = replace(placement, surprise=average)
    return reinforced(replace(after, surprises=after.surprises + 1), at_s) if surprise > 0 else after


def succeeded(placement: Placement, at_s: float) -> Placement:
    """After a success that refers to the memory."""
    return reinforced(replace(placement, successes=placement.successes + 1), at_s)


def reinforced(placement: Placement, at_s: float) -> Placement:
    """From here on its importance fades anew. An older reinforcement than the latest changes nothing."""
    latest = at_s if placement.reinforced_at is None else max(at_s, placement.reinforced_at)
    return replace(placement, reinforced_at=latest)


def moved(placement: Placement, to: Tier, at_s: float, *, accesses: int, reason: str) -> Placement:
    """After a move, which begins a cooldown. `accesses` are the memory's uses so far. To where it is already: no move.

    A policy moves by one tier; what a user asks for outright, such as GLACIAL, may be any.
    """
    if to is placement.tier:
        return placement
    transition = Transition(at_s, placement.tier, to, reason)
    return replace(
        placement,
        tier=to,
        moved_at=at_s,
        accesses_at_move=accesses,
        surprises_at_move=placement.surprises,
        successes_at_move=placement.successes,
        history=(*placement.history, transition)[-KEPT_TRANSITIONS:],
    )


def decayed_importance(significance: float, age_s: float, tier: Tier, rules: TierRules = SEEDS_TIERS) -> float:
    """What is left of a significance after that age in that tier."""
    age_hours = max(age_s, 0.0) / HOUR_S
    return float(significance * 0.5 ** (age_hours / rules.half_lives[tier]))


def utilisation(counts: Mapping[Tier, int], rules: TierRules = SEEDS_TIERS) -> dict[Tier, float]:
    """How full each tier is; more than 1 means that memories will have to leave it. A tier without a count is empty."""
    return {tier: counts.get(tier, 0) / rules.configs[tier].max_items for tier in Tier}


def pressure(counts: Mapping[Tier, int], rules: TierRules = SEEDS_TIERS) -> float:
    """How full the fullest tier is, at most 1."""
    return min(1.0, max(utilisation(counts, rules).values()))
