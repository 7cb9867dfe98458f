"""When memories end: the facet `lifetime:<id>`, and what changes it. The rules are in `lifecycle.lifetimes`."""

from __future__ import annotations

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.ports import Lookups, Row, Transaction
from kingly_memory.validation import Imported

_FACET = "lifetime"


def lifetime_of(lookups: Lookups, memory_id: str) -> Lifetime | None:
    facet = lookups.facet(_FACET, memory_id)
    return None if facet is None else Lifetime.from_json(facet)


def put(transaction: Transaction, memory_id: str, lifetime: Lifetime | None) -> None:
    transaction.set_facet(_FACET, memory_id, None if lifetime is None else lifetime.to_json())


def is_over(transaction: Transaction, row: Row, now_s: float) -> bool:
    """Whether a live memory waits for a sweep to take it away."""
    return row.status is MemoryStatus.LIVE and is_expired(lifetime_of(transaction, row.memory.id), now_s)


def begin(
    transaction: Transaction, memory: Memory, lifetime: Lifetime | None, now_s: float, *, is_new: bool = False
) -> Lifetime | None:
    """Lifetimes count from now, not from `created_at`: what is imported from last year is new to this store. What is
    pinned has none. `is_new`: nothing can lie beside the memory yet."""
    pinned = not is_new and is_pinned(transaction, memory.id)
    begun = None if lifetime is None else lifetime.begun(memory, now_s, is_pinned=pinned)
    if begun is not None or not is_new:
        put(transaction, memory.id, begun)
    return begun


def begin_again(transaction: Transaction, memory: Memory, now_s: float) -> None:
    """Of what is restored, unpinned or reinforced."""
    begin(transaction, memory, lifetime_of(transaction, memory.id), now_s)


def stop(transaction: Transaction, memory_id: str) -> None:
    """What is out of sight or pinned does not end. That of a type or kind counts anew when it comes back."""
    lifetime = lifetime_of(transaction, memory_id)
    if lifetime is not None:
        put(transaction, memory_id, lifetime.stopped())


def renew(transaction: Transaction, memory_id: str, used_s: float) -> None:
    """A use puts off the end of what slides."""
    lifetime = lifetime_of(transaction, memory_id)
    if lifetime is not None and lifetime.slides:
        put(transaction, memory_id, lifetime.used(used_s))


def in_file(item: Imported) -> Lifetime | None:
    """What a file says: the end of an export, else a lifetime that counts from the import on."""
    if item.ends_at is None and item.lifetime_s is None:
        return None
    return Lifetime(None if item.ends_at is None else item.ends_at.timestamp(), item.lifetime_s)


def differs(transaction: Transaction, item: Imported, named: Lifetime | None, before: Row | None) -> bool:
    """Whether a file names another end, or another lifetime, than a live memory has here."""
    names_an_end = item.ends_at is not None or item.lifetime_s is not None or "ttl" not in item.draft.unsaid
    if not names_an_end or before is None or before.status is not MemoryStatus.LIVE:
        return False
    if is_pinned(transaction, before.memory.id):
        return False
    here = lifetime_of(transaction, before.memory.id)
    if named is None or here is None:
        return named is not here
    return named.sliding_s != here.sliding_s or (named.sliding_s is None and named.ends_at != here.ends_at)


def is_pinned(transaction: Transaction, memory_id: MemoryId) -> bool:
    return (transaction.facet("attention", memory_id) or {}).get("pinned") is True
