"""Recording a thought as a change: its place in the chain and the memory it is, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kingly_memory.cognition import thoughts
from kingly_memory.cognition.thoughts import Chain, Step, Thought
from kingly_memory.ports import Transaction
from kingly_memory.router import write
from kingly_memory.router.write import Stored, WriteContext


@dataclass(frozen=True, slots=True)
class Recorded:
    """A thought, and what storing it has brought about."""

    thought: Thought
    stored: Stored


def record(said: Step, desk: WriteContext, found: Chain | None) -> Callable[[Transaction], Recorded]:
    """Store the thought at the end of its chain, or as the first of a new one. Raises InvalidInput."""

    def change(transaction: Transaction) -> Recorded:
        where = thoughts.place(transaction, said, desk.project, desk.now, found)
        draft = thoughts.placed(said, where)
        stored = write.store(draft, desk)(transaction)
        thoughts.note(transaction, desk.project, where, stored.receipt.id)
        thought = Thought(
            id=stored.receipt.id,
            chain_id=where.chain_id,
            thought_type=said.thought_type,
            parent_id=where.parent_id,
            position=where.position,
            content=draft.content,
            receipt=stored.receipt,
        )
        return Recorded(thought, stored)

    return change
