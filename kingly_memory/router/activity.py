"""What has happened in a project's tiers: one facet, `activity:<digest of the project>`, and what is added to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256

from kingly_memory.lifecycle.activity import Activity
from kingly_memory.ports import StoreReader, Transaction

FACET = "activity"


def owner(project: str) -> str:
    return sha256(project.encode()).hexdigest()[:32]


def add(transaction: Transaction, project: str, more: Callable[[Activity], Activity]) -> None:
    """Part of a change."""
    after = more(Activity.from_json(transaction.facet(FACET, owner(project))))
    transaction.set_facet(FACET, owner(project), after.to_json())


def read(reader: StoreReader, project: str) -> Activity:
    return Activity.from_json(reader.facets(FACET, [owner(project)]).get(owner(project)))


class Lookups:
    """Counts searches that found something and those that did not. They are written behind, like uses."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._counted = Activity()
        self._taken = Activity()
        self._lock = threading.Lock()

    def note(self, *, found: bool) -> None:
        with self._lock:
            self._counted = self._counted.looked_up(found=int(found), missed=int(not found))

    def take(self) -> Callable[[Transaction], None] | None:
        """A change that writes the counts down; None when there is nothing to write."""
        with self._lock:
            taken = self._taken = self._taken.looked_up(found=self._counted.found, missed=self._counted.missed)
            self._counted = Activity()
        if not taken.lookups:
            return None
        return lambda transaction: add(
            transaction, self._project, lambda before: before.looked_up(found=taken.found, missed=taken.missed)
        )

    def written(self, _: None = None) -> None:
        with self._lock:
            self._taken = Activity()
