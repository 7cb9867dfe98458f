"""Uses are noted in memory and written behind: a search must not cost an fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kingly_memory.ports import Transaction
from kingly_memory.router import activity
from kingly_memory.router.lifecycle import lifetimes


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
