"""Delivery: the background task that empties the outbox. One process leads; leases are the belt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kingly_memory.errors import RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import DeliveryState, JsonObject, LinkState, MemoryId
from kingly_memory.observe import (
    DeliveryFailed,
    DeliveryStarted,
    Events,
    MemoriesLeased,
    MemoryDelivered,
    MemorySent,
)
from kingly_memory.ports import Clock, LocalStore, Remote, Transaction
from kingly_memory.router import delivery, outbox
from kingly_memory.router.delivery import Delivery
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.outbox import Parcel
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.delivery")
T = TypeVar("T")

SLOWER = 10
"""How many polls apart a process looks that does not lead, or that has just met trouble."""
MOST_STALE = 1_000
LONGEST_S = 300.0
"""Neither a wait nor a lease is longer: the store takes what is due further ahead for a clock that went back."""
POLITE_S = 0.002
"""Between two looks while closing."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `sync` achieved. `reason` says why something is still waiting, or is None when nothing is."""

    delivered: int
    pending: int
    dead: int
    link: LinkState
    reason: str | None

    def to_json(self) -> JsonObject:
        return {
            "delivered": self.delivered,
            "pending": self.pending,
            "dead": self.dead,
            "link": self.link.value,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of one lease: how many memories it held, and which of them were tried in vain."""

    size: int
    failed: frozenset[MemoryId]


class Drainer:
    """Sends what is due to one remote, one memory at a time and oldest first."""

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
        leads: Callable[[], bool],
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
        self._leads = leads
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._quiet_until = 0.0
        self._leading = False
        self._next_look_s = 0.0

    def wake(self) -> None:
        """Something was stored: look at once."""
        self._wake.set()

    async def run(self) -> None:
        """Work for as long as the router is open."""
        await self._guarded(self._first_contact())
        while True:
            self._next_look_s = self._settings.poll_s * SLOWER  # should the round meet trouble
            await self._guarded(self._round())
            await self._clock.wait(self._wake, self._next_look_s)

    async def sync(self, timeout_s: float) -> SyncReport:
        """Probe now, then send everything that waits, due or not, until it is done or the time is over."""
        end = self._clock.monotonic() + timeout_s
        before = self._waiting()
        if await self._link.probe(self._remote, forced=True):
            if await self._lead():
                await self._drain_all(end)
            else:
                await self._have_it_drained(end)
        return self._report(before)

    async def until_idle(self) -> None:
        """Wait while there is something to send and a remote to send it to."""
        while self._is_open_for_sending() and (self._turn.locked() or self._is_anything_due()):
            self.wake()
            await asyncio.sleep(POLITE_S)

    async def wait_for(self, memory_id: MemoryId, seconds: float) -> Delivery | None:
        """The facet once it is at rest, or as it is when the seconds are over or the link is offline."""
        end = self._clock.monotonic() + seconds
        self.wake()
        while True:
            self._settled.clear()
            facet = self._facet(memory_id)
            left = end - self._clock.monotonic()
            at_rest = facet is None or facet.state in (DeliveryState.DELIVERED, DeliveryState.DEAD)
            if at_rest or left <= 0 or not self._link.is_connected:
                return facet
            await self._clock.wait(self._settled, min(left, self._settings.poll_s / 10))

    async def _first_contact(self) -> None:
        """On opening: say hello, unless this machine knows already that nobody answers."""
        link = self._link.current()
        if link.state is LinkState.CONNECTED or link.unauthorised:
            await self._link.probe(self._remote, forced=True)

    async def _round(self) -> None:
        self._wake.clear()
        await self._send_what_is_due()
        self._next_look_s = self._pause_s()

    async def _send_what_is_due(self) -> None:
        if not self._link.is_connected and not await self._link.probe(self._remote):
            self._settled.set()
            return
        if not await self._lead():
            return
        while self._is_open_for_sending() and self._is_anything_due():
            await self._drain_batch(early=False)

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """The task must outlive any one round; the outbox keeps what was not sent."""
        try:
            await work
        except Exception as error:  # this is the background task's top
            if _is_being_cancelled():
                raise asyncio.CancelledError from error  # what failed was the tidying up
            log.warning("delivery paused for a moment: %s: %s", type(error).__name__, error)

    def _pause_s(self) -> float:
        """Until the next look. Looking costs one read, and shows what other processes stored or found out."""
        usual_s = self._settings.poll_s if self._leading else self._settings.poll_s * SLOWER
        probe_s = self._link.seconds_to_probe()
        if probe_s is not None:
            usual_s = min(usual_s, max(probe_s, 0.001))
        return usual_s

    async def _lead(self) -> bool:
        """Become or stay the one process that delivers. A new leader takes back what a dead one had leased."""
        if self._leading or not self._leads():
            return self._leading
        self._leading = True
        stale = [memory_id for memory_id, _ in self._store.reader.outbox_page(self._name, ["leased"], MOST_STALE)]
        if stale:
            await self._write(outbox.reclaim(self._name, stale, self._owner, self._now_s()))
        return True

    async def _drain_all(self, end: float) -> None:
        self._quiet_until = 0.0
        failed: frozenset[MemoryId] = frozenset()
        while self._clock.monotonic() < end and self._is_open_for_sending():
            batch = await self._drain_batch(early=True, failed=failed, end=end)
            if not batch.size:
                return
            failed |= batch.failed

    async def _have_it_drained(self, end: float) -> None:
        """Another process leads: make everything due at once, and watch it work."""
        waiting = [memory_id for memory_id, _ in self._store.reader.outbox_page(self._name, ["pending"], MOST_STALE)]
        await self._write(outbox.retry(self._name, waiting, self._now_s()))
        while self._waiting() and self._link.is_connected:
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            await self._clock.sleep(min(left, self._settings.poll_s / 10))

    def _is_open_for_sending(self) -> bool:
        return self._link.is_connected and self._clock.monotonic() >= self._quiet_until

    async def _drain_batch(self, *, early: bool, failed: Collection[MemoryId] = (), end: float | None = None) -> Batch:
        """Lease a batch and send it."""
        async with self._turn:
            self._events.emit(DeliveryStarted(self._name))
            parcels = await self._claim(early, failed)
            self._events.emit(MemoriesLeased(tuple(parcel.memory.id for parcel in parcels)))
            half_lease_over = self._clock.monotonic() + self._settings.lease_s / 2
            try:
                failures = await self._send_all(parcels, min(half_lease_over, end or half_lease_over))
                return Batch(len(parcels), failures)
            finally:
                self._settled.set()

    async def _send_all(self, parcels: list[Parcel], end: float) -> frozenset[MemoryId]:
        """Send one after the other; returns those that were tried in vain."""
        failed: set[MemoryId] = set()
        waiting = list(parcels)
        try:
            while waiting and self._is_open_for_sending() and self._clock.monotonic() < end:
                if self._is_outdated(waiting[0]):
                    await self._release(waiting[:1])
                    del waiting[0]
                    continue
                parcel = waiting.pop(0)
                if not await self._send(parcel):
                    failed.add(parcel.memory.id)
        finally:
            await self._release(waiting)
        return frozenset(failed)

    def _is_outdated(self, parcel: Parcel) -> bool:
        """The memory was revised or forgotten while it waited for the others of its lease: this must not be sent."""
        return self._facet(parcel.memory.id) != parcel.leased

    async def _send(self, parcel: Parcel) -> bool:
        """Send one, write down the outcome, and say whether the remote has taken it."""
        try:
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

    async def _release(self, parcels: list[Parcel]) -> None:
        """Give back what was leased and not sent, so that nobody has to wait for the lease to lapse."""
        if parcels:
            await asyncio.shield(self._write(outbox.give_back(self._name, parcels, self._owner)))

    async def _claim(self, early: bool, failed: Collection[MemoryId]) -> list[Parcel]:
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

    def _is_anything_due(self) -> bool:
        """A look without a write, so that polling costs the disk nothing."""
        due = self._store.reader.next_due_s(self._name)
        now_s = self._now_s()
        return due is not None and (due <= now_s or due > now_s + LONGEST_S + 1)

    async def _settle(self, parcel: Parcel, move: Callable[[Delivery], Delivery]) -> Delivery | None:
        return await self._write(outbox.settle(self._name, parcel, self._owner, move))

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        return await asyncio.wrap_future(self._store.write(change))

    def _complain(self, parcel: Parcel, reason: str, *, dead: bool) -> None:
        name = parcel.memory.key or parcel.memory.id
        fate = "gave up (see `kingly-memory outbox list`)" if dead else "will try again"
        log.warning("delivery of %r failed, %s: %s", name, fate, reason)
        self._events.emit(DeliveryFailed(parcel.memory.id, parcel.memory.key, reason, dead))

    def _facet(self, memory_id: MemoryId) -> Delivery | None:
        owner = f"{self._name}:{memory_id}"
        found = self._store.reader.facets("delivery", [owner])
        return Delivery.from_json(found[owner]) if found else None

    def _waiting(self) -> int:
        counts = self._store.reader.outbox_counts(self._name)
        return counts["pending"] + counts["leased"]

    def _report(self, before: int) -> SyncReport:
        counts = self._store.reader.outbox_counts(self._name)
        link, waiting = self._link.current(), counts["pending"] + counts["leased"]
        reason = None
        if waiting or link.state is LinkState.OFFLINE:
            reason = link.last_error or "some were not accepted yet; see `kingly-memory outbox list`"
        return SyncReport(max(before - waiting, 0), waiting, counts["dead"], link.state, reason)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
