"""When the last memory of a thread is gone, what was said of the thread goes too, and does not come back.

Its weight and pin, which tell nothing of what was said, stay until its memories are erased; so do merges.
"""

from __future__ import annotations

from collections.abc import Iterable

from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import Transaction
from kingly_memory.router import contexts
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS, THREAD, into, members, root, threads

_MERGES = ("context_id", "into", "holds")
"""Fields of the facet `thread` that only say what was merged."""


def clean_up(transaction: Transaction, memories: Iterable[Memory], *, erased: bool = False) -> None:
    """The memories have just been forgotten or `erased`."""
    places: set[tuple[str, str]] = set()
    for memory in memories:
        if memory.scope.context_id is None:
            strip(transaction, memory.id)
        else:
            places.add((memory.scope.space, memory.scope.context_id))
    for space, context_id in sorted(places):
        if transaction.has_context(space, context_id):
            continue
        known = threads(transaction, space, [context_id])
        merged = known | members(transaction, space, root(context_id, known))
        is_left = any(transaction.has_context(space, one) for one in merged)
        for thread_id in [context_id] if is_left else merged:
            facet = merged[thread_id]
            if is_left and into(facet) is None:
                continue  # what is said of it is said of what was merged into it, too
            merges = {name: value for name, value in facet.items() if name in _MERGES}
            keeps_merges = ("into" in merges or "holds" in merges) and (is_left or not erased)
            strip(transaction, owner(space, thread_id), merges if keeps_merges else None, whole=erased and not is_left)


def strip(transaction: Transaction, whose: str, kept: JsonObject | None = None, *, whole: bool = False) -> None:
    """Take away what was said of a thread, but for `kept` in its facet `thread`; `whole`: its weight and pin, too."""
    transaction.set_facet(THREAD, whose, kept)
    for name in (RATINGS, *((ATTENTION, contexts.FACET) if whole else ())):
        transaction.set_facet(name, whose, None)
