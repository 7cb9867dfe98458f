"""How alive a memory still is: it fades while nobody uses it (seed 000, priority 2, and decisions A6 to A9). Pure.

    strength = (initial · exp(−0.693 · idle days / half-life) + accesses + reinforcements) · (0.5 + 0.5 · significance)

within 0 and 1, where `accesses` is min(0.4, ln(1 + n) · 0.1) and `reinforcements` is min(0.3, n · 0.1) for those of the
last 7 days. Days count in fractions. What lies in the future, because a clock was set back, counts as now.

What a memory has gained by being used does not fade, so three accesses hold one of significance 0.5 above 0.1 for ever,
at 0.104: what was of use several times is not forgotten. `StrengthRules(decaying_accesses=True)` lets that fade too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.intake import share, shown
from kingly_memory.lifecycle import checks
from kingly_memory.models import JsonObject, Memory, MemoryType

KEPT_REINFORCEMENTS = 10

DAY_S = 86_400.0

_RATE = 0.693
"""The seed's figure for ln 2."""


class StrengthState(StrEnum):
    """What a strength means: each begins where `StrengthRules` says; a weak memory can still be recovered by use."""

    STRONG = "strong"
    NORMAL = "normal"
    WEAK = "weak"
    FORGETTABLE = "forgettable"


@dataclass(frozen=True, slots=True)
class StrengthRules:
    """The figures of the rule, by default the seed's. `half_life_days` names the types that differ from the default.

    Below `forget_threshold` a memory is forgettable, from there to below `weak_below` weak, from `strong_from` strong
    (a fresh memory of significance 0.5 has 0.75). Where nothing `fades`, no memory loses anything by idleness. Raises
    InvalidSetting.
    """

    default_half_life_days: float = 30.0
    half_life_days: Mapping[MemoryType, float] = field(default_factory=dict)
    forget_threshold: float = 0.1
    weak_below: float = 0.3
    strong_from: float = 0.7
    access_step: float = 0.1
    access_most: float = 0.4
    reinforcement_step: float = 0.1
    reinforcement_most: float = 0.3
    reinforcement_days: float = 7.0
    decaying_accesses: bool = False
    fades: bool = True

    def __post_init__(self) -> None:
        for name in ("default_half_life_days", "reinforcement_days"):
            checks.number(name, getattr(self, name), checks.POSITIVE)
        for kind, days in self.half_life_days.items():
            if kind not in tuple(MemoryType):
                raise InvalidSetting("half_life_days", f"{kind!r} is no type; choose of {', '.join(MemoryType)}")
            checks.number(f"half_life_days.{kind}", days, checks.POSITIVE)
        for name in ("access_step", "access_most", "reinforcement_step", "reinforcement_most"):
            checks.number(name, getattr(self, name), checks.SHARE)
        for name in ("forget_threshold", "weak_below", "strong_from"):
            checks.number(name, getattr(self, name), checks.SHARE)
        if not self.forget_threshold <= self.weak_below <= self.strong_from:
            raise InvalidSetting(
                "weak_below",
                f"{self.weak_below:g} is not between forget_threshold {self.forget_threshold:g} "
                f"and strong_from {self.strong_from:g}",
            )

    def half_life(self, kind: MemoryType) -> float:
        """The half-life in days of memories of that type that have none of their own."""
        return self.half_life_days.get(kind, self.default_half_life_days)


SEEDS_RULES = StrengthRules()


