"""The memories of agents: one at full speed, ten thousand that live for fifty years, and one in a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Figure, Goal, Plan, by_words, figure, resident_bytes, timed
from kingly_memory import MemoryRouter
from kingly_memory.cognition.agent_memory import CognitiveMemory

PAIRS, QUICK_PAIRS = 100_000, 5_000
ROUND = 500
"""Pairs of an add and a retrieval that one sample times."""
AGENTS, QUICK_AGENTS, YEARS = 10_000, 100, 50
TOP_K, WORKING, EPISODIC, LASTING, DECAY = 5, 10, 50, 0.7, 0.95
PER_PAIR = (Goal("p50", 0.03), Goal("ratio", 5.0))
"""Milliseconds of a processor: 33,000 pairs a second."""


async def measure(plan: Plan) -> list[Figure]:
    pairs = QUICK_PAIRS if plan.is_quick else PAIRS
    agents = QUICK_AGENTS if plan.is_quick else AGENTS
    return [*_paired(pairs), _population(agents), *await _stored(plan)]


@dataclass(frozen=True, slots=True)
class _Item:
    content: str
    importance: float
    year: int
    at: float


class _Bare:
    """What somebody would write in a minute: two lists, sorted at each look."""

    def __init__(self) -> None:
        self._working: list[_Item] = []
        self._episodic: list[_Item] = []

    def add(self, content: str, importance: float, year: int) -> None:
        item = _Item(content, importance, year, time.time())
        kept, most = (self._episodic, EPISODIC) if importance >= LASTING else (self._working, WORKING)
        kept.append(item)
        if len(kept) > most:
            kept.pop(0)

    def retrieve(self, top_k: int, year: int) -> list[str]:
        latest = sorted(self._working, key=lambda event: (event.at, event.importance), reverse=True)
        lasting = sorted(
            self._episodic, key=lambda event: event.importance * DECAY ** (year - event.year), reverse=True
        )
        return [event.content for event in [*latest, *lasting]][:top_k]


def _paired(pairs: int) -> list[Figure]:
    """By turns, so that noise falls on both."""
    memory, bare = CognitiveMemory("H001"), _Bare()
    seconds: dict[str, list[float]] = {"bare": [], "memory": [], "episodes": []}
    episodes = CognitiveMemory("H002")
    for first in range(0, pairs, ROUND):
        seconds["bare"].append(_round(bare.add, bare.retrieve, first))
        seconds["memory"].append(_round(memory.add_experience, memory.retrieve, first))
        seconds["episodes"].append(_round(episodes.add_episodic, episodes.retrieve, first))
    floor = seconds["bare"]
    rate = 1 / sorted(seconds["memory"])[len(floor) // 2]
    return [
        figure("add + retrieve, two lists and a sort", floor),
        figure(
            "add + retrieve, an agent's memory",
            seconds["memory"],
            floor=floor,
            against="two lists and a sort",
            goals=PER_PAIR,
            remark=f"{rate:,.0f} a second",
        ),
        figure("add + retrieve, episodes alone", seconds["episodes"], floor=floor, against="two lists and a sort"),
    ]


def _round(add: Callable[[str, float, int], object], retrieve: Callable[[int, int], object], first: int) -> float:
    """Seconds of a processor for one pair, on average."""
    year = first // 2_000
    began = time.process_time()
    for number in range(first, first + ROUND):
        add(f"Event {number}", number % 10 / 10, year)
        retrieve(TOP_K, year)
    return (time.process_time() - began) / ROUND


def _population(agents: int) -> Figure:
    """Each year brings each agent a decision, often a flood, a look at its memory, and a consolidation."""
    before = resident_bytes()
    began = time.process_time()
    memories = [CognitiveMemory(f"H{number:05}") for number in range(agents)]
    for year in range(1, YEARS + 1):
        for number, memory in enumerate(memories):
            memory.retrieve(TOP_K, year)
            if (number + year) % 3 == 0:
                memory.update_after_flood(1_000 * year, year)
            memory.update_after_decision("do_nothing" if (number + year) % 4 else "elevate_house", year)
            memory.consolidate()
    took_s = time.process_time() - began
    grown = resident_bytes() - before
    return figure(
        f"a year of {agents:,} agents",
        [took_s / YEARS],
        remark=f"{YEARS} years in {took_s:.1f} s of a processor; {grown / 1e6:.0f} MB at their end",
    )


async def _stored(plan: Plan) -> list[Figure]:
    seconds = []
    async with MemoryRouter.open(plan.folder / "agents", remote=False, project="town", settings=by_words()) as memory:
        agent = await memory.cognitive("H001")
        for number in range(plan.samples):
            began = time.perf_counter()
            agent.add_experience(f"Event {number}", number % 10 / 10, number)
            seconds.append(time.perf_counter() - began)
        stores = (memory.store(f"Event {number}", significance=0.3) for number in range(plan.samples))
        stored = [await timed(store) for store in stores]
    return [figure("add to an agent in a store", seconds, floor=stored, against="store")]
