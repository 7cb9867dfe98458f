"""How alive a memory still is: its strength falls while nobody uses it (seed 000, priority 2; A6 to A9). Pure.

    strength = (initial · exp(−0.693 · idle days / half-life) + accesses + reinforcements) · (0.5 + 0.5 · significance)

within 0 and 1, where `accesses` is min(0.4, ln(1 + n) · 0.1) and `reinforcements` is min(0.3, n · 0.1) for those of the
last 7 days. Days count in fractions. What lies in the future, because a clock was set back, counts as now.

What a memory has gained by uses does not fade, so three uses keep one of significance 0.5 above 0.1 for ever, at 0.104:
what was useful several times is not forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory
from kingly_memory.plain import Plain
from kingly_memory.settings import Range, Settings
from kingly_memory.validation import shown

DAY_S = 86_400.0
KEPT_REINFORCEMENTS = 10
REINFORCED_FOR_S = 7 * DAY_S
ACCESS_STEP, ACCESS_MOST = 0.1, 0.4
REINFORCEMENT_STEP, REINFORCEMENT_MOST = 0.1, 0.3
RATE = 0.693
"""The seed's figure for ln 2."""
POSITIVE = Range(above=True)


class StrengthState(StrEnum):
    """What a strength means. A weak memory can still be recovered by a use."""

    STRONG = "strong"
    NORMAL = "normal"
    WEAK = "weak"
    FORGETTABLE = "forgettable"


@dataclass(frozen=True, slots=True)
class StrengthRules:
    """The figures of the rule, by default the seed's. `half_life_days` is that of every memory.

    Below `forget_threshold` a memory is forgettable, from there to below `weak_below` weak, from `strong_from` strong
    (a fresh memory of significance 0.5 has 0.75). With `fades` off, no memory loses anything by idleness.
    """

    half_life_days: float = 30.0
    forget_threshold: float = 0.1
    weak_below: float = 0.3
    strong_from: float = 0.7
    fades: bool = True

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """A threshold above where weak or strong begins moves that along."""
        threshold = settings.forget_threshold
        return cls(
            half_life_days=settings.default_half_life_days,
            forget_threshold=threshold,
            weak_below=max(cls().weak_below, threshold),
            strong_from=max(cls().strong_from, threshold),
            fades=settings.decay_enabled,
        )


SEEDS_RULES = StrengthRules()


@dataclass(frozen=True, slots=True)
class Strength(Plain):
    """The facet `strength:<id>`: the latest reinforcements in Unix seconds, oldest first."""

    DIGITS = None

    reinforced: tuple[float, ...] = ()

    def reinforce(self, at_s: float) -> Strength:
        """The strength after a reinforcement. The latest ten are kept."""
        return Strength(tuple(sorted((*self.reinforced, at_s))[-KEPT_REINFORCEMENTS:]))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Strength:
        return cls(tuple(data["reinforced"]))


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a strength is computed from. `touched_s` is when the memory was last written, used or reinforced, in Unix
    seconds; it fades from there. `initial` (0 to 1) is what fading begins from, and `own_half_life_days` stands in the
    place of the usual one: a program that keeps strengths itself may say them (seed 000)."""

    touched_s: float
    significance: float = 0.5
    accesses: int = 0
    strength: Strength = Strength()
    initial: float = 1.0
    own_half_life_days: float | None = None

    @classmethod
    def of(cls, memory: Memory, strength: Strength, *, accesses: int = 0, last_used: float | None = None) -> Vitals:
        """A memory that was never touched fades from its own timestamps, never from when somebody first looked."""
        used = () if last_used is None else (last_used,)
        written = (memory.created_at.timestamp(), memory.updated_at.timestamp())
        touched_s = max(*written, *used, *strength.reinforced)
        return cls(touched_s, memory.significance, accesses, strength)

    def idle_days(self, now_s: float) -> float:
        return max(now_s - self.touched_s, 0.0) / DAY_S

    def half_life_days(self, rules: StrengthRules) -> float:
        return rules.half_life_days if self.own_half_life_days is None else self.own_half_life_days

    def recent(self, now_s: float) -> list[float]:
        """The reinforcements that still count."""
        return [at for at in self.strength.reinforced if now_s - at < REINFORCED_FOR_S]

    @property
    def lasting(self) -> float:
        """What uses have added, which stays for ever."""
        return min(ACCESS_MOST, math.log1p(self.accesses) * ACCESS_STEP)

    @property
    def factor(self) -> float:
        return 0.5 + 0.5 * self.significance


def current(vitals: Vitals, now_s: float, rules: StrengthRules = SEEDS_RULES) -> float:
    """The strength, 0 to 1. It never rises by itself, and neither an access nor a reinforcement lowers it."""
    left = math.exp(-RATE * (vitals.idle_days(now_s) / vitals.half_life_days(rules))) if rules.fades else 1.0
    reinforced = min(REINFORCEMENT_MOST, len(vitals.recent(now_s)) * REINFORCEMENT_STEP)
    total = vitals.initial * left + vitals.lasting + reinforced
    return min(1.0, max(0.0, total * vitals.factor))


def state(strength: float, rules: StrengthRules = SEEDS_RULES) -> StrengthState:
    if strength < rules.forget_threshold:
        return StrengthState.FORGETTABLE
    if strength < rules.weak_below:
        return StrengthState.WEAK
    return StrengthState.STRONG if strength >= rules.strong_from else StrengthState.NORMAL


def figures(vitals: Vitals, now_s: float, rules: StrengthRules = SEEDS_RULES) -> dict[str, float]:
    """What a verdict on a strength rests on."""
    return {
        "strength": current(vitals, now_s, rules),
        "idle_days": vitals.idle_days(now_s),
        "half_life_days": vitals.half_life_days(rules),
        "accesses": vitals.accesses,
    }


def explained(vitals: Vitals, now_s: float, rules: StrengthRules = SEEDS_RULES) -> JsonObject:
    """A strength with all that a reader wants to know about it, rounded."""
    values = figures(vitals, now_s, rules)
    return {
        **{name: round(figure, 4) for name, figure in values.items()},
        "state": state(values["strength"], rules).value,
        "reinforcements": len(vitals.recent(now_s)),
    }


def half_life(name: str, value: object) -> float:
    """A half-life in days: a number above 0. Raises InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not POSITIVE.holds(value):
        raise InvalidInput(name, f"{shown(value)} is no half-life; say a number of days {POSITIVE}")
    return float(value)
