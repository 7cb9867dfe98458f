"""Sending one memory to the remote."""

from __future__ import annotations

from collections.abc import Collection

from kingly_memory.cognition import thoughts
from kingly_memory.observe import (
    DeliveryFailed,
    DeliveryStarted,
    MemoriesLeased,
    MemoryDelivered,
    MemorySent,
)
from kingly_memory.ports import Transaction
from kingly_memory.router.delivering import delivery, memory_links, outbox
from kingly_memory.router.delivering.courier import Courier, Depot
from kingly_memory.router.delivering.outbox import Parcel


class Sender(Courier[Parcel]):
    """Leases memories for one remote and sends them, the earliest due first."""

    remedy = "see `kingly-memory outbox list --remote …`"

    def __init__(self, depot: Depot) -> None:
        super().__init__(depot.name, depot)

    async def claim(self, early: bool, failed: Collection[str]) -> list[Parcel]:
        self._events.emit(DeliveryStarted(self._depot.name))
        parcels = await self._write(
            outbox.claim(
                self._outbox,
                self._depot.owner,
                self._now_s(),
                limit=self._settings.lease_size,
                lease_s=self._lease_s,
                early=early,
                failed=failed,
                is_for=self._depot.is_for,
            )
        )
        self._events.emit(MemoriesLeased(tuple(parcel.id for parcel in parcels)))
        return parcels

    def row(self, parcel: Parcel) -> str:
        """A context is told in order, and so is what was said in none."""
        scope = parcel.memory.scope
        return f"{scope.project}\n{scope.context_id or ''}"

    def follows(self, parcel: Parcel) -> str | None:
        """A thought goes after the one before it."""
        return thoughts.parent_of(parcel.memory) if thoughts.is_thought(parcel.memory) else None

    def is_outdated(self, parcel: Parcel) -> bool:
        """So is a thought whose parent, leased before it, could not be delivered: it waits for that one."""
        return super().is_outdated(parcel) or self._waits(parcel)

    def _waits(self, parcel: Parcel) -> bool:
        memory, is_there = parcel.memory, parcel.leased.remote_id is not None
        parent = thoughts.parent_of(memory) if thoughts.is_thought(memory) else None
        if parcel.forgotten or is_there or parent is None:
            return False
        return outbox.is_awaited(self._store.reader.row(parent), self.facet(parent), memory)

    async def _bring(self, parcel: Parcel) -> str | None:
        memory, known, key = parcel.memory, parcel.leased.remote_id, parcel.idempotency_key
        if parcel.forgotten:
            return await self._remote.forget(memory, remote_id=known, idempotency_key=key)
        if known is None and thoughts.is_thought(memory):
            parent = thoughts.parent_of(memory)
            facet = None if parent is None else self.facet(parent)
            return await self._remote.record_thought(
                memory,
                parent_remote_id=None if facet is None else facet.remote_id,
                idempotency_key=key,
                repeated=parcel.repeated,
            )
        return await self._remote.store(memory, idempotency_key=key, remote_id=known, repeated=parcel.repeated)

    async def _acknowledge(self, parcel: Parcel, remote_id: str | None) -> None:
        """In the same transaction its links become due that have waited for it."""
        self._events.emit(MemorySent(parcel.id))
        now_s = self._now_s()
        settle = outbox.settle(
            self._outbox,
            parcel,
            self._depot.owner,
            lambda facet: delivery.acknowledged(facet, parcel.confirms, remote_id, now_s),
        )

        def change(transaction: Transaction) -> None:
            if settle(transaction) is not None and not parcel.forgotten:
                was_elsewhere = parcel.leased.remote_id not in (None, remote_id)
                memory_links.arrived(transaction, self._outbox, parcel.id, now_s, moved=was_elsewhere)

        await self._write(change)
        self._events.emit(MemoryDelivered(parcel.id, remote_id))

    def _complain(self, parcel: Parcel, reason: str, *, dead: bool) -> None:
        super()._complain(parcel, reason, dead=dead)
        self._events.emit(DeliveryFailed(parcel.id, parcel.memory.key, reason, dead))
