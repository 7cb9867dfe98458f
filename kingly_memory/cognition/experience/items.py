"""One experience of an agent, as the design of cognitive memory has it (seed 001, §2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

IMPORTANCE = 0.5
LATEST_YEAR = 1_000_000


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """What was experienced, in which year of a simulation, and how much it matters (0 to 1).

    `timestamp` orders items; one without a time zone is UTC. `id` names the memory that it is in a store, if it is in
    one. Raises InvalidInput.
    """

    content: str
    importance: float = IMPORTANCE
    year: int = 0
    timestamp: datetime = field(default_factory=partial(datetime.now, UTC))
    tags: list[str] = field(default_factory=list)
    id: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """What is right already, as nearly everything in a simulation, is looked at and left as it is."""
        content = self.content
        if type(content) is not str or not content.isascii() or not content or content.isspace():
            self._mend("content", _said(content))
        if type(self.importance) is not float or not 0.0 <= self.importance <= 1.0:
            self._mend("importance", intake.share("importance", self.importance))
        if type(self.year) is not int or not 0 <= self.year <= LATEST_YEAR:
            self._mend("year", checked_year(self.year))
        if type(self.timestamp) is not datetime or self.timestamp.tzinfo is not UTC:
            self._mend("timestamp", intake.moment("timestamp", self.timestamp) or datetime.now(UTC))
        tags: object = self.tags
        if tags or type(tags) is not list:
            self._mend("tags", [] if tags is None else _tags(tags))

    def to_json(self) -> JsonObject:
        named = {} if self.id is None else {"id": self.id}
        return {
            "content": self.content,
            "importance": self.importance,
            "year": self.year,
            "timestamp": self.timestamp.isoformat(),
            "tags": list(self.tags),
            **named,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryItem:
        """What `to_json` gave. Raises InvalidInput."""
        try:
            said_at = datetime.fromisoformat(data["timestamp"])
            return cls(data["content"], data["importance"], data["year"], said_at, data["tags"], data.get("id"))
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput("item", f"is no experience ({type(error).__name__}: {error})") from None

    def _mend(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def checked_year(value: object, field: str = "year") -> int:
    """A whole year from 0. Raises InvalidInput."""
    if type(value) is int and 0 <= value <= LATEST_YEAR:
        return value
    return intake.count(field, value, least=0, most=LATEST_YEAR)


def _tags(said: object) -> list[str]:
    """In their order; those of a set, which has none that would be the same tomorrow, by the alphabet."""
    tags = intake.tag_list("tags", said)
    return sorted(tags) if isinstance(said, Set) else list(tags)


def _said(content: object) -> str:
    if not isinstance(content, str):
        raise InvalidInput("content", f"expected text, not {type(content).__name__}")
    if not content.strip():
        raise InvalidInput("content", "is empty; say what was experienced")
    return intake.mended(str(content))
