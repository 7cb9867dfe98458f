"""When the last of what was said in a thread is gone: what was said of it goes along, and comes back with nothing.

Its weight and pin, which tell of nothing, stay until its memories are erased; so does which thread it goes on as.
"""

from __future__ import annotations

from collections.abc import Iterable

from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import Transaction
from kingly_memory.router import contexts
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.roots import ATTENTION, THREAD
from kingly_memory.thread_files import FILE

TELLING = ("ratings", FILE)
"""Facets that tell what the thread was about, or what somebody thought of it."""
STANDING = (ATTENTION, contexts.FACET)
_BONES = ("context_id", "into", "holds", "at")
"""What of the facet `thread` tells of nothing."""


def leave(transaction: Transaction, memories: Iterable[Memory], *, erased: bool = False) -> None:
    """The memories have just been put out of sight, or `erased`."""
    places: set[tuple[str, str]] = set()
    for memory in memories:
        if memory.scope.context_id is None:
            _strip(transaction, memory.id, {})
        else:
            places.add((memory.scope.project, memory.scope.context_id))
    for project, context_id in sorted(places):
        if not transaction.is_said_in(project, context_id):
            _leave(transaction, project, context_id, erased=erased)


def _leave(transaction: Transaction, project: str, context_id: str, *, erased: bool) -> None:
    family = _family(transaction, project, context_id)
    left = [one for one in family if transaction.is_said_in(project, one)]
    for one in family if not left else {context_id: family[context_id]}:
        if left and roots.into(family[one]) is None:
            continue  # what is said of it is said of those that go on as it
        name = owner(project, one)
        bones = {field: value for field, value in family[one].items() if field in _BONES}
        kept = bones if "into" in bones or "holds" in bones else {}
        _strip(transaction, name, kept if left or not erased else {})
        for facet in STANDING if erased and not left else ():
            transaction.set_facet(facet, name, None)


def clear(transaction: Transaction, project: str, context_id: str) -> None:
    """Leave nothing beside a context of which all has gone elsewhere."""
    if transaction.is_said_in(project, context_id):
        return
    name = owner(project, context_id)
    _strip(transaction, name, {})
    for facet in STANDING:
        transaction.set_facet(facet, name, None)


def _strip(transaction: Transaction, name: str, kept: JsonObject) -> None:
    transaction.set_facet(THREAD, name, kept or None)
    for facet in TELLING:
        transaction.set_facet(facet, name, None)


def _family(transaction: Transaction, project: str, context_id: str) -> dict[str, JsonObject]:
    """The contexts that are one thread with that one, itself among them, each with its facet `thread`."""

    def of(one: str) -> JsonObject:
        return transaction.facet(THREAD, owner(project, one)) or {}

    found = {context_id: of(context_id)}
    root = context_id
    while (target := roots.into(found[root])) is not None and target not in found:
        root = target
        found[root] = of(root)
    waiting = list(found)
    for one in waiting:
        for child in roots.holds(found[one]):
            if child not in found and roots.into(facet := of(child)) == one:
                found[child] = facet
                waiting.append(child)
    return found
