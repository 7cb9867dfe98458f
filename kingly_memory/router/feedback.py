"""What users say of memories after reading them, as changes: reinforced, used, useful or not, to be put away."""

from __future__ import annotations

from collections.abc import Sequence

from kingly_memory import validation
from kingly_memory.errors import InvalidInput
from kingly_memory.lifecycle import tiers
from kingly_memory.lifecycle.policies import Subject
from kingly_memory.lifecycle.tiers import Placement
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.ports import Row, Transaction, in_transaction
from kingly_memory.router import experiences, write
from kingly_memory.router.lifecycle import alive, lifetimes
from kingly_memory.router.lifecycle.archive import Archived, move_to_archive
from kingly_memory.router.subjects import subject
from kingly_memory.router.write import WriteContext


@in_transaction
def reinforce(transaction: Transaction, key_or_id: str, context: WriteContext) -> Subject:
    """Hold a memory against fading, and begin its lifetime anew. Raises InvalidInput."""
    memory = _live(transaction, "key_or_id", key_or_id, context)
    stronger = _subject(transaction, memory).strength.reinforce(context.now_s)
    transaction.set_facet("strength", memory.id, stronger.to_json())
    lifetimes.begin_again(transaction, memory, context.now_s)
    return _subject(transaction, memory)


@in_transaction
def used(transaction: Transaction, keys_or_ids: Sequence[str], context: WriteContext, *, succeeded: bool) -> int:
    """Note that memories were of use in something, which `succeeded`. Says how many. Raises InvalidInput, and then
    notes nothing."""
    found = [_live(transaction, "keys_or_ids", name, context) for name in dict.fromkeys(keys_or_ids)]
    memories = {memory.id: memory for memory in found}
    for memory in memories.values():
        alive.note(transaction, memory.id, context.now_s)
        if succeeded:
            after = tiers.succeeded(_subject(transaction, memory).placed(context.tiers), context.now_s)
            transaction.set_facet("tier", memory.id, after.to_json())
    return len(memories)


@in_transaction
def judged(
    transaction: Transaction, key_or_id: str, context: WriteContext, *, predicted: float, actual: float
) -> Placement:
    """Note how useful a memory was against what had been predicted. Raises InvalidInput."""
    memory = _live(transaction, "key_or_id", key_or_id, context)
    before = _subject(transaction, memory).placed(context.tiers)
    after = tiers.surprised(before, context.now_s, predicted=predicted, actual=actual)
    transaction.set_facet("tier", memory.id, after.to_json())
    return after


@in_transaction
def put_away(transaction: Transaction, key_or_id: str, reason: str | None, context: WriteContext) -> Memory:
    """Archive a memory, whatever it is worth; one that rests already stays as it is. Raises InvalidInput."""
    row = write.present(transaction, context.space, key_or_id)
    memory = row.memory
    if row.status is MemoryStatus.ARCHIVED:
        return memory
    if row.status is MemoryStatus.CACHED:
        raise InvalidInput("key_or_id", f"{validation.shown(key_or_id)!r} is only a copy of what the remote holds")
    if _subject(transaction, memory).pinned:
        raise InvalidInput("key_or_id", f"{validation.shown(key_or_id)!r} is pinned, so it stays; unpin it first")
    why = Archived(context.now_s, "request", reason or "somebody asked for it to rest")
    move_to_archive(transaction, {memory.id: why})
    experiences.let_go(transaction, memory)
    return memory


def _live(transaction: Transaction, field: str, key_or_id: str, context: WriteContext) -> Memory:
    row = write.present(transaction, context.space, key_or_id, field)
    if row.status is MemoryStatus.ARCHIVED:
        raise InvalidInput(field, f"{validation.shown(key_or_id)!r} is in the archive; restore it first")
    if lifetimes.is_over(transaction, row, context.now_s):
        raise InvalidInput(field, f"{validation.shown(key_or_id)!r} has ended; restore it first")
    return row.memory


def _subject(transaction: Transaction, memory: Memory) -> Subject:
    row = Row(0, memory, MemoryStatus.LIVE)
    return subject(row, lambda name: transaction.facet(name, memory.id), awaited=False)
