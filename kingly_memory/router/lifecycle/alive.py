"""Which memories may be shown, and the uses that keep those alive whose lifetime they renew. Uses are noted in memory
and written behind: a search must not cost an fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, is_expired
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Row, StoreReader, Transaction
from kingly_memory.router.lifecycle import lifetimes

# --- what may be shown ------------------------------------------------------------------------------------------------


class Visible:
    """Says of rows whether they may be shown. Safe from any thread."""

    def __init__(self, reader: StoreReader, usage: UsageBuffer | None = None) -> None:
        """`usage` has the uses that are not written down yet."""
        self._reader = reader
        self._usage = usage or UsageBuffer("")

    def shown(self, rows: Iterable[Row], query: Query, now_s: float) -> list[Row]:
        """The rows whose status, filters and lifetime let them be shown."""
        return self.lasting(self.admitted(rows, query), query, now_s)

    def admitted(self, rows: Iterable[Row], query: Query) -> list[Row]:
        """The rows whose status and filters let them be shown."""
        statuses = query.statuses
        return [row for row in rows if row.status in statuses and query.admits(row.memory)]

    def lasting(self, admitted: Sequence[Row], query: Query, now_s: float) -> list[Row]:
        """Those of the `admitted` rows that no lifetime and no memory of the own project keeps from being shown. Where
        the archive is asked for, so is what waits for a sweep to put it there."""
        if query.wide:
            own = query.space
            admitted = [
                row for row in admitted if row.memory.scope.space == own or not self._is_overruled(row.memory, own)
            ]
        resting = [row.memory.id for row in admitted if row.status is MemoryStatus.ARCHIVED]
        if query.or_ended and resting:  # only what is in the archive because it has ended
            from kingly_memory.router.lifecycle import archive

            why = self._reader.facets(archive.FACET, resting)
            other = {memory_id for memory_id in resting if why.get(memory_id, {}).get("policy") != LIFETIMES}
            admitted = [row for row in admitted if row.memory.id not in other]
        mortal = [row for row in admitted if not (query.include_archived and _goes_to_archive(row))]
        ended = self._ended(mortal, now_s)
        return [row for row in admitted if row.memory.id not in ended]

    def _is_overruled(self, memory: Memory, space: str) -> bool:
        """True for a memory of every project where this project has one of its own under the same key."""
        if memory.key is None:
            return False
        own_id = self._reader.id_of_key(space, memory.key)
        own = None if own_id is None else self._reader.row(own_id)
        return own_id is not None and (own is None or own.status is not MemoryStatus.FORGOTTEN)

    def is_alive(self, row: Row, now_s: float) -> bool:
        """True unless its lifetime has ended. Archived memories are past that question."""
        return not self._ended([row], now_s)

    def _ended(self, rows: Sequence[Row], now_s: float) -> set[str]:
        """The ids of those whose lifetime has ended."""
        mortal = [row.memory.id for row in rows if row.status is not MemoryStatus.ARCHIVED]
        return {memory_id for memory_id, lifetime in self.lifetimes(mortal).items() if is_expired(lifetime, now_s)}

    def lifetimes(self, memory_ids: Sequence[str]) -> dict[str, Lifetime]:
        """The lifetimes of those memories that have one."""
        return self.counted(self._reader.facets("lifetime", memory_ids)) if memory_ids else {}

    def counted(self, facets: Mapping[str, JsonObject]) -> dict[str, Lifetime]:
        """The lifetimes in those facets, by memory. A use that is not written down yet may have renewed one."""
        lifetimes = {memory_id: Lifetime.from_json(facet) for memory_id, facet in facets.items()}
        used = {memory_id: used_s for memory_id in lifetimes if (used_s := self._usage.last_use(memory_id)) is not None}
        return lifetimes | {memory_id: lifetimes[memory_id].used(used_s) for memory_id, used_s in used.items()}


def _goes_to_archive(row: Row) -> bool:
    """Working memories and copies are erased when their time is over, all others are put away."""
    return row.status is MemoryStatus.LIVE and row.memory.type is not MemoryType.WORKING


# --- uses -------------------------------------------------------------------------------------------------------------


class _Uses:
    """How often memories were used and when last (Unix seconds), by id; when contexts were, by the owner of their
    facet; and how many searches found something and did not."""

    def __init__(self) -> None:
        self.memories: dict[str, tuple[int, float]] = {}
        self.contexts: dict[str, float] = {}
        self.searches = [0, 0]

    def note(self, memory_id: str, times: int, used_s: float) -> None:
        before = self.memories.get(memory_id, (0, used_s))
        self.memories[memory_id] = before[0] + times, max(before[1], used_s)

    def add(self, more: _Uses) -> None:
        for memory_id, (times, used_s) in more.memories.items():
            self.note(memory_id, times, used_s)
        self.contexts |= more.contexts
        self.searches = [*map(sum, zip(self.searches, more.searches, strict=True))]


class UsageBuffer:
    """Collects uses from any thread. `take` hands them to a change; until that is `written` they still count here."""

    def __init__(self, space: str) -> None:
        self._space = space
        self._new = _Uses()
        self._taken = _Uses()
        self._lock = threading.Lock()

    def note(self, memory_ids: Iterable[str], now_s: float, *, times: int = 1) -> None:
        """`times=0` keeps them alive without counting as uses."""
        with self._lock:
            for memory_id in dict.fromkeys(memory_ids):
                self._new.note(memory_id, times, now_s)

    def note_search(self, memory_ids: Iterable[str], now_s: float) -> None:
        """A search has answered with these, or with nothing."""
        ids = list(memory_ids)
        self.note(ids, now_s)
        with self._lock:
            self._new.searches[not ids] += 1

    def note_context(self, owner: str, now_s: float) -> None:
        """A context was read, which keeps it alive."""
        with self._lock:
            self._new.contexts[owner] = now_s

    def last_use(self, memory_id: str) -> float | None:
        """The last use that may not be in the store yet."""
        used = self._new.memories.get(memory_id) or self._taken.memories.get(memory_id)
        return None if used is None else used[1]

    def last_use_of_context(self, owner: str) -> float:
        """The last one that may not be in the store yet, in Unix seconds; 0 for none."""
        return max(some.contexts.get(owner, 0.0) for some in (self._new, self._taken))

    def times(self, memory_id: str) -> int:
        """Uses that may not be in the store yet."""
        with self._lock:
            return sum(some.memories.get(memory_id, (0, 0.0))[0] for some in (self._new, self._taken))

    def take(self) -> Callable[[Transaction], None] | None:
        """A change that writes the uses down and renews sliding lifetimes; None when there is nothing to write."""
        with self._lock:
            self._taken.add(self._new)
            self._new = _Uses()
            memories, contexts = dict(self._taken.memories), dict(self._taken.contexts)
            found, missed = self._taken.searches
        if not memories and not contexts and not found and not missed:
            return None

        def change(transaction: Transaction) -> None:
            if found or missed:
                from kingly_memory.router import activity  # a command that reads counts no searches

                more = {"found": found, "missed": missed}
                activity.add(transaction, self._space, lambda before: before.looked_up(**more))
            for memory_id, (times, last_s) in memories.items():
                note(transaction, memory_id, last_s, times=times)
            for owner, used_s in contexts.items():
                if (facet := transaction.facet("context", owner)) is not None:
                    transaction.set_facet("context", owner, {**facet, "used_s": max(facet["used_s"], used_s)})

        return change

    def written(self, _: None = None) -> None:
        """The change is durable. Without this call the same uses are taken again."""
        with self._lock:
            self._taken = _Uses()


def see(transaction: Transaction, memory_id: str, now_s: float) -> int:
    """Write down that a memory was stored again, which is a use of it. How often it has been stored by now."""
    note(transaction, memory_id, now_s)
    facet = transaction.facet("usage", memory_id) or {}
    sightings = facet.get("sightings", 1) + 1
    transaction.set_facet("usage", memory_id, {**facet, "sightings": sightings})
    return int(sightings)


def note(transaction: Transaction, memory_id: str, used_s: float, *, times: int = 1) -> None:
    """Write uses down, the last of them at that time, and renew a sliding lifetime, as part of a change."""
    if transaction.row(memory_id) is None:
        return
    before = transaction.facet("usage", memory_id) or {"accesses": 0, "last_used": used_s}
    after = {**before, "accesses": before["accesses"] + times, "last_used": max(before["last_used"], used_s)}
    transaction.set_facet("usage", memory_id, after)
    lifetimes.renew(transaction, memory_id, used_s)
