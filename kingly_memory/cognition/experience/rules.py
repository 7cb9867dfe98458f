"""How much an agent keeps of what it experiences, and what comes back first (seed 001, §3 and §5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kingly_memory import intake
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import shown
from kingly_memory.models import JsonObject

Scoring = Literal["product", "hello_agents"]
SCORINGS: tuple[Scoring, ...] = ("product", "hello_agents")
MOST_KEPT = 1_000_000


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
            intake.count(name, getattr(self, name), most=MOST_KEPT)
        intake.share("consolidation_threshold", self.consolidation_threshold)
        if not intake.share("decay_rate", self.decay_rate):
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

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExperienceRules:
        """What `to_json` gave. Raises InvalidInput."""
        try:
            return cls(**data)
        except TypeError as error:
            raise InvalidInput("rules", f"are damaged ({error})") from None


SEEDS = ExperienceRules()
