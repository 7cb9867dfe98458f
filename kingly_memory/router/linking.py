"""Links between memories and chains of thoughts: making them, as changes on the store, and reading them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kingly_memory import validation
from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.links import Link, LinkDraft
from kingly_memory.cognition.thoughts import Step, Thought
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Query
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
    names = (("source", source), ("target", target))
    start, end = (write.present(transaction, context.space, name, field).memory.id for field, name in names)
    if start == end:
        raise InvalidInput("target", "is the source itself; a link joins two memories")
    link, is_news = links.write(transaction, start, end, draft, created_at or context.now)
    for remote in known_remotes.remotes_for_links(transaction, context.space, context.routes):
        outbox.want_link(transaction, remote, link, context.now_s, is_news=is_news)
    return link, is_news


@in_transaction
def record(transaction: Transaction, step: Step, context: WriteContext) -> tuple[Thought, Stored]:
    """Store a thought at the end of its chain, or as the first of a new one. Raises InvalidInput."""
    draft = thoughts.placed(transaction, step, context.space, context.now)
    stored = write.store(draft, context)(transaction)
    receipt = stored.receipt
    memory = draft.memory(receipt.id, context.space, created_at=context.now, updated_at=context.now)
    return thoughts.thought(memory, receipt), stored


def chain(reader: StoreReader, station: Station, chain_id: str) -> tuple[Thought, ...]:
    """The thoughts of a chain in the order they were stored, archived ones included. Raises InvalidInput."""
    name = thoughts.chain_name(chain_id)
    query = Query("", station.space, tags=(thoughts.RECORD, thoughts.CHAIN_TAG + name))
    found = (row.memory for row in pages(reader, query))
    memories = [memory for memory in found if thoughts.is_thought(memory) and memory.metadata["chain_id"] == name]
    if not memories:
        raise InvalidInput("chain_id", f"{validation.shown(chain_id)!r} has no thoughts in this project")
    there = reader.deliveries([route.name for route in station.remotes], [memory.id for memory in memories])
    each = ((memory, {remote: of_remote.get(memory.id) for remote, of_remote in there.items()}) for memory in memories)
    return tuple(thoughts.thought(memory, receipt_of(memory, status, station.routes)) for memory, status in each)