@dataclass(frozen=True, slots=True)
class Strength:
    """The facet `strength:<id>`: what was said about how long a memory should last. The default is right for a memory
    that has none, so a store from before there were strengths needs no filling in.

    `half_life_days` None means that of its type; `initial` (0 to 1) is what fading begins from, the seed's
    initial_strength; `reinforced` are the latest reinforcements in Unix seconds, oldest first. Raises InvalidInput.
    """

    half_life_days: float | None = None
    initial: float = 1.0
    reinforced: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.half_life_days is not None:
            half_life("half_life_days", self.half_life_days)
        share("initial", self.initial)

    def reinforce(self, at_s: float) -> Strength:
        """The strength after a reinforcement. The latest ten are kept."""
        return replace(self, reinforced=tuple(sorted((*self.reinforced, at_s))[-KEPT_REINFORCEMENTS:]))

    def to_json(self) -> JsonObject:
        return {"half_life_days": self.half_life_days, "initial": self.initial, "reinforced": list(self.reinforced)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Strength:
        return cls(data["half_life_days"], data["initial"], tuple(data["reinforced"]))


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a strength is reckoned from. `touched_s`: when the memory was last written, used or reinforced, in Unix
    seconds; it fades from there."""

    touched_s: float
    significance: float = 0.5
    accesses: int = 0
    strength: Strength = Strength()
    type: MemoryType = MemoryType.SEMANTIC

    @classmethod
    def of(cls, memory: Memory, strength: Strength, *, accesses: int = 0, last_used: float | None = None) -> Vitals:
        """A memory that was never touched fades from its own timestamps, never from when somebody first looked."""
        written = (memory.created_at.timestamp(), memory.updated_at.timestamp())
        used = () if last_used is None else (last_used,)
        touched_s = max(*written, *used, *strength.reinforced)
        return cls(touched_s, memory.significance, accesses, strength, memory.type)

    def idle_days(self, now_s: float) -> float:
        return max(now_s - self.touched_s, 0.0) / DAY_S

    def half_life_days(self, rules: StrengthRules = SEEDS_RULES) -> float:
        own = self.strength.half_life_days
        return rules.half_life(self.type) if own is None else own


def current(vitals: Vitals, now_s: float, rules: StrengthRules = SEEDS_RULES) -> float:
    """The strength, 0 to 1. It never rises by itself, and neither an access nor a reinforcement lowers it."""
    left = math.exp(-_RATE * (vitals.idle_days(now_s) / vitals.half_life_days(rules))) if rules.fades else 1.0
    fading, lasting = _gains(vitals, rules)
    total = fading * left + lasting + _reinforcement_bonus(vitals, now_s, rules)
    return min(1.0, max(0.0, total * _factor(vitals)))


def state(strength: float, rules: StrengthRules = SEEDS_RULES) -> StrengthState:
    if strength < rules.forget_threshold:
        return StrengthState.FORGETTABLE
    if strength < rules.weak_below:
        return StrengthState.WEAK
    return StrengthState.STRONG if strength >= rules.strong_from else StrengthState.NORMAL


def days_until_forgotten(
    vitals: Vitals, now_s: float, rules: StrengthRules = SEEDS_RULES, *, strength: float | None = None
) -> float | None:
    """Days from now until the strength falls below the threshold if nobody touches the memory: 0.0 when it has fallen
    already, None when it never will. `strength` is what it is now, for who has reckoned it."""
    if (current(vitals, now_s, rules) if strength is None else strength) < rules.forget_threshold:
        return 0.0
    lapses = sorted(at + rules.reinforcement_days * DAY_S for at in _recent(vitals, now_s, rules))
    begins = [now_s, *lapses]
    ends = [*lapses, math.inf]
    for number, (begin_s, end_s) in enumerate(zip(begins, ends, strict=True)):
        bonus = _bonus(len(lapses) - number, rules)
        fallen_s = _falls_at(vitals, bonus, begin_s, rules)
        if fallen_s < end_s:
            return (fallen_s - now_s) / DAY_S
    return None


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
    found = figures(vitals, now_s, rules)
    days = days_until_forgotten(vitals, now_s, rules)
    return {
        **{name: round(figure, 4) for name, figure in found.items()},
        "state": state(found["strength"], rules).value,
        "reinforcements": len(_recent(vitals, now_s, rules)),
        "days_until_forgettable": None if days is None else round(days, 2),
    }


def half_life(name: str, value: object) -> float:
    """A half-life in days: a number above 0. Raises InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not checks.POSITIVE.holds(value):
        raise InvalidInput(name, f"{shown(value)} is no half-life; say a number of days {checks.POSITIVE}")
    return float(value)


def _gains(vitals: Vitals, rules: StrengthRules) -> tuple[float, float]:
    """What fades and what stays."""
    accesses = min(rules.access_most, math.log1p(vitals.accesses) * rules.access_step)
    initial = vitals.strength.initial
    return (initial + accesses, 0.0) if rules.decaying_accesses else (initial, accesses)


def _reinforcement_bonus(vitals: Vitals, now_s: float, rules: StrengthRules) -> float:
    return _bonus(len(_recent(vitals, now_s, rules)), rules) if vitals.strength.reinforced else 0.0


def _bonus(reinforcements: int, rules: StrengthRules) -> float:
    return min(rules.reinforcement_most, reinforcements * rules.reinforcement_step)


def _recent(vitals: Vitals, now_s: float, rules: StrengthRules) -> list[float]:
    return [at for at in vitals.strength.reinforced if now_s - at < rules.reinforcement_days * DAY_S]


def _factor(vitals: Vitals) -> float:
    return 0.5 + 0.5 * vitals.significance


def _falls_at(vitals: Vitals, bonus: float, begin_s: float, rules: StrengthRules) -> float:
    """When, from `begin_s` on, the strength falls below the threshold with that bonus: infinite for never."""
    fading, lasting = _gains(vitals, rules)
    needed = rules.forget_threshold / _factor(vitals) - lasting - bonus
    if needed > fading:
        return begin_s
    if needed <= 0 or not rules.fades:
        return math.inf
    idle_days = -math.log(needed / fading) / _RATE * vitals.half_life_days(rules)
    return max(begin_s, vitals.touched_s + idle_days * DAY_S)
