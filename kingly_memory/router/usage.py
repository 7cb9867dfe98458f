"""Uses are noted in memory and written behind: a search must not cost an fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kingly_memory.ports import Transaction
from kingly_memory.router import lifetimes


@dataclass(frozen=True, slots=True)
class Used:
    """How often a memory was used and when last, in Unix seconds, since the last write."""

    times: int
    last_s: float


class UsageBuffer:
    """Collects uses from any thread. `take` hands them to a change; until that is `written` they still count here."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}
        self._taken: dict[str, Used] = {}
        self._lock = threading.Lock()

    def note(self, memory_ids: Iterable[str], now_s: float, *, times: int = 1) -> None:
        """`times=0` keeps them alive without counting as uses."""
        with self._lock:
            for memory_id in memory_ids:
                self._used[memory_id] = _together(self._used.get(memory_id), Used(times, now_s))

    def last_use(self, memory_id: str) -> float | None:
        """The last use that may not be in the store yet."""
        used = self._used.get(memory_id) or self._taken.get(memory_id)
        return None if used is None else used.last_s

    def times(self, memory_id: str) -> int:
        """Uses that may not be in the store yet."""
        with self._lock:
            return sum(some[memory_id].times for some in (self._used, self._taken) if memory_id in some)

    def take(self) -> Callable[[Transaction], None] | None:
        """A change that writes the uses down and renews sliding lifetimes; None when there is nothing to write."""
        with self._lock:
            for memory_id, used in self._used.items():
                self._taken[memory_id] = _together(self._taken.get(memory_id), used)
            self._used = {}
            taken = dict(self._taken)
        if not taken:
            return None

        def change(transaction: Transaction) -> None:
            for memory_id, one in taken.items():
                note(transaction, memory_id, one)

        return change

    def written(self, _: None = None) -> None:
        """The change is durable. Without this call the same uses are taken again."""
        with self._lock:
            self._taken = {}


def _together(before: Used | None, more: Used) -> Used:
    if before is None:
        return more
    return Used(before.times + more.times, max(before.last_s, more.last_s))


def note(transaction: Transaction, memory_id: str, used: Used) -> None:
    """Write a use down and renew a sliding lifetime, as part of a change."""
    if transaction.row(memory_id) is None:
        return
    before = transaction.facet("usage", memory_id) or {"accesses": 0, "last_used": used.last_s}
    after = {"accesses": before["accesses"] + used.times, "last_used": max(before["last_used"], used.last_s)}
    transaction.set_facet("usage", memory_id, after)
    lifetimes.renew(transaction, memory_id, used.last_s)
