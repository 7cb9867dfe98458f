"""Links between memories and chains of thoughts: making them, as changes on the store, and reading them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kingly_memory import validation
from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.links import Link, LinkDraft
from kingly_memory.cognition.thoughts import Chain, Step, Thought
from kingly_memory.errors import InvalidInput, NothingUnder
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryStatus, Query
from kingly_memory.ports import StoreReader, Transaction, in_transaction
from kingly_memory.router import write
from kingly_memory.router.delivery import known_remotes, outbox
from kingly_memory.router.delivery.routes import receipt_of
from kingly_memory.router.view import Station, pages
from kingly_memory.router.write import Stored, WriteContext


def link(source: str, target: str, draft: LinkDraft, context: WriteContext) -> Callable[[Transaction], Link]:
    """Link two of the project's memories, each named by key or id. Every remote that has both ends is told of it.
    Raises InvalidInput."""
    return lambda transaction: linked(transaction, source, target, draft, context)[0]


def linked(
    transaction: Transaction,
    source: str,
    target: str,
    draft: LinkDraft,
    context: WriteContext,
    *,
    created_at: datetime | None = None,
) -> tuple[Link, bool]:
    """The same inside a change; and whether anything about the link is new."""
    ends = (_end(transaction, "source", source, context), _end(transaction, "target", target, context))
    if ends[0] == ends[1]:
        raise InvalidInput("target", "is the source itself; a link joins two memories")
    link, is_news = links.write(transaction, *ends, draft, created_at or context.now)
    for remote in known_remotes.remotes_for_links(transaction, context.space, context.routes):
        outbox.want_link(transaction, remote, link, context.now_s, is_news=is_news)
    return link, is_news


@in_transaction
def record(transaction: Transaction, step: Step, context: WriteContext, found: Chain | None) -> tuple[Thought, Stored]:
    """Store a thought at the end of its chain, or as the first of a new one. Raises InvalidInput."""
    draft = thoughts.placed(transaction, step, context.space, context.now, found)
    stored = write.store(draft, context)(transaction)
    receipt = stored.receipt
    memory = draft.memory(receipt.id, context.space, created_at=context.now, updated_at=context.now)
    thoughts.note(transaction, context.space, memory)
    return thoughts.thought(memory, receipt), stored


def _end(transaction: Transaction, field: str, key_or_id: str, context: WriteContext) -> MemoryId:
    row = write.find_own(transaction, context.space, key_or_id, field)
    if row is None:
        raise NothingUnder(key_or_id, field=field)
    if row.status is MemoryStatus.FORGOTTEN:
        raise InvalidInput(field, f"{validation.shown(key_or_id)!r} was forgotten; restore it first")
    return row.memory.id


def chain(reader: StoreReader, station: Station, chain_id: str) -> tuple[Thought, ...]:
    """The thoughts of a chain in the order they were stored, archived ones included. Raises InvalidInput."""
    memories = _chain(reader, station.space, thoughts.chain_name(chain_id))
    if not memories:
        raise InvalidInput("chain_id", f"{validation.shown(chain_id)!r} has no thoughts in this project")
    found = reader.deliveries([route.name for route in station.remotes], [memory.id for memory in memories])
    each = ((memory, {name: of_remote.get(memory.id) for name, of_remote in found.items()}) for memory in memories)
    return tuple(thoughts.thought(memory, receipt_of(memory, status, station.routes)) for memory, status in each)


def end_of_chain(reader: StoreReader, space: str, step: Step) -> Chain | None:
    """Where the thought's chain ends, if that came from a file and is not noted yet."""
    chain_id = step.chain_id
    if chain_id is None and step.parent_id is not None:
        row = reader.row(step.parent_id)
        is_thought = row is not None and thoughts.is_thought(row.memory)
        chain_id = row.memory.metadata["chain_id"] if row is not None and is_thought else None
    if chain_id is None or thoughts.is_noted(reader, space, chain_id):
        return None
    return thoughts.end_of(_chain(reader, space, chain_id))


def _chain(reader: StoreReader, space: str, chain_id: str) -> list[Memory]:
    query = Query("", space, tags=(thoughts.RECORD, thoughts.CHAIN_TAG + chain_id))
    found = (row.memory for row in pages(reader, query))
    return [memory for memory in found if thoughts.is_thought(memory) and memory.metadata["chain_id"] == chain_id]
