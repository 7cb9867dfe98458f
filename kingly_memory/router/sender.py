"""Sending one memory to the remote, and writing down what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from kingly_memory.errors import RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState
from kingly_memory.observe import DeliveryFailed, Events, MemoryDelivered, MemorySent
from kingly_memory.ports import Clock, LocalStore, Remote, Transaction
from kingly_memory.router import delivery, outbox
from kingly_memory.router.delivery import Delivery
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.outbox import Parcel
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.delivery")
T = TypeVar("T")

LONGEST_S = 300.0
"""Neither a wait nor a lease is longer: the store takes what is due further ahead for a clock that went back."""


class Sender:
    """Leases memories for one remote and sends them, as process `owner` of this machine."""

    def __init__(
        self,
        name: str,
        owner: str,
        *,
        store: LocalStore,
        remote: Remote,
        link: LinkKeeper,
        clock: Clock,
        settings: Settings,
        events: Events,
        chance: Callable[[], float],
    ) -> None:
        self._name = name
        self._owner = owner
        self._store = store
        self._remote = remote
        self._link = link
        self._clock = clock
        self._settings = settings
        self._events = events
        self._chance = chance
        self._quiet_until = 0.0

    @property
    def may_send(self) -> bool:
        """False while the link is offline or the remote has asked for a pause."""
        return self._link.is_connected and self._clock.monotonic() >= self._quiet_until

    def end_pause(self) -> None:
        """The user does not want to wait for as long as the remote has asked."""
        self._quiet_until = 0.0

    def is_anything_due(self) -> bool:
        """A look without a write, so that polling costs the disk nothing."""
        due = self._store.reader.next_due_s(self._name)
        now_s = self._now_s()
        return due is not None and (due <= now_s or due > now_s + LONGEST_S + 1)

    def facet(self, memory_id: MemoryId) -> Delivery | None:
        """Where the memory stands with this remote."""
        owner = f"{self._name}:{memory_id}"
        found = self._store.reader.facets("delivery", [owner])
        return Delivery.from_json(found[owner]) if found else None

    def is_outdated(self, parcel: Parcel) -> bool:
        """The memory was revised or forgotten while it waited for the others of its lease: this must not be sent."""
        return self.facet(parcel.memory.id) != parcel.leased

    async def claim(self, early: bool, failed: Collection[MemoryId]) -> list[Parcel]:
        """Lease what is due (or, `early`, whatever waits), but nothing of what has failed already."""
        settings = self._settings
        return await self._write(
            outbox.claim(
                self._name,
                self._owner,
                self._now_s(),
                limit=settings.lease_size,
                lease_s=min(settings.lease_s, LONGEST_S),
                early=early,
                failed=failed,
            )
        )

    async def send(self, parcel: Parcel) -> bool:
        """Send one, write down the outcome, and say whether the remote has taken it."""
        try:
            async with self._link.asking():
                remote_id = await self._call(parcel)
        except RemoteUnavailable as error:
            await self._postpone(parcel, error)
        except RemoteUnauthorised as error:
            await self._settle(parcel, partial(delivery.postponed, reason=error.reason, due=parcel.place))
            await self._link.failed(error)
        except RemoteRefused as error:
            await self._link.succeeded()
            await self._refuse(parcel, error)
        except asyncio.CancelledError:
            interrupted = partial(delivery.postponed, reason="interrupted while sending", due=parcel.place)
            await asyncio.shield(self._settle(parcel, interrupted))
            raise
        else:
            await self._link.succeeded()
            self._events.emit(MemorySent(parcel.memory.id))
            await self._acknowledge(parcel, remote_id)
            return True
        return False

    async def release(self, parcels: list[Parcel]) -> None:
        """Give back what was leased and not sent, so that nobody has to wait for the lease to lapse."""
        if parcels:
            await asyncio.shield(self._write(outbox.give_back(self._name, parcels, self._owner)))

    async def reclaim(self, memory_ids: list[MemoryId]) -> None:
        """Take back what a process leased that no longer delivers."""
        await self._write(outbox.reclaim(self._name, memory_ids, self._owner, self._now_s()))

    async def hasten(self, memory_ids: list[MemoryId]) -> None:
        """Make them due now, for whoever delivers."""
        await self._write(outbox.retry(self._name, memory_ids, self._now_s()))

    async def _call(self, parcel: Parcel) -> str | None:
        known, key = parcel.leased.remote_id, parcel.idempotency_key
        if parcel.forgotten:
            return await self._remote.forget(parcel.memory, remote_id=known, idempotency_key=key)
        return await self._remote.store(parcel.memory, idempotency_key=key, remote_id=known, repeated=parcel.repeated)

    async def _acknowledge(self, parcel: Parcel, remote_id: str | None) -> None:
        now_s = self._now_s()
        await self._settle(parcel, lambda facet: delivery.acknowledged(facet, parcel.confirms, remote_id, now_s))
        self._events.emit(MemoryDelivered(parcel.memory.id, remote_id))

    async def _postpone(self, parcel: Parcel, error: RemoteUnavailable) -> None:
        """The remote could not: the memory waits, and a Retry-After holds everybody back."""
        if error.retry_after_s is None:
            await self._link.failed(error, tries=1 if error.reached else self._settings.send_tries)
        due = self._due_after(parcel, error.retry_after_s)
        if error.retry_after_s:
            self._quiet_until = self._clock.monotonic() + due - self._now_s()
        await self._settle(parcel, lambda facet: delivery.postponed(facet, error.reason, due))
        self._complain(parcel, error.reason, dead=False)

    async def _refuse(self, parcel: Parcel, error: RemoteRefused) -> None:
        due, limit, sent = self._due_after(parcel), self._settings.refusals_limit, parcel.leased.wanted
        moved = await self._settle(
            parcel, lambda facet: delivery.refused(facet, sent, error.reason, clear=error.clear, limit=limit, due=due)
        )
        self._complain(parcel, error.reason, dead=moved is not None and moved.state is DeliveryState.DEAD)

    def _due_after(self, parcel: Parcel, wished_s: float | None = None) -> float:
        """When to try again: as the remote wished, else backed off. A Retry-After of 0 is no wish for a storm.

        What met the outage first keeps its place: it waits for the link, and goes before what was stored later. If it
        brings the link down again it may be the cause, and lets the others pass.
        """
        if parcel.leased.attempts == 0 and not self._link.is_connected:
            return parcel.place
        longest_s = min(self._settings.longest_wait_s, LONGEST_S)
        backed_off_s = delivery.backoff_s(parcel.leased.attempts, longest_s, self._chance())
        return self._now_s() + min(wished_s or backed_off_s, longest_s)

    async def _settle(self, parcel: Parcel, move: Callable[[Delivery], Delivery]) -> Delivery | None:
        return await self._write(outbox.settle(self._name, parcel, self._owner, move))

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        return await asyncio.wrap_future(self._store.write(change))

    def _complain(self, parcel: Parcel, reason: str, *, dead: bool) -> None:
        name = parcel.memory.key or parcel.memory.id
        fate = "gave up (see `kingly-memory outbox list`)" if dead else "will try again"
        log.warning("delivery of %r failed, %s: %s", name, fate, reason)
        self._events.emit(DeliveryFailed(parcel.memory.id, parcel.memory.key, reason, dead))

    def _now_s(self) -> float:
        return self._clock.now().timestamp()
