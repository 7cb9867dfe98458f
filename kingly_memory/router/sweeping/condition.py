"""How memories are doing: why one will stay or go, which are weak, what lies in the archive. Synchronous, read-only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import forgetting, strength, tier_stats
from kingly_memory.lifecycle.forgetting import WeakMemories, vitals
from kingly_memory.lifecycle.strength import StrengthRules, StrengthState
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tier_stats import Activity
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.models import JsonObject, Memory, MemoryType, Query, Standing, Tier, moment_text
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router import known_remotes
from kingly_memory.router.archive import FACET, Archived, ArchiveEntry
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.sweeping import merges


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """One page of the archive, the most recently stored first. `next_before` continues it; None at the end."""

    entries: tuple[ArchiveEntry, ...]
    next_before: int | None

    def to_json(self) -> JsonObject:
        return {"entries": [entry.to_json() for entry in self.entries], "next_before": self.next_before}


class Condition:
    """Looks at one project's memories as the policies do."""

    def __init__(self, reader: StoreReader, project: str, *, strength_rules: StrengthRules, tiering: Tiering) -> None:
        self._reader = reader
        self._project = project
        self._strength_rules = strength_rules
        self._tiering = tiering
        self._subjects = Subjects(reader, project)

    def weak(self, now_s: float, agent: str | None = None) -> WeakMemories:
        return forgetting.weak(self._subjects.live(agent=agent), now_s, self._strength_rules)

    def explained(self, row: Row, now_s: float) -> JsonObject:
        """What becomes of a memory, and the figures that this rests on.

        It ends at `ends_at`, which is `lifetime_s` after its last use where that is not None. For its strength only a
        sweep by that policy takes it away."""
        [one] = self._subjects.of([row])
        why = self._why([row.memory]).get(row.memory.id)
        return {
            "standing": row.standing.value,
            "strength": strength.explained(vitals(one), now_s, self._strength_rules),
            "uses": {"accesses": one.usage.accesses, "last_used": _moment(one.usage.last_used)},
            "ends_at": moment_text(None if one.lifetime is None else one.lifetime.ends_at),
            "lifetime_s": None if one.lifetime is None else one.lifetime.sliding_s,
            "tier": self._tier(one, now_s),
            "protected": _is_protected(one),
            "archived": None if why is None else why.to_json(),
            "remotes": known_remotes.deliveries(self._reader, row.memory.id),
            **self._merged(row.memory.id),
        }

    def _merged(self, memory_id: MemoryId) -> JsonObject:
        """Those that were joined to it, if any were."""
        facet = self._reader.facets(merges.FACET, [memory_id]).get(memory_id)
        return {} if facet is None else {"merged": facet["ids"]}

    def archived(self, limit: int, before: int | None) -> ArchivePage:
        rows = self._reader.page(Query("", self._project), (Standing.ARCHIVED,), limit, before)
        why = self._why([row.memory for row in rows])
        entries = tuple(ArchiveEntry(row.memory, why.get(row.memory.id)) for row in rows)
        return ArchivePage(entries, rows[-1].position if len(rows) == limit else None)

    def stats(self, activity: Activity, now_s: float) -> JsonObject:
        """The seed's figures of the tiers, and how many memories are in which state."""
        rules, states, tiers, surprise = self._strength_rules, Counter[StrengthState](), Counter[Tier](), 0.0
        for one in self._subjects.live():
            states[strength.state(strength.current(vitals(one), now_s, rules), rules)] += 1
            placement = self._tiering.placement(one)
            tiers[placement.tier] += 1
            surprise += placement.surprise
        return {
            **tier_stats.memory_stats(tiers, surprise, activity, now_s),
            "strength": {state.value: states[state] for state in StrengthState},
            "searches": activity.lookups,
            "archived": self._reader.counts(self._project)["archived"],
        }

    def _tier(self, one: Subject, now_s: float) -> JsonObject:
        placement = self._tiering.placement(one)
        return {
            "name": placement.tier.value,
            "importance": round(self._tiering.importance(one, now_s), 4),
            "surprise": round(placement.surprise, 4),
            "successes": placement.successes,
            "moved": _moment(placement.moved_at),
        }

    def _why(self, memories: list[Memory]) -> dict[str, Archived]:
        facets = self._reader.facets(FACET, [memory.id for memory in memories])
        return {memory_id: Archived.from_json(facet) for memory_id, facet in facets.items()}


def _is_protected(one: Subject) -> bool:
    """Whether no sweep takes it away. Working memories are meant to end, whatever they are worth."""
    return one.pinned or (one.is_protected and one.memory.type is not MemoryType.WORKING)


def _moment(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat()
