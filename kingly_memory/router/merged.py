"""Which memories were merged into another one that says the same, and which were forgotten together with it.

The facet `merged:<id>` names those that a memory stands for. Only what still lies in the archive for it counts: what
was brought back stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from kingly_memory.ids import MemoryId
from kingly_memory.models import Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import archive

FACET = "merged"
ALONG = "along"
"""The facet `along:<id>` says with which memory one was forgotten that nobody named."""


def add(transaction: Transaction, stands: MemoryId, one: MemoryId) -> None:
    transaction.set_facet(FACET, stands, {"ids": [*_ids(transaction, stands), one]})


def remove(transaction: Transaction, stands: MemoryId, one: str) -> None:
    left = [each for each in _ids(transaction, stands) if each != one]
    transaction.set_facet(FACET, stands, {"ids": left} if left else None)


def clear(transaction: Transaction, stands: MemoryId) -> None:
    """It says something else, and stands for nobody any more."""
    transaction.set_facet(FACET, stands, None)


def resting(transaction: Transaction, stands: MemoryId) -> Iterator[Row]:
    """Those that lie in the archive because it says the same."""
    for row in _rows(transaction, stands, Standing.ARCHIVED):
        if (transaction.facet(archive.FACET, row.memory.id) or {}).get("merged_into") == stands:
            yield row


def forgotten_with(transaction: Transaction, stands: MemoryId) -> Iterator[Row]:
    for row in _rows(transaction, stands, Standing.FORGOTTEN):
        if (transaction.facet(ALONG, row.memory.id) or {}).get("with") == stands:
            yield row


def note_forgotten(transaction: Transaction, memory_id: MemoryId, stands: MemoryId | None) -> None:
    """Write down with which memory one is forgotten; None for one that is forgotten or brought back by itself."""
    transaction.set_facet(ALONG, memory_id, None if stands is None else {"with": stands})


def _rows(transaction: Transaction, stands: MemoryId, standing: Standing) -> Iterator[Row]:
    for memory_id in _ids(transaction, stands):
        row = transaction.row(memory_id)
        if row is not None and row.standing is standing:
            yield row


def _ids(transaction: Transaction, stands: MemoryId) -> list[str]:
    return list((transaction.facet(FACET, stands) or {"ids": []})["ids"])
