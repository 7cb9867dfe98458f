"""Pinning and unpinning as changes: each runs whole inside one transaction of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import urandom
from typing import NamedTuple

from kingly_memory.attention import pins
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import Draft
from kingly_memory.models import Receipt, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import lifetimes, write
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.roots import ATTENTION, THREAD
from kingly_memory.router.write import WriteContext

CHANCE_BYTES = 3


class Stored(NamedTuple):
    """What was pinned, as a thread of its own."""

    thread_id: str
    receipt: Receipt


def pin(draft: Draft, weight: float, desk: WriteContext) -> Callable[[Transaction], Stored]:
    """Store the draft as the first memory of a new thread, which is pinned with it. Raises InvalidInput when the
    project has its key already."""

    def change(transaction: Transaction) -> Stored:
        if draft.key is not None and transaction.id_of_key(desk.project, draft.key) is not None:
            raise InvalidInput("key", "is taken, and a pin is always a new memory; choose another one or leave it out")
        thread_id = _new_thread(transaction, desk)
        stored = write.store(replace(draft, context_id=thread_id), desk, noted=False)(transaction)
        for name in (owner(desk.project, thread_id), stored.receipt.id):
            transaction.set_facet(ATTENTION, name, pins.pinned(weight))
        lifetimes.stop(transaction, stored.receipt.id)
        return Stored(thread_id, replace(stored.receipt, ends_at=None))

    return change


def unpin(
    thread: Named, children: Sequence[str], memory_ids: Sequence[MemoryId], desk: WriteContext
) -> Callable[[Transaction], int]:
    """Take the pins off a thread, off those that were merged into it, and off those memories, whose lifetimes begin
    now. Says how many memories that were. Raises InvalidInput when nothing was pinned."""

    def change(transaction: Transaction) -> int:
        was_pinned = _take_off(transaction, thread.owner)
        merged = [owner(desk.project, one) for one in children]
        for name in merged if was_pinned else ():
            _forget_before(transaction, name)
        for name in merged:
            was_pinned |= _take_off(transaction, name)
        freed = [one for one in memory_ids if _take_off(transaction, one) or (was_pinned and one == thread.owner)]
        if not was_pinned and not freed:
            raise InvalidInput("thread_id", f"{thread.id!r} is not pinned")
        rows = [row for one in freed if (row := transaction.row(one)) is not None]
        live = [row.memory for row in rows if row.standing is Standing.LIVE]
        for memory in live:
            lifetimes.begin_again(transaction, memory, desk.now_s)
        for first in range(0, len(live), write.TOGETHER):  # what is known of their thread is looked at again
            transaction.restand([one.id for one in live[first : first + write.TOGETHER]], Standing.LIVE)
        return len(freed)

    return change


def _new_thread(transaction: Transaction, desk: WriteContext) -> str:
    """An id that no other thread of ours has."""
    while True:
        thread_id = pins.thread_id(desk.now, urandom(CHANCE_BYTES))
        if transaction.facet(ATTENTION, owner(desk.project, thread_id)) is None:
            return thread_id


def _forget_before(transaction: Transaction, child: str) -> None:
    """A split gives the other thread back what it weighed before the merge, which may have been a pin."""
    facet = transaction.facet(THREAD, child) or {}
    if isinstance(joined := facet.get("joined"), dict):
        rest = {name: value for name, value in joined.items() if name != ATTENTION}
        transaction.set_facet(THREAD, child, {**facet, "joined": rest})


def _take_off(transaction: Transaction, name: str) -> bool:
    facet = transaction.facet(ATTENTION, name)
    if facet is None or not pins.is_pinned(facet):
        return False
    transaction.set_facet(ATTENTION, name, pins.unpinned(facet))
    return True
