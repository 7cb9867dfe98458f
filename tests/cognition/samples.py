"""Experiences to try memories with, and a plain memory to hold them against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules, MemoryItem

IMPORTANCES = st.sampled_from([0.0, 0.3, 0.475, 0.5, 0.7, 0.855, 0.9, 0.9025, 0.95, 1.0]) | st.floats(0, 1)
"""Some that meet after a few years of fading."""
YEARS = st.integers(0, 12) | st.integers(0, 1_000_000)
VERBS = st.sampled_from(["add_experience", "add_working", "add_episodic"])
ADDS = st.tuples(VERBS, st.sampled_from([f"thing {n}" for n in range(12)]), IMPORTANCES, YEARS)
CONSOLIDATION = st.just(("consolidate", "", 0.0, 0))
SMALL = st.builds(
    ExperienceRules,
    working_capacity=st.integers(1, 4),
    episodic_capacity=st.integers(1, 6),
    scoring=st.sampled_from(["product", "hello_agents"]),
)


def do(memory: CognitiveMemory, step: tuple[str, str, float, int]) -> Any:
    """One step of a life."""
    verb, content, importance, year = step
    if verb == "consolidate":
        return memory.consolidate()
    add: Callable[..., MemoryItem] = getattr(memory, verb)
    return add(content, importance, year)


@dataclass
class PlainMemory:
    """The same memory without any cleverness: everything is sorted whenever anybody looks, or one has to go."""

    rules: ExperienceRules
    working: list[MemoryItem] = field(default_factory=list)
    episodic: list[MemoryItem] = field(default_factory=list)
    experienced: list[MemoryItem] = field(default_factory=list)

    def take_in(self, verb: str, item: MemoryItem) -> None:
        self.experienced.append(item)
        lasting = item.importance >= self.rules.consolidation_threshold
        if verb == "add_episodic" or (verb == "add_experience" and lasting):
            self.remember(item)
            return
        self.working.append(item)
        while len(self.working) > self.rules.working_capacity:
            gone = self.working.pop(0)
            if gone.importance >= self.rules.consolidation_threshold and not self.is_remembered(gone):
                self.remember(gone)

    def remember(self, item: MemoryItem) -> None:
        self.episodic.append(item)
        while len(self.episodic) > self.rules.episodic_capacity:
            latest = max(one.year for one in self.experienced)
            ages = {id(one): at for at, one in enumerate(self.experienced)}
            lowest = min(self.episodic, key=lambda one: (self.score(one, latest), ages[id(one)]))
            self.episodic = [one for one in self.episodic if one is not lowest]

    def consolidate(self) -> int:
        before = list(self.episodic)
        for item in self.working:
            if item.importance >= self.rules.consolidation_threshold and not self.is_remembered(item):
                self.remember(item)
        return sum(all(one is not other for other in before) for one in self.episodic)

    def is_remembered(self, item: MemoryItem) -> bool:
        return any(item is one for one in self.episodic)

    def score(self, item: MemoryItem, year: int) -> float:
        decay: float = self.rules.decay_rate ** max(0, year - item.year)
        worth = item.importance if self.rules.scoring == "product" else 0.8 + 0.4 * item.importance
        return worth * decay

    def retrieve(self, top_k: int, current_year: int) -> list[str]:
        year = current_year or max((one.year for one in self.experienced), default=0)
        latest = [*reversed(self.working)]
        latest.sort(key=lambda one: (one.timestamp, one.importance), reverse=True)
        episodes = sorted(self.episodic, key=lambda one: self.score(one, year), reverse=True)
        return list(dict.fromkeys(one.content for one in [*latest, *episodes]))[:top_k]
