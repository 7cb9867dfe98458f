"""What has happened in a project's tiers: one facet, `activity:<digest of the project>`, and what is added to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256

from kingly_memory.lifecycle.tier_stats import Activity
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader, Transaction

FACET = "activity"


def owner(project: str) -> str:
    return sha256(project.encode()).hexdigest()[:32]


def of(facet: JsonObject | None) -> Activity:
    """What cannot be read counts as nothing."""
    try:
        return Activity() if facet is None else Activity.from_json(facet)
    except (KeyError, TypeError, ValueError):
        return Activity()


def add(transaction: Transaction, project: str, more: Callable[[Activity], Activity]) -> None:
    """Part of a change."""
    after = more(of(transaction.facet(FACET, owner(project))))
    transaction.set_facet(FACET, owner(project), after.to_json())


class Lookups:
    """Counts searches that found something and those that did not, and writes that down behind them."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._counted = (0, 0)
        self._taken = (0, 0)
        self._lock = threading.Lock()

    def note(self, *, found: bool) -> None:
        with self._lock:
            hits, misses = self._counted
            self._counted = (hits + found, misses + (not found))

    def take(self) -> Callable[[Transaction], None] | None:
        with self._lock:
            self._taken = (self._taken[0] + self._counted[0], self._taken[1] + self._counted[1])
            self._counted = (0, 0)
            found, missed = self._taken
        if not found + missed:
            return None
        return lambda transaction: add(
            transaction, self._project, lambda activity: activity.looked_up(found=found, missed=missed)
        )

    def written(self, _: None = None) -> None:
        with self._lock:
            self._taken = (0, 0)


def read(reader: StoreReader, project: str) -> Activity:
    return of(reader.facets(FACET, [owner(project)]).get(owner(project)))
