"""Uses are noted in memory and written behind: a search must not cost an fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kingly_memory.ports import Transaction
from kingly_memory.router import activity, lifetimes

Used = dict[str, tuple[int, float]]
"""How often memories were used and when last (Unix seconds), by id."""


class UsageBuffer:
    """Collects uses from any thread, and how many searches found something and did not. `take` hands them to a change;
    until that is `written` they still count here."""

    def __init__(self, space: str) -> None:
        self._space = space
        self._used: Used = {}
        self._taken: Used = {}
        self._searches = [0, 0]
        self._searches_taken = [0, 0]
        self._lock = threading.Lock()

    def note(self, memory_ids: Iterable[str], now_s: float, *, times: int = 1) -> None:
        """`times=0` keeps them alive without counting as uses."""
        with self._lock:
            _add(self._used, dict.fromkeys(memory_ids, (times, now_s)))

    def note_search(self, memory_ids: Iterable[str], now_s: float) -> None:
        """A search has answered with these, or with nothing."""
        found = dict.fromkeys(memory_ids, (1, now_s))
        with self._lock:
            _add(self._used, found)
            self._searches[not found] += 1

    def last_use(self, memory_id: str) -> float | None:
        """The last use that may not be in the store yet."""
        used = self._used.get(memory_id) or self._taken.get(memory_id)
        return None if used is None else used[1]

    def times(self, memory_id: str) -> int:
        """Uses that may not be in the store yet."""
        with self._lock:
            return sum(some.get(memory_id, (0, 0.0))[0] for some in (self._used, self._taken))

    def take(self) -> Callable[[Transaction], None] | None:
        """A change that writes the uses down and renews sliding lifetimes; None when there is nothing to write."""
        with self._lock:
            _add(self._taken, self._used)
            self._used = {}
            taken = dict(self._taken)
            found, missed = self._searches_taken = [*map(sum, zip(self._searches, self._searches_taken, strict=True))]
            self._searches = [0, 0]
        if not taken and not found and not missed:
            return None

        def change(transaction: Transaction) -> None:
            if found or missed:
                more = {"found": found, "missed": missed}
                activity.add(transaction, self._space, lambda before: before.looked_up(**more))
            for memory_id, (times, last_s) in taken.items():
                note(transaction, memory_id, last_s, times=times)

        return change

    def written(self, _: None = None) -> None:
        """The change is durable. Without this call the same uses are taken again."""
        with self._lock:
            self._taken = {}
            self._searches_taken = [0, 0]


def _add(used: Used, more: Used) -> None:
    for memory_id, (times, last_s) in more.items():
        before = used.get(memory_id, (0, last_s))
        used[memory_id] = before[0] + times, max(before[1], last_s)


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
