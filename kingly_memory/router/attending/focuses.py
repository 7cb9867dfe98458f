"""What is in focus, per project and agent: the facet `focus:<owner>`, in the form of the seed's focus.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kingly_memory.attention.focus import Focus, Focuses
from kingly_memory.cognition.owners import current_owner
from kingly_memory.models import JsonObject
from kingly_memory.ports import StoreReader, Transaction
from kingly_memory.router.records import Desk
from kingly_memory.router.threads.roots import THREAD

FACET = "focus"


class Cleared(NamedTuple):
    """Topics that are no longer in focus, and those that still are."""

    gone: tuple[str, ...]
    left: tuple[str, ...]


def read(reader: StoreReader, project: str, agent: str | None) -> Focuses:
    whose = current_owner(project, agent)
    return Focuses.from_json(reader.facets(FACET, [whose]).get(whose))


def status(reader: StoreReader, project: str, agent: str | None) -> JsonObject:
    """For a status: `focus`, when anything is in it."""
    active = read(reader, project, agent)
    return {"focus": [{"topic": one.topic, "weight": one.weight} for one in active]} if active else {}


def put(one: Focus, desk: Desk) -> Callable[[Transaction], list[str]]:
    """Have it in focus. Says which threads have facets, at most 1,000. Raises InvalidInput."""

    def change(transaction: Transaction) -> list[str]:
        whose = current_owner(desk.project, desk.agent)
        active = Focuses.from_json(transaction.facet(FACET, whose)).with_one(one)
        transaction.set_facet(FACET, whose, active.to_json())
        return list(transaction.owners(THREAD))

    return change


def clear(topic: str | None, desk: Desk) -> Callable[[Transaction], Cleared]:
    """Take the focus off a topic; off all of them for None."""

    def change(transaction: Transaction) -> Cleared:
        whose = current_owner(desk.project, desk.agent)
        before = Focuses.from_json(transaction.facet(FACET, whose))
        after = before.without(topic, desk.now)
        if after is not before:
            transaction.set_facet(FACET, whose, after.to_json())
        gone = tuple(one.topic for one in before if one not in after.active)
        return Cleared(gone, tuple(one.topic for one in after))

    return change
