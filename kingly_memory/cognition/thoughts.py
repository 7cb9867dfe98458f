"""Thoughts: memories that are the steps of a chain of reasoning, each with the one it follows (seed 004, week 2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kingly_memory import validation
from kingly_memory.cognition.owners import digest
from kingly_memory.dataclass import NamedTuple, dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import Memory, MemoryStatus, Receipt
from kingly_memory.plain import Plain
from kingly_memory.ports import Transaction
from kingly_memory.validation import KEY_LIMIT, Draft

RECORD = "thought"
"""What `metadata.record` of such a memory says, and one of its tags."""

CHAIN_TAG = "chain:"
"""Begins the tag that names the chain."""

FACET = "chain"

MOST_THOUGHTS = 1_000
"""In one chain."""


@dataclass(frozen=True, slots=True)
class Thought(Plain):
    """One step of a chain. `position` counts from 1 in the order of storing; `parent_id` is the thought it follows."""

    DIGITS = None

    id: MemoryId
    chain_id: str
    thought_type: str
    parent_id: MemoryId | None
    position: int
    content: str
    receipt: Receipt


class Chain(NamedTuple):
    """The facet `chain:<owner>`: the last thought of a chain, and the position it has. A chain belongs to a project,
    whichever agent thinks."""

    last: MemoryId
    position: int


class Step(NamedTuple):
    """A validated thought without a place. It names no chain to begin a new one, or to go on in its parent's."""

    draft: Draft
    thought_type: str
    chain_id: str | None
    parent_id: str | None


def step(
    content: object,
    *,
    chain_id: object = None,
    thought_type: object = "inference",
    parent_id: object = None,
    context_id: object = None,
    significance: object = 0.5,
) -> Step:
    """Check what a caller says of a thought. Raises InvalidInput."""
    return Step(
        draft=validation.draft(content, context_id=context_id, significance=significance),
        thought_type=validation.required("thought_type", thought_type),
        chain_id=None if chain_id is None else chain_name(chain_id),
        parent_id=validation.label("parent_id", parent_id),
    )


def chain_name(value: object) -> str:
    """A chain id, short enough for a tag. Raises InvalidInput."""
    name = validation.required("chain_id", value)
    most = KEY_LIMIT - len(CHAIN_TAG)
    if len(name) > most:
        raise InvalidInput("chain_id", f"has {len(name):,} characters, at most {most} are allowed")
    return name


def placed(transaction: Transaction, unplaced: Step, space: str, now: datetime) -> Draft:
    """The memory that a thought is stored as: after its parent, which is the chain's last thought unless another is
    named. Raises InvalidInput."""
    parent = None if unplaced.parent_id is None else _parent(transaction, unplaced, space)
    chain_id = unplaced.chain_id or (None if parent is None else parent.metadata["chain_id"]) or str(new_id(now))
    chain = _chain(transaction.facet(FACET, digest(space, chain_id)))
    if chain is not None and chain.position >= MOST_THOUGHTS:
        raise InvalidInput("chain_id", f"{chain_id!r} has {MOST_THOUGHTS:,} thoughts; begin another chain")
    last = None if chain is None else _last_known(transaction, chain.last)
    return replace(
        unplaced.draft,
        tags=validation.tag_list("thought_type", (RECORD, unplaced.thought_type, CHAIN_TAG + chain_id)),
        metadata={
            "record": RECORD,
            "thought_type": unplaced.thought_type,
            "chain_id": chain_id,
            "parent_id": last if parent is None else parent.id,
            "position": 1 if chain is None else chain.position + 1,
        },
    )


def note(transaction: Transaction, memory: Memory) -> None:
    """If the memory is a thought, its chain goes on after it, unless it has a later one. Thoughts of a file or of
    another machine count too, but for places that no chain has."""
    if not is_thought(memory) or not 1 <= memory.metadata["position"] <= MOST_THOUGHTS:
        return
    owner, position = digest(memory.scope.space, memory.metadata["chain_id"]), memory.metadata["position"]
    last = _chain(transaction.facet(FACET, owner))
    if last is None or last.position < position:
        transaction.set_facet(FACET, owner, Chain(memory.id, position)._asdict())


def thought(memory: Memory, receipt: Receipt) -> Thought:
    """A memory for which `is_thought` holds."""
    fields = {name: memory.metadata[name] for name in ("thought_type", "chain_id", "parent_id", "position")}
    return Thought(id=memory.id, content=memory.content, receipt=receipt, **fields)


def is_thought(memory: Memory) -> bool:
    """True when a memory is a step of a chain, whoever wrote it."""
    fields = memory.metadata
    return (
        fields.get("record") == RECORD
        and isinstance(fields.get("chain_id"), str)
        and isinstance(fields.get("thought_type"), str)
        and isinstance(fields.get("parent_id"), str | None)
        and isinstance(fields.get("position"), int)
    )


def parent_of(memory: Memory) -> MemoryId | None:
    """The thought that a memory follows; None for the first of a chain, and for what is no thought."""
    return memory.metadata["parent_id"] if is_thought(memory) else None


def follows(child: Memory, parent: Memory) -> bool:
    """True when one thought comes after the other, its parent. Positions count up, so none comes after itself."""
    is_its_parent = parent_of(child) == parent.id and is_thought(parent)
    return is_its_parent and bool(parent.metadata["position"] < child.metadata["position"])


def _chain(facet: Mapping[str, Any] | None) -> Chain | None:
    """None for what cannot be read."""
    last, position = (facet or {}).get("last"), (facet or {}).get("position")
    return Chain(MemoryId(last), position) if isinstance(last, str) and isinstance(position, int) else None


def _parent(transaction: Transaction, unplaced: Step, space: str) -> Memory:
    row = None if unplaced.parent_id is None else transaction.row(unplaced.parent_id)
    if row is None or row.memory.scope.space != space or not is_thought(row.memory):
        raise InvalidInput("parent_id", f"{validation.shown(unplaced.parent_id)!r} is no thought of this project")
    if row.status is MemoryStatus.FORGOTTEN:
        raise InvalidInput("parent_id", f"{row.memory.id!r} was forgotten; restore it first")
    if unplaced.chain_id not in (None, row.memory.metadata["chain_id"]):
        raise InvalidInput("parent_id", f"{row.memory.id!r} is a thought of another chain; leave chain_id out")
    return row.memory


def _last_known(transaction: Transaction, memory_id: MemoryId) -> MemoryId | None:
    """The last thought of the chain that was not forgotten."""
    current: MemoryId | None = memory_id
    for _ in range(MOST_THOUGHTS):
        row = None if current is None else transaction.row(current)
        if row is None or not is_thought(row.memory):
            return None
        if row.status is not MemoryStatus.FORGOTTEN:
            return row.memory.id
        current = parent_of(row.memory)
    return None
