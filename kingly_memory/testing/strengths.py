"""A storage for DecayManager that lives in memory and fails on command."""

from __future__ import annotations

import json

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import StoreError
from kingly_memory.lifecycle.decay_manager import MemoryFacts, MemoryStrength


@dataclass(frozen=True, slots=True)
class _Kept:
    project_id: str
    agent: str
    facts: MemoryFacts


@dataclass(slots=True)
class MemoryStrengths:
    """The StrengthStorage port. Strengths are kept as JSON texts, as on disk: what is done to one that was read is lost
    unless it is written. Archiving fails while a memory's id is in `refuses_to_archive`."""

    archived: set[str] = field(default_factory=set)
    refuses_to_archive: set[str] = field(default_factory=set)
    writes: int = 0
    strengths: dict[str, str] = field(default_factory=dict)
    _memories: dict[str, _Kept] = field(default_factory=dict)

    def add(self, memory_id: str, facts: MemoryFacts, *, project_id: str = "app", agent: str = "cleo") -> None:
        self._memories[memory_id] = _Kept(project_id, agent, facts)

    def get_memory_strength(self, memory_id: str) -> MemoryStrength | None:
        text = self.strengths.get(memory_id)
        return None if text is None else MemoryStrength.from_json(json.loads(text))

    def update_memory_strength(self, strength: MemoryStrength) -> None:
        self.writes += 1
        self.strengths[strength.memory_id] = json.dumps(strength.to_json())

    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]:
        return [
            memory_id
            for memory_id, kept in self._memories.items()
            if project_id in {None, kept.project_id} and agent in {None, kept.agent}
        ]

    def get_memory_facts(self, memory_id: str) -> MemoryFacts | None:
        kept = self._memories.get(memory_id)
        return None if kept is None else kept.facts

    def archive_memory(self, memory_id: str) -> None:
        if memory_id in self.refuses_to_archive:
            raise StoreError("the archive is full; free some space")
        self.writes += 1
        self.archived.add(memory_id)

    def delete_memory(self, memory_id: str) -> None:
        self.writes += 1
        self._memories.pop(memory_id, None)
