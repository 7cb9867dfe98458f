"""How memories are doing: why one will stay or go, which are weak, what lies in the archive. Synchronous, read-only."""

from __future__ import annotations

from collections import Counter

from kingly_memory.dataclass import dataclass
from kingly_memory.lifecycle import decay, policies
from kingly_memory.lifecycle.decay import StrengthRules, StrengthState
from kingly_memory.lifecycle.policies import WeakMemories
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, Query, Tier, at_text
from kingly_memory.plain import Plain
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.activity import Activity, memory_stats
from kingly_memory.router.delivery import known_remotes
from kingly_memory.router.lifecycle import archive
from kingly_memory.router.lifecycle.archive import Archived, ArchiveEntry
from kingly_memory.router.subjects import Subjects
from kingly_memory.settings import Tiers


@dataclass(frozen=True, slots=True)
class ArchivePage(Plain):
    """One page of the archive, the most recently stored first. `next_before` continues it; None at the end."""

    entries: tuple[ArchiveEntry, ...]
    next_before: int | None


class Condition:
    """Looks at one project's memories as the policies do."""

    def __init__(self, reader: StoreReader, space: str, strength: StrengthRules, tiers: Tiers) -> None:
        self._reader = reader
        self._space = space
        self._strength = strength
        self._tiers = tiers
        self._subjects = Subjects(reader, space)

    def weak(self, now_s: float, agent: str | None = None) -> WeakMemories:
        return policies.weak(self._subjects.live(agent=agent), now_s, self._strength)

    def explained(self, row: Row, now_s: float) -> JsonObject:
        """What becomes of a memory, and the figures that this rests on.

        It ends at `ends_at`, which is `lifetime_s` after its last use where that is not None. For its strength only a
        sweep by that policy takes it away. No sweep takes away what is `protected`; working memories are meant to end,
        whatever they are worth.
        """
        [subject] = self._subjects.of([row])
        memory_id, placement = row.memory.id, subject.placed(self._tiers)
        why = self._why([row.memory]).get(memory_id)
        return {
            "status": row.status.value,
            "strength": decay.explained(subject.vitals, now_s, self._strength),
            "uses": {
                "accesses": subject.usage.accesses,
                "last_used": at_text(subject.usage.last_used),
                "sightings": subject.usage.sightings,
            },
            "ends_at": at_text(None if subject.lifetime is None else subject.lifetime.expires_at),
            "lifetime_s": None if subject.lifetime is None else subject.lifetime.sliding_s,
            "tier": {
                "name": placement.tier.value,
                "importance": round(subject.importance(now_s, self._tiers), 4),
                "surprise": round(placement.surprise, 4),
                "successes": placement.successes,
                "moved": at_text(placement.moved_at),
            },
            "protected": subject.pinned or (subject.is_protected and row.memory.type is not MemoryType.WORKING),
            "archived": None if why is None else why.to_json(),
            "remotes": known_remotes.deliveries(self._reader, memory_id),
        }

    def archived(self, limit: int, before: int | None) -> ArchivePage:
        rows = self._reader.page(Query("", self._space), (MemoryStatus.ARCHIVED,), limit, before)
        why = self._why([row.memory for row in rows])
        entries = tuple(ArchiveEntry(row.memory, why.get(row.memory.id)) for row in rows)
        return ArchivePage(entries, rows[-1].position if len(rows) == limit else None)

    def stats(self, activity: Activity, now_s: float) -> JsonObject:
        """The seed's figures of the tiers, and how many memories are in which state."""
        states, tiers, surprise = Counter[StrengthState](), Counter[Tier](), 0.0
        for subject in self._subjects.live():
            states[decay.state(decay.current(subject.vitals, now_s, self._strength), self._strength)] += 1
            placement = subject.placed(self._tiers)
            tiers[placement.tier] += 1
            surprise += placement.surprise
        return {
            **memory_stats(tiers, surprise, activity, now_s),
            "strength": {state.value: states[state] for state in StrengthState},
            "searches": activity.lookups,
            "archived": self._reader.counts(self._space)["archived"],
        }

    def _why(self, memories: list[Memory]) -> dict[str, Archived]:
        facets = self._reader.facets(archive.FACET, [memory.id for memory in memories])
        return {memory_id: Archived.from_json(facet) for memory_id, facet in facets.items()}
