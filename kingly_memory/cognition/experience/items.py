"""One experience of an agent, as the design of cognitive memory has it (seed 001, §2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

IMPORTANCE = 0.5
LATEST_YEAR = 1_000_000


@dataclass(slots=True)
class MemoryItem:
    """What was experienced, in which year of a simulation, and how much it matters (0 to 1).

    `timestamp` orders items; one without a time zone is UTC. Raises InvalidInput.
    """

    content: str
    importance: float = IMPORTANCE
    year: int = 0
    timestamp: datetime = field(default_factory=partial(datetime.now, UTC))
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if type(self.content) is not str or not self.content or self.content.isspace():
            raise InvalidInput("content", "is empty or no text; say what was experienced")
        if type(self.importance) is not float or not 0.0 <= self.importance <= 1.0:
            self.importance = intake.share("importance", self.importance)
        if type(self.year) is not int or not 0 <= self.year <= LATEST_YEAR:
            self.year = intake.count("year", self.year, least=0, most=LATEST_YEAR)
        if type(self.timestamp) is not datetime or self.timestamp.tzinfo is not UTC:
            said_at = intake.moment("timestamp", self.timestamp)
            self.timestamp = datetime.now(UTC) if said_at is None else said_at
        if self.tags:
            self.tags = list(intake.tag_list("tags", self.tags))

    def to_json(self) -> JsonObject:
        return {
            "content": self.content,
            "importance": self.importance,
            "year": self.year,
            "timestamp": self.timestamp.isoformat(),
            "tags": list(self.tags),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryItem:
        """What `to_json` gave. Raises InvalidInput."""
        try:
            said_at = datetime.fromisoformat(data["timestamp"])
            return cls(data["content"], data["importance"], data["year"], said_at, data["tags"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput("item", f"is no experience ({type(error).__name__}: {error})") from None
