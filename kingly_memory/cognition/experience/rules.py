"""How much an agent keeps of what it experiences, and what comes back first (seed 001, §3 and §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import shown

Scoring = Literal["product", "hello_agents"]
SCORINGS: tuple[Scoring, ...] = ("product", "hello_agents")


@dataclass(frozen=True, slots=True)
class ExperienceRules:
    """Constants of the seed. Raises InvalidInput.

    `scoring`: decay × importance, or decay × (0.8 + 0.4 · importance), under which time outweighs importance sooner.
    """

    working_capacity: int = 10
    episodic_capacity: int = 50
    consolidation_threshold: float = 0.7
    decay_rate: float = 0.95
    scoring: Scoring = "product"

    def __post_init__(self) -> None:
        for name in ("working_capacity", "episodic_capacity"):
            capacity = getattr(self, name)
            if type(capacity) is not int or capacity < 1:
                raise InvalidInput(name, f"must be a whole number from 1, not {shown(capacity)}")
        if not 0 <= self.consolidation_threshold <= 1:
            raise InvalidInput("consolidation_threshold", "must be from 0 to 1")
        if not 0 < self.decay_rate <= 1:
            raise InvalidInput("decay_rate", "must be above 0 and at most 1")
        if self.scoring not in SCORINGS:
            raise InvalidInput("scoring", f"{shown(self.scoring)!r} is unknown; choose one of {', '.join(SCORINGS)}")

    def is_lasting(self, item: MemoryItem) -> bool:
        return item.importance >= self.consolidation_threshold

    def score(self, item: MemoryItem, year: int) -> float:
        """What an episode is worth in that year; one that lies ahead has not faded."""
        return self.worth(item) * self.decay_rate ** max(year - item.year, 0)

    def worth(self, item: MemoryItem) -> float:
        """Before it fades."""
        return item.importance if self.scoring == "product" else 0.8 + 0.4 * item.importance


SEEDS = ExperienceRules()
