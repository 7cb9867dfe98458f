"""How things are measured: samples of the compared ways alternate, medians and ratios count, absolute times orient."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.texts import Writer
from kingly_memory import Settings

Arm = Callable[[int], Awaitable[object]]
"""One way of doing the thing; called with the number of the sample."""
WARM_UP, BLOCK = 3, 50
"""Calls of each way that are not measured, and samples of one way in a row where ways take turns in blocks."""
FROM_KIB = 1 if sys.platform == "darwin" else 1_024


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure with: an empty folder, how many samples, how many memories lie in the store.

    `is_quick`: without what takes minutes to prepare.
    """

    folder: Path
    samples: int
    sizes: tuple[int, ...]
    locomo: Path | None = None
    is_quick: bool = False
    writer: Writer = field(default_factory=Writer)


def by_words(**changes: Any) -> Settings:
    """Settings whose figures do not depend on which extras are installed, and with no vectors made meanwhile."""
    return Settings(embedder="none", **changes)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound that one field of a figure is to keep."""

    field: str
    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{self.field} {'≥' if self.at_least else '≤'} {self.bound:g}"

    def held_by(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: milliseconds per operation, and how many times the floor they are. `grown_mb` is how much
    larger the process grew meanwhile, where that was looked at."""

    name: str
    samples: int
    p50: float
    p95: float
    p99: float
    max: float
    against: str = ""
    ratio: float | None = None
    ratio_p99: float | None = None
    goals: tuple[Goal, ...] = ()
    remark: str = ""
    grown_mb: float = 0.0

    @property
    def missed(self) -> list[Goal]:
        return [goal for goal in self.goals if not goal.held_by(getattr(self, goal.field))]


def figure(
    name: str,
    seconds: Sequence[float],
    *,
    floor: Sequence[float] = (),
    against: str = "",
    goals: tuple[Goal, ...] = (),
    remark: str = "",
    grown_mb: float = 0.0,
) -> Figure:
    """Sum up samples, and their median and 99th percentile against the floor's when there is one."""
    return Figure(
        name=name,
        samples=len(seconds),
        p50=percentile(seconds, 50) * 1000,
        p95=percentile(seconds, 95) * 1000,
        p99=percentile(seconds, 99) * 1000,
        max=max(seconds) * 1000,
        against=against,
        ratio=percentile(seconds, 50) / percentile(floor, 50) if floor else None,
        ratio_p99=percentile(seconds, 99) / percentile(floor, 99) if floor else None,
        goals=goals,
        remark=remark,
        grown_mb=grown_mb,
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: a value that was really seen."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


async def alternate(arms: Mapping[str, Arm], samples: int) -> dict[str, list[float]]:
    """Seconds per call of each arm. Arms take turns, another one begins each round, so that noise falls on all."""
    names = list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(-WARM_UP, samples):
        turn = round_number % len(names)
        for name in names[turn:] + names[:turn]:
            took = await timed(arms[name](round_number + WARM_UP))
            if round_number >= 0:
                seconds[name].append(took)
    return seconds


async def in_blocks(arms: Mapping[str, Arm], samples: int) -> dict[str, list[float]]:
    """Seconds per call of each arm, in blocks by turns; the number of a sample never repeats within an arm.

    For arms that share a disk: one after the other they would wait for each other's flushes.
    """
    names = list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(WARM_UP):
        for name in names:
            await arms[name](number)
    for turn, first in enumerate(range(0, samples, BLOCK)):
        begin = turn % len(names)
        for name in names[begin:] + names[:begin]:
            for number in range(first, min(first + BLOCK, samples)):
                seconds[name].append(await timed(arms[name](WARM_UP + number)))
    return seconds


async def timed(work: Awaitable[object]) -> float:
    """Seconds until the work is done."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def resident_bytes() -> int:
    """The memory that this process has now; where the system does not say that, the most that it has had."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * FROM_KIB
