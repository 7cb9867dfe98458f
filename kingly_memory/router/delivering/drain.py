"""Delivery: the background task that empties the outbox. One process leads; leases are the belt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any

from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, JsonObject, LinkState
from kingly_memory.router.delivering.convoy import Convoy, Pace
from kingly_memory.router.delivering.courier import Courier, Depot
from kingly_memory.router.delivering.delivery import Delivery
from kingly_memory.router.delivering.link import as_shown
from kingly_memory.router.delivering.link_sender import LinkSender
from kingly_memory.router.delivering.sender import Sender

log = logging.getLogger("kingly_memory.delivery")

SLOWER = 10
"""How many polls apart a process looks that does not lead, or that has just met trouble."""
MOST_STALE = 1_000
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
    """What became of one lease: how many deliveries it held, and which of them were tried in vain."""

    size: int
    failed: frozenset[str]


class Drainer:
    """Sends what is due to one remote, oldest first and a few at once; links when no memory is due."""

    def __init__(
        self, depot: Depot, *, leads: Callable[[], bool], stop_leading: Callable[[], None], sends: bool = True
    ) -> None:
        """`sends` False: it keeps the link to a remote that is only asked, and leaves the outbox to others."""
        self._sender = Sender(depot)
        self._links = LinkSender(depot)
        self._couriers: tuple[Courier[Any], ...] = (self._sender, self._links)
        self._remote = depot.remote
        self._link = depot.link
        self._clock = depot.clock
        self._settings = depot.settings
        self._to_whom = depot.to_whom
        self._leads = leads
        self._stop_leading = stop_leading
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._leading = False
        self._sends = sends
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
        waited, died = self._sender.count("pending", "leased"), self._sender.count("dead")
        work = asyncio.ensure_future(self._sync(self._clock.monotonic() + timeout_s))
        over = asyncio.Event()
        work.add_done_callback(lambda _: over.set())
        try:
            if await self._clock.wait(over, timeout_s):
                await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return self._report(waited, died)

    async def _sync(self, end: float) -> None:
        """A batch that was under way may fail after the probe, on what happened before it: then one more is due."""
        rounds = 2 if self._turn.locked() else 1
        while rounds and await self._link.probe(self._remote, forced=True):
            if await self._lead():
                await self._drain_all(end)
            else:
                await self._have_it_drained(end)
            rounds = 0 if self._link.is_connected else rounds - 1

    async def until_idle(self) -> None:
        """Wait while there is something to send and a remote that takes it."""
        while not self._link.is_kept_waiting and (self._link.is_asking or self._is_busy()):
            self.wake()
            await asyncio.sleep(POLITE_S)

    def _is_busy(self) -> bool:
        return self._sends and self._sender.may_send and (self._turn.locked() or self._next_courier() is not None)

    def _next_courier(self) -> Courier[Any] | None:
        """Who has something due."""
        return next((one for one in self._couriers if one.is_anything_due()), None)

    async def wait_for(self, memory_id: MemoryId, seconds: float) -> Delivery | None:
        """The facet once it is at rest, or as it is when the seconds are over or the link is offline."""
        end = self._clock.monotonic() + seconds
        self.wake()
        while True:
            self._settled.clear()
            facet = self._sender.facet(memory_id)
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
            self._make_way()
            self._settled.set()
            return
        if not self._sends or not await self._lead():
            return
        pace = self._new_pace()
        while self._sender.may_send and (courier := self._next_courier()) is not None:
            await self._drain_batch(courier, pace, early=False)

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """The task must outlive any one round; the outbox keeps what was not sent."""
        try:
            await work
        except Exception as error:  # this is the background task's top
            if _is_being_cancelled():
                raise asyncio.CancelledError from error  # what failed was the tidying up
            log.warning("delivery%s paused for a moment: %s: %s", self._to_whom, type(error).__name__, error)

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
        for courier in self._couriers:
            await courier.reclaim(courier.ids("leased", MOST_STALE))
        return True

    def _make_way(self) -> None:
        """To a process whose token is accepted, where this one's is not."""
        if self._leading and self._link.current().unauthorised:
            self._leading = False
            self._stop_leading()

    async def _drain_all(self, end: float) -> None:
        self._sender.end_pause()
        for courier in self._couriers:
            await self._drain(courier, end)

    async def _drain(self, courier: Courier[Any], end: float) -> None:
        failed: frozenset[str] = frozenset()
        pace = self._new_pace()
        while self._clock.monotonic() < end and courier.may_send:
            batch = await self._drain_batch(courier, pace, early=True, failed=failed, end=end)
            if not batch.size:
                return
            failed |= batch.failed

    async def _have_it_drained(self, end: float) -> None:
        """Another process leads: make everything due at once, and watch it work."""
        for courier in self._couriers:
            await courier.hasten(courier.ids("pending", MOST_STALE))
        while self._link.is_connected and any(one.count("pending", "leased") for one in self._couriers):
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            await self._clock.sleep(min(left, self._settings.poll_s / 10))

    def _new_pace(self) -> Pace:
        return Pace(self._settings.sends_at_once)

    async def _drain_batch(
        self,
        courier: Courier[Any],
        pace: Pace,
        *,
        early: bool,
        failed: Collection[str] = (),
        end: float | None = None,
    ) -> Batch:
        """Lease a batch and send it. What is begun in the first half of the lease can end before it lapses."""
        async with self._turn:
            parcels = await courier.lease(early, failed)
            half_lease_over = self._clock.monotonic() + self._settings.lease_s / 2
            convoy = Convoy(courier, parcels, pace, clock=self._clock, settled=self._settled.set)
            try:
                failures = await convoy.arrive(min(half_lease_over, end or half_lease_over))
                return Batch(len(parcels), failures)
            finally:
                self._settled.set()

    def _report(self, waited: int, died: int) -> SyncReport:
        """`waited` and `died` are how many memories were waiting and dead before."""
        link = as_shown(self._link.current())
        waiting, dead = self._sender.count("pending", "leased"), self._sender.count("dead")
        reason = None
        if waiting or link.state is LinkState.OFFLINE:
            reason = link.last_error or "some were not accepted yet; see `kingly-memory outbox list --remote …`"
        elif dead > died:
            reason = "the remote refused some; see `kingly-memory outbox list --remote …`"
        elif self._links.count("pending", "leased"):
            reason = "links between memories were not accepted yet; `kingly-memory status --remote …` counts them"
        delivered = max(waited - waiting - max(dead - died, 0), 0)
        return SyncReport(delivered, waiting, dead, link.state, reason)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
