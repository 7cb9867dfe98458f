"""What lies in the archive and why, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kingly_memory.dataclass import dataclass, field
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus, at_text
from kingly_memory.ports import Transaction
from kingly_memory.router.lifecycle import lifetimes

FACET = "archived"
LEARNED = "compression"
"""The policy that put a whole text into the archive, where a summary is remembered in its place."""
WHOLE_TEXT = "the whole text"
"""What a link from such a summary to the text says."""


@dataclass(frozen=True, slots=True)
class Archived:
    """The facet `archived:<id>`: when a memory went to the archive (Unix seconds), which policy wanted it, why, and on
    which figures. `sweep` names the sweep, `summary` the memory that sums it up."""

    at: float
    policy: str
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    sweep: str | None = None
    summary: MemoryId | None = None

    def to_json(self) -> JsonObject:
        optional = {"sweep": self.sweep, "summary": self.summary}
        return {
            "at": self.at,
            "policy": self.policy,
            "reason": self.reason,
            "figures": {name: round(value, 4) for name, value in self.figures.items()},
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Archived:
        """Rebuild what `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        summary = data.get("summary")
        return cls(
            at=float(data["at"]),
            policy=str(data["policy"]),
            reason=str(data["reason"]),
            figures=dict(data["figures"]),
            sweep=data.get("sweep"),
            summary=None if summary is None else MemoryId(summary),
        )


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A memory in the archive. `why` is None for what came there with an import."""

    memory: Memory
    why: Archived | None

    def to_json(self) -> JsonObject:
        archived = None if self.why is None else self.why.to_json()
        at_s = None if self.why is None else self.why.at
        return {**self.memory.to_json(), "archived": archived, "archived_at": at_text(at_s)}


def move_to_archive(transaction: Transaction, why: Mapping[MemoryId, Archived]) -> None:
    """Take memories out of sight. Their facets stay beside them; their lifetimes stop."""
    transaction.set_status(list(why), MemoryStatus.ARCHIVED)
    for memory_id, entry in why.items():
        lifetimes.stop(transaction, memory_id)
        transaction.set_facet(FACET, memory_id, entry.to_json())
