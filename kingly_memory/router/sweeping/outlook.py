"""What becomes of strengths while nobody touches a memory: how they are spread, and which fall too low next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from kingly_memory.lifecycle import strength
from kingly_memory.lifecycle.forgetting import vitals
from kingly_memory.lifecycle.strength import DAY_S, StrengthRules, Vitals
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import JsonObject, Memory

BINS = 10
"""The strengths from 0 to 1 in as many equal parts."""
STEPS = 40
"""Points of a curve."""
BEFORE_DAYS = 60.0
"""How far back a curve begins at most."""
BEYOND = 0.3
"""How far it goes on behind the day on which the memory falls below the threshold, as a share of the way there."""


@dataclass(frozen=True, slots=True)
class Course:
    """One memory's strength: now, when it falls below the threshold, and day by day (negative days have gone by)."""

    memory: Memory
    strength: float
    falls_in_days: float
    curve: tuple[tuple[float, float], ...]

    def to_json(self) -> JsonObject:
        return {
            "memory_id": self.memory.id,
            "key": self.memory.key,
            "strength": round(self.strength, 4),
            "falls_in_days": round(self.falls_in_days, 2),
            "curve": [[round(day, 2), round(height, 4)] for day, height in self.curve],
        }


@dataclass(frozen=True, slots=True)
class Outlook:
    """How many live memories have a strength in each tenth, and those that fall below the threshold next, soonest
    first: neither what has fallen already nor what is protected."""

    rules: StrengthRules
    spread: tuple[int, ...]
    next_to_fall: tuple[Course, ...]

    def to_json(self) -> JsonObject:
        return {
            "forget_threshold": self.rules.forget_threshold,
            "spread": list(self.spread),
            "next_to_fall": [one.to_json() for one in self.next_to_fall],
        }


def outlook(subjects: Iterable[Subject], now_s: float, rules: StrengthRules, limit: int) -> Outlook:
    """Reads the live memories once, and holds the chosen ones."""
    watch = Watch(now_s, rules, limit)
    for one in subjects:
        watch.see(one)
    return watch.outlook()


class Watch:
    """An outlook under way: shown the live memories one by one."""

    def __init__(self, now_s: float, rules: StrengthRules, limit: int) -> None:
        self._now_s = now_s
        self._rules = rules
        self._limit = limit
        self._spread = [0] * BINS
        self._falling: list[tuple[float, str, Subject]] = []

    def see(self, one: Subject) -> float:
        """Says how strong it is."""
        seen = vitals(one)
        now = strength.current(seen, self._now_s, self._rules)
        self._spread[min(int(now * BINS), BINS - 1)] += 1
        days = None if one.is_protected else strength.days_until_forgotten(seen, self._now_s, self._rules, strength=now)
        is_full = len(self._falling) >= self._limit
        if days and not (is_full and all(each[:2] < (days, one.memory.id) for each in self._falling[-1:])):
            some = [*self._falling, (days, one.memory.id, one)]
            self._falling = nsmallest(self._limit, some, key=lambda each: each[:2])
        return now

    def outlook(self) -> Outlook:
        courses = (_course(one, days, self._now_s, self._rules) for days, _, one in self._falling)
        return Outlook(self._rules, tuple(self._spread), tuple(courses))


def _course(one: Subject, days: float, now_s: float, rules: StrengthRules) -> Course:
    seen = vitals(one)
    return Course(one.memory, strength.current(seen, now_s, rules), days, _curve(seen, days, now_s, rules))


def _curve(seen: Vitals, days: float, now_s: float, rules: StrengthRules) -> tuple[tuple[float, float], ...]:
    begin = -min(seen.idle_days(now_s), BEFORE_DAYS)
    length = max((days - begin) * (1 + BEYOND), 1.0)
    spots = sorted({begin + length * step / STEPS for step in range(STEPS + 1)} | {0.0, days})
    return tuple((day, strength.current(seen, now_s + day * DAY_S, rules)) for day in spots)
