"""What a mind holds, in the store: each item is a memory, and one facet says which of them are where."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kingly_memory import intake
from kingly_memory.cognition.experience.episodes import Kept
from kingly_memory.cognition.experience.holdings import Holdings
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import EXPERIENCE, JsonObject, Memory, MemoryType, Standing
from kingly_memory.ports import MemoryReader, Row, Transaction
from kingly_memory.router import write
from kingly_memory.router.archive import Archived, shelve
from kingly_memory.router.editions import FACET, owner
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")

POLICY = "mind"
REASONS = {
    MemoryType.WORKING: "it left the working memory of its agent",
    MemoryType.EPISODIC: "it left the episodes of its agent",
}


class Moved(Exception):
    """Somebody else has changed the mind since it was read; nothing was written."""


class Loaded(NamedTuple):
    """A mind as the store has it. `edition` names its last change, None for a mind that is new."""

    edition: str | None
    holdings: Holdings


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a mind: from the edition `expected` to `edition`, which holds `holdings`.

    `new` is what was experienced; `types` are those of memories that went from working memory to the episodes or back,
    `left` what the memories were that are in neither any more.
    """

    agent_id: str
    expected: str | None
    edition: str
    holdings: Holdings
    new: Memory | None
    types: Mapping[MemoryId, MemoryType]
    left: Mapping[MemoryId, MemoryType]


def memory_of(item: MemoryItem, agent_id: str, desk: WriteContext, *, content_limit_bytes: int) -> Memory:
    """The record of an experience that has an id. Raises InvalidInput."""
    draft = intake.draft(
        item.content,
        content_limit_bytes=content_limit_bytes,
        type=MemoryType.WORKING.value,
        significance=item.importance,
        tags=item.tags,
        agent=agent_id,
        metadata={"record": EXPERIENCE, "year": item.year},
    )
    return draft.memory(MemoryId(item.id or ""), desk.project, created_at=item.timestamp, updated_at=desk.now)


def types_of(held: Holdings) -> dict[MemoryId, MemoryType]:
    """What is remembered as an episode is one, whether or not it is in working memory too."""
    types = {MemoryId(item.id or ""): MemoryType.WORKING for _, item in held.working}
    return types | {MemoryId(item.id or ""): MemoryType.EPISODIC for _, item in held.episodic}


def keep(step: Step, desk: WriteContext) -> Callable[[Transaction], None]:
    """Write a change down. Raises Moved."""

    def change(transaction: Transaction) -> None:
        name = owner(desk.project, step.agent_id)
        before = transaction.facet(FACET, name) or {}
        if before.get("edition") != step.expected:
            raise Moved
        if step.new is not None:
            write.revise(transaction, step.new, desk)
        for memory_id, kind in step.types.items():
            _retype(transaction, memory_id, kind, desk)
        leaving = {one: _why(kind, desk) for one, kind in step.left.items() if _is_live(transaction.row(one))}
        if leaving:
            shelve(transaction, leaving)
        transaction.set_facet(FACET, name, _to_json(step))

    return change


def load(reader: MemoryReader, project: str, agent_id: str) -> Loaded:
    """The mind without what was forgotten, erased or archived by others meanwhile. Raises StoreError."""
    name = owner(project, agent_id)
    facet = reader.facets(FACET, [name]).get(name)
    if facet is None:
        return Loaded(None, Holdings())
    try:
        return Loaded(facet.get("edition"), _from_json(facet, reader, project, agent_id))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        log.warning("what a mind holds cannot be read, so it begins empty; its memories are there: %s", error)
        return Loaded(facet.get("edition"), Holdings())


def _retype(transaction: Transaction, memory_id: MemoryId, kind: MemoryType, desk: WriteContext) -> None:
    row = transaction.row(memory_id)
    if row is None or not _is_live(row) or row.memory.type is kind:
        return
    after = replace(row.memory, type=kind, updated_at=desk.now, revision=row.memory.revision + 1)
    write.revise(transaction, after, desk)


def _why(kind: MemoryType, desk: WriteContext) -> Archived:
    return Archived(desk.now_s, POLICY, REASONS[kind])


def _is_live(row: Row | None) -> bool:
    return row is not None and row.standing is Standing.LIVE


def _to_json(step: Step) -> JsonObject:
    held = step.holdings
    items = list({item.id: order for order, item in (*held.working, *held.episodic)}.items())
    places = {memory_id: place for place, (memory_id, _) in enumerate(items)}
    return {
        "agent_id": step.agent_id,
        "edition": step.edition,
        "latest_year": held.latest_year,
        "items": [list(one) for one in items],
        "working": [places[item.id] for _, item in held.working],
        "episodic": [places[item.id] for _, item in held.episodic],
    }


def _from_json(facet: Mapping[str, Any], reader: MemoryReader, project: str, agent_id: str) -> Holdings:
    kept = [_kept(reader.row(memory_id), order, project, agent_id) for memory_id, order in facet["items"]]
    working, episodic = (
        tuple(one for place in facet[name] if (one := kept[place]) is not None) for name in ("working", "episodic")
    )
    return Holdings(facet["latest_year"], working, episodic)


def _kept(row: Row | None, order: int, project: str, agent_id: str) -> Kept | None:
    if row is None or not _is_live(row):
        return None
    memory = row.memory
    if (memory.scope.project, memory.scope.agent) != (project, agent_id):
        return None
    try:
        year = memory.metadata.get("year", 0)
        item = MemoryItem(memory.content, memory.significance, year, memory.created_at, list(memory.tags), memory.id)
    except InvalidInput:
        return None
    return Kept(order, item)
