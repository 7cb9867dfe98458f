"""What users say of memories after reading them, as changes: reinforced, used, useful or not, to be put away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import new_id
from kingly_memory.lifecycle import tiers
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tiers import Placement, TierRules
from kingly_memory.models import Memory, Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import editions, lifetimes, usage, write
from kingly_memory.router.archive import Archived, shelve
from kingly_memory.router.subjects import subject
from kingly_memory.router.usage import Used
from kingly_memory.router.write import WriteContext

REQUEST = "request"
"""Who put a memory away, where `archived` says so, when somebody asked for it."""
ASKED = "somebody asked for it to rest"


def reinforce(key_or_id: str, desk: WriteContext) -> Callable[[Transaction], Subject]:
    """Hold a memory against fading, and begin its lifetime anew. Raises InvalidInput."""

    def change(transaction: Transaction) -> Subject:
        memory = _live(transaction, "key_or_id", key_or_id, desk).memory
        stronger = _subject(transaction, memory).strength.reinforce(desk.now_s)
        transaction.set_facet("strength", memory.id, stronger.to_json())
        lifetimes.begin_again(transaction, memory, desk.now_s)
        return _subject(transaction, memory)

    return change


def used(
    keys_or_ids: Sequence[str], desk: WriteContext, rules: TierRules, *, succeeded: bool
) -> Callable[[Transaction], int]:
    """Note that memories were of use in something, which `succeeded`. Says how many. Raises InvalidInput, and then
    notes nothing."""

    def change(transaction: Transaction) -> int:
        found = [_live(transaction, "keys_or_ids", name, desk).memory for name in dict.fromkeys(keys_or_ids)]
        memories = {memory.id: memory for memory in found}
        for memory in memories.values():
            usage.note(transaction, memory.id, Used(1, desk.now_s))
            if succeeded:
                _place(transaction, memory, tiers.succeeded(_placement(transaction, memory, rules), desk.now_s))
        return len(memories)

    return change


def judged(
    key_or_id: str, desk: WriteContext, rules: TierRules, *, predicted: float, actual: float
) -> Callable[[Transaction], Placement]:
    """Note how useful a memory was against what had been predicted. Raises InvalidInput."""

    def change(transaction: Transaction) -> Placement:
        memory = _live(transaction, "key_or_id", key_or_id, desk).memory
        before = _placement(transaction, memory, rules)
        after = tiers.surprised(before, desk.now_s, predicted=predicted, actual=actual, rules=rules)
        _place(transaction, memory, after)
        return after

    return change


def put_away(key_or_id: str, reason: str | None, desk: WriteContext) -> Callable[[Transaction], Memory]:
    """Archive a memory, whatever it is worth; one that rests already stays as it is. Raises InvalidInput."""

    def change(transaction: Transaction) -> Memory:
        row = _found(transaction, "key_or_id", key_or_id, desk)
        memory = row.memory
        if row.standing is Standing.ARCHIVED:
            return memory
        if row.standing is Standing.CACHED:
            raise InvalidInput("key_or_id", f"{intake.shown(key_or_id)!r} is only a copy of what the remote holds")
        if _subject(transaction, memory).pinned:
            raise InvalidInput("key_or_id", f"{intake.shown(key_or_id)!r} is pinned, so it stays; unpin it first")
        shelve(transaction, {memory.id: Archived(desk.now_s, REQUEST, reason or ASKED)})
        editions.renew(transaction, memory, new_id(desk.now))
        return memory

    return change


def _found(transaction: Transaction, field: str, key_or_id: str, desk: WriteContext) -> Row:
    row = write.find(transaction, desk.project, key_or_id)
    if row is None or row.standing is Standing.FORGOTTEN:
        raise InvalidInput(field, f"nothing is stored under {intake.shown(key_or_id)!r} in this project")
    return row


def _live(transaction: Transaction, field: str, key_or_id: str, desk: WriteContext) -> Row:
    row = _found(transaction, field, key_or_id, desk)
    if row.standing is Standing.ARCHIVED:
        raise InvalidInput(field, f"{intake.shown(key_or_id)!r} is in the archive; restore it first")
    if lifetimes.is_over(transaction, row, desk.now_s):
        raise InvalidInput(field, f"{intake.shown(key_or_id)!r} has ended; restore it first")
    return row


def _subject(transaction: Transaction, memory: Memory) -> Subject:
    row = Row(0, memory, Standing.LIVE)
    return subject(row, lambda name: transaction.facet(name, memory.id), awaited=False)


def _placement(transaction: Transaction, memory: Memory, rules: TierRules) -> Placement:
    return tiers.told_placement(transaction.facet("tier", memory.id), memory, rules)


def _place(transaction: Transaction, memory: Memory, placement: Placement) -> None:
    transaction.set_facet("tier", memory.id, placement.to_json())
