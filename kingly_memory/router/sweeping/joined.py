"""Who was joined to a memory that says the same, and who was forgotten with whom. Reads and writes facets alone.

The facet `merged:<id>` names the latest that were joined to a memory, `merged:<id>.<number>` those before them. Only
what still rests in the archive for it counts: whoever was brought back stands for himself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kingly_memory.ids import MemoryId
from kingly_memory.models import Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import archive

FACET = "merged"
ALONG = "along"
"""The facet `along:<id>` says with whom a memory was forgotten that nobody named."""
PAGE = 50


def add(transaction: Transaction, stands: MemoryId, one: MemoryId) -> None:
    latest, pages = _named(transaction, stands)
    if len(latest) == 2 * PAGE:
        transaction.set_facet(FACET, _page(stands, pages), {"ids": latest[:PAGE]})
        latest, pages = latest[PAGE:], pages + 1
    _name(transaction, stands, [*latest, one], pages)


def remove(transaction: Transaction, stands: MemoryId, one: str) -> None:
    latest, pages = _named(transaction, stands)
    for number in reversed(range(pages)) if one not in latest else ():
        page = transaction.facet(FACET, _page(stands, number)) or {"ids": []}
        if one in page["ids"]:
            left = [each for each in page["ids"] if each != one]
            transaction.set_facet(FACET, _page(stands, number), {"ids": left})
            return
    latest = [each for each in latest if each != one]
    while not latest and pages:
        pages -= 1
        latest = (transaction.facet(FACET, _page(stands, pages)) or {"ids": []})["ids"]
        transaction.set_facet(FACET, _page(stands, pages), None)
    _name(transaction, stands, latest, pages)


def clear(transaction: Transaction, stands: MemoryId) -> None:
    """It says something else, and stands for nobody any more."""
    _, pages = _named(transaction, stands)
    for number in range(pages):
        transaction.set_facet(FACET, _page(stands, number), None)
    _name(transaction, stands, [], 0)


def resting(transaction: Transaction, stands: MemoryId) -> Iterator[Row]:
    """Those that lie in the archive because it says the same."""
    for row in _rows(transaction, stands, Standing.ARCHIVED):
        if (transaction.facet(archive.FACET, row.memory.id) or {}).get("merged_into") == stands:
            yield row


def gone_along(transaction: Transaction, stands: MemoryId) -> Iterator[Row]:
    """Those that were forgotten with it."""
    for row in _rows(transaction, stands, Standing.FORGOTTEN):
        if (transaction.facet(ALONG, row.memory.id) or {}).get("with") == stands:
            yield row


def note_along(transaction: Transaction, memory_id: MemoryId, stands: MemoryId | None) -> None:
    """Write down with whom a memory is forgotten; None for a memory that is forgotten or brought back by itself."""
    transaction.set_facet(ALONG, memory_id, None if stands is None else {"with": stands})


def _rows(transaction: Transaction, stands: MemoryId, standing: Standing) -> Iterator[Row]:
    latest, pages = _named(transaction, stands)
    earlier = (transaction.facet(FACET, _page(stands, number)) or {"ids": []} for number in range(pages))
    for memory_id in [*(one for page in earlier for one in page["ids"]), *latest]:
        row = transaction.row(memory_id)
        if row is not None and row.standing is standing:
            yield row


def _named(transaction: Transaction, stands: MemoryId) -> tuple[list[str], int]:
    """The latest, and how many pages there are of those before."""
    facet = transaction.facet(FACET, stands) or {}
    return list(facet.get("ids", ())), facet.get("pages", 0)


def _name(transaction: Transaction, stands: MemoryId, latest: Sequence[str], pages: int) -> None:
    value = {"ids": list(latest), **({"pages": pages} if pages else {})}
    transaction.set_facet(FACET, stands, value if latest else None)


def _page(stands: MemoryId, number: int) -> str:
    return f"{stands}.{number}"
