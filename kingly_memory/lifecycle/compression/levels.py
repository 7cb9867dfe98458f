"""What compression answers, and how much of a text it keeps (seed 000, priority 4). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import JsonObject, MemoryType


class CompressionLevel(StrEnum):
    """How much goes: nothing; what is said twice; all but the key points; all but the core."""

    NONE = "none"
    LIGHT = "light"
    MEDIUM = "medium"
    AGGRESSIVE = "aggressive"


class Summariser(StrEnum):
    """Who wrote a summary. NOBODY: it is the text itself."""

    MODEL = "model"
    RULES = "rules"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class CompressedMemory:
    """A text, what is left of it, and what it says. The whole text stays in `full_content`, to verify the rest against.

    Lengths are in characters, and the summary is never longer than the text. `reason` says why the summary is not a
    model's although one could have been asked.
    """

    full_content: str
    summary: str
    key_facts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    level: CompressionLevel = CompressionLevel.MEDIUM
    summariser: Summariser = Summariser.RULES
    reason: str | None = None

    @property
    def original_length(self) -> int:
        return len(self.full_content)

    @property
    def compressed_length(self) -> int:
        return len(self.summary)

    @property
    def compression_ratio(self) -> float:
        """Compressed ÷ original, 0 to 1: less is shorter. 1 for an empty text."""
        return self.compressed_length / self.original_length if self.full_content else 1.0

    @property
    def compression_factor(self) -> float:
        """Original ÷ compressed, 1 and more: how many times shorter it became."""
        return self.original_length / self.compressed_length if self.summary else 1.0

    def metadata(self) -> JsonObject:
        """What a memory stored in the place of the text says about it."""
        said = {
            "compression_ratio": round(self.compression_ratio, 4),
            "compression_factor": round(self.compression_factor, 4),
            "original_length": self.original_length,
            "compression_level": self.level.value,
            "summary_by": self.summariser.value,
            "key_facts": list(self.key_facts),
        }
        more = {"constraints": self.constraints, "patterns": self.patterns, "decisions": self.decisions}
        return {**said, **{name: list(texts) for name, texts in more.items() if texts}}

    def to_json(self) -> JsonObject:
        return {
            "summary": self.summary,
            "original_length": self.original_length,
            "compressed_length": self.compressed_length,
            "compression_ratio": round(self.compression_ratio, 4),
            "compression_factor": round(self.compression_factor, 4),
            "key_facts": list(self.key_facts),
            "constraints": list(self.constraints),
            "patterns": list(self.patterns),
            "decisions": list(self.decisions),
            "level": self.level.value,
            "summary_by": self.summariser.value,
            "reason": self.reason,
            "full_content": self.full_content,
        }


@dataclass(frozen=True, slots=True)
class CompressionConfig:
    """`alma.compression` of the seed. Not `enabled`: texts stay as they are and no model is asked. `llm_required`: a
    text that no model compressed is an error, instead of being compressed by rules."""

    enabled: bool = True
    level: CompressionLevel = CompressionLevel.MEDIUM
    llm_required: bool = False
    llm_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        for name in ("enabled", "llm_required"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidSetting(f"compression.{name}", "expected true or false")
        try:
            object.__setattr__(self, "level", level_named(self.level))
        except InvalidInput as error:
            raise InvalidSetting("compression.level", error.problem) from None
        seconds: Any = self.llm_timeout_s
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_WAIT_S:
            raise InvalidSetting("compression.llm_timeout_s", f"expected seconds above 0, {LONGEST_WAIT_S:,} at most")


LONGEST_WAIT_S = 3_600


def level_named(value: object) -> CompressionLevel:
    """The level of that name. Raises InvalidInput."""
    try:
        return CompressionLevel(value.strip().casefold() if isinstance(value, str) else str(value))
    except ValueError:
        known = ", ".join(CompressionLevel)
        raise InvalidInput("level", f"{str(value)[:40]!r} is not a compression level; choose one of {known}") from None


LEARNED_AS = {
    "outcome": MemoryType.EPISODIC,
    "knowledge": MemoryType.SEMANTIC,
    "heuristic": MemoryType.PROCEDURAL,
}
"""What the seed's tool learns, and the type of memory that it becomes."""


def learned_as(value: object) -> MemoryType:
    """The type of memory that something learned becomes. Raises InvalidInput."""
    found = LEARNED_AS.get(value.strip().casefold()) if isinstance(value, str) else None
    if found is None:
        known = ", ".join(LEARNED_AS)
        raise InvalidInput("memory_type", f"{str(value)[:40]!r} cannot be learned as; choose one of {known}")
    return found


def learned(compressed: CompressedMemory, memory_type: object) -> dict[str, Any]:
    """What `store` is told so that a text is learned: summary, type and metadata. Raises InvalidInput."""
    return {"content": compressed.summary, "type": learned_as(memory_type).value, "metadata": compressed.metadata()}
