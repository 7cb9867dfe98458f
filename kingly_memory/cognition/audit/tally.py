"""Counting what an audit holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kingly_memory.cognition.audit.records import Kind
from kingly_memory.models import JsonObject


@dataclass(slots=True)
class Tally:
    """How many records there are by kind, agent and year; what was retrieved, remembered and consolidated."""

    kinds: Counter[str] = field(default_factory=Counter)
    agents: Counter[str] = field(default_factory=Counter)
    years: Counter[int] = field(default_factory=Counter)
    destinations: Counter[str] = field(default_factory=Counter)
    retrievals: int = 0
    memories_retrieved: int = 0
    refused: int = 0
    consolidations: int = 0
    memories_consolidated: int = 0

    def add(self, kind: str, record: JsonObject) -> None:
        """One more record, which may be anything: files can be written to by others."""
        self.kinds[kind] += 1
        agent, year = record.get("agent_id"), record.get("year")
        if isinstance(agent, str):
            self.agents[agent] += 1
        if type(year) is int:
            self.years[year] += 1
        if kind == Kind.TOOL_INVOCATION:
            told = _group(record, "tool_invocation")
            self.retrievals += 1
            self.memories_retrieved += _count(told, "result_count")
            self.refused += "refused" in told
        elif kind == Kind.CONSOLIDATION:
            self.consolidations += 1
            self.memories_consolidated += _count(_group(record, "consolidation"), "transferred_count")
        elif kind == Kind.MEMORY_UPDATE:
            self.destinations[str(_group(record, "memory_item").get("destination") or "unknown")] += 1

    def to_json(self) -> JsonObject:
        return {
            "records": self.kinds.total(),
            "kinds": dict(sorted(self.kinds.items())),
            "agents": dict(sorted(self.agents.items())),
            "years": {str(year): count for year, count in sorted(self.years.items())},
            "destinations": dict(sorted(self.destinations.items())),
            "retrievals": {
                "calls": self.retrievals,
                "memories": self.memories_retrieved,
                "refused": self.refused,
            },
            "consolidations": {"runs": self.consolidations, "memories": self.memories_consolidated},
        }


def tally(records: Iterable[tuple[str, JsonObject]]) -> Tally:
    """Of records with their kinds."""
    counted = Tally()
    for kind, record in records:
        counted.add(kind, record)
    return counted


def _group(record: JsonObject, name: str) -> JsonObject:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _count(record: JsonObject, name: str) -> int:
    value = record.get(name)
    return value if type(value) is int else 0
