"""Why a memory was put into a prompt or left out of it, with the figures of its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kingly_memory.attention.priority import Priority
from kingly_memory.models import JsonObject, Memory


@dataclass(frozen=True, slots=True)
class Considered:
    """One candidate. `pertinence` is the share of telling words that it has in common with the prompt; `omission` (one
    of `injection`) says why it was left out, None that it was put in. `topics`: what is in focus and lifts it."""

    memory: Memory
    thread_id: str
    priority: Priority
    pertinence: float
    omission: StrEnum | None
    topics: tuple[str, ...] = ()

    @property
    def is_in(self) -> bool:
        return self.omission is None

    @property
    def why(self) -> str:
        if self.omission is not None:
            return self.omission.value
        return f"in focus: {', '.join(self.topics)}" if self.topics else "fits"

    def to_json(self) -> JsonObject:
        """Its names and figures, without its text: what is left out may be a stranger's."""
        told = {**self.priority._asdict(), "priority": self.priority.total, "pertinence": self.pertinence}
        return {
            "id": self.memory.id,
            "key": self.memory.key,
            "thread_id": self.thread_id,
            "put_in": self.is_in,
            "why": self.why,
            "focus": list(self.topics),
            **{name: round(figure, 4) for name, figure in told.items()},
        }
