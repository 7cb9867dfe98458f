"""Erasing: a memory goes with all that lies beside it, and nothing brings it back."""

from __future__ import annotations

from kingly_memory.cognition import links
from kingly_memory.ids import MemoryId
from kingly_memory.ports import Transaction
from kingly_memory.router.delivery.moves import outbox_of_links
from kingly_memory.router.delivery.outbox import link_item, marks_item


def erase(transaction: Transaction, memory_id: MemoryId) -> None:
    """Remove the memory, its links and its facets. Its deliveries stay: the caller says what becomes of them."""
    beside = [marks_item(memory_id), *map(link_item, links.of(transaction, memory_id))]
    for remote in transaction.owners("remote"):
        for item_id in beside:
            transaction.set_delivery(outbox_of_links(remote), item_id, None)
    links.sever(transaction, memory_id)
    transaction.erase(memory_id)
    transaction.drop_facets(memory_id)
