"""Bringing what is leased to one remote, and writing down what came of it: the same for memories and for links."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import DeliveryState
from kingly_memory.observe import Events
from kingly_memory.ports import Clock, LocalStore, Remote, Transaction
from kingly_memory.router.delivering import delivery, outbox
from kingly_memory.router.delivering.delivery import Delivery
from kingly_memory.router.delivering.link_keeper import LinkKeeper
from kingly_memory.router.delivering.outbox import Judge, Leased, for_everything
from kingly_memory.router.delivering.routes import UNNAMED
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.delivery")
T = TypeVar("T")
P = TypeVar("P", bound=Leased)

LONGEST_S = 300.0
"""Neither a wait nor a lease is longer: the store takes what is due further ahead for a clock that went back."""


@dataclass(slots=True)
class Pause:
    """Until when the remote has asked for silence, on the monotonic clock."""

    until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Depot:
    """What the couriers of one remote share; they lease as process `owner` of this machine."""

    name: str
    owner: str
    store: LocalStore
    remote: Remote
    link: LinkKeeper
    clock: Clock
    settings: Settings
    events: Events
    chance: Callable[[], float]
    label: str = UNNAMED
    pause: Pause = field(default_factory=Pause)
    is_for: Judge = for_everything

    @property
    def to_whom(self) -> str:
        """What a sentence about deliveries says of the remote, where it has a name."""
        return "" if self.label == UNNAMED else f" to {self.label}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of sending something, and when that was begun, on the monotonic clock. No error: the remote took it."""

    began_s: float
    remote_id: str | None = None
    error: RemoteError | None = None


class Courier(ABC, Generic[P]):
    """Leases from one outbox and sends what it leased."""

    remedy = ""
    """What a log says of a delivery that is dead."""

    def __init__(self, outbox_name: str, depot: Depot) -> None:
        self._outbox = outbox_name
        self._depot = depot
        self._store = depot.store
        self._remote = depot.remote
        self._link = depot.link
        self._clock = depot.clock
        self._settings = depot.settings
        self._events = depot.events

    @abstractmethod
    async def claim(self, early: bool, failed: Collection[str]) -> list[P]:
        """Lease what is due (or, `early`, whatever waits), but nothing of what has failed already."""

    @abstractmethod
    async def _bring(self, parcel: P) -> str | None:
        """Call the remote; returns its id of what was sent, where it has one."""

    @abstractmethod
    async def _acknowledge(self, parcel: P, remote_id: str | None) -> None:
        """The remote has taken it."""

    def row(self, parcel: P) -> str | None:
        """The row in which it stands: of one row only one is under way, the earliest first. None: in no row."""
        return None

    def follows(self, parcel: P) -> str | None:
        """The delivery whose outcome has to be written down before this one may be sent, if any."""
        return None

    async def lease(self, early: bool, failed: Collection[str]) -> list[P]:
        """Claim. Who is cancelled meanwhile gives back what was taken."""
        claiming = asyncio.ensure_future(self.claim(early, failed))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            parcels, *_ = await asyncio.gather(claiming, return_exceptions=True)
            if isinstance(parcels, list):
                await self.release(parcels)
            raise

    @property
    def may_send(self) -> bool:
        """False while the link is offline or the remote has asked for a pause."""
        return self._link.is_connected and self._clock.monotonic() >= self._depot.pause.until_s

    def end_pause(self) -> None:
        """The user does not want to wait for as long as the remote has asked."""
        self._depot.pause.until_s = 0.0

    def is_anything_due(self) -> bool:
        """A look without a write, so that polling costs the disk nothing."""
        due = self._store.reader.next_due_s(self._outbox)
        now_s = self._now_s()
        return due is not None and (due <= now_s or due > now_s + LONGEST_S + 1)

    def count(self, *states: str) -> int:
        """How many deliveries are in those states."""
        counts = self._store.reader.outbox_counts(self._outbox)
        return sum(counts[state] for state in states)

    def ids(self, state: str, limit: int) -> list[str]:
        """Whose deliveries are in that state, oldest first."""
        return [one for one, _ in self._store.reader.outbox_page(self._outbox, [state], limit)]

    def facet(self, delivery_id: str) -> Delivery | None:
        """Where it stands with this remote."""
        owner = f"{self._outbox}:{delivery_id}"
        found = self._store.reader.facets("delivery", [owner])
        return Delivery.from_json(found[owner]) if found else None

    def is_outdated(self, parcel: P) -> bool:
        """It was changed while it waited for the others of its lease: this must not be sent."""
        return self.facet(parcel.id) != parcel.leased

    async def send(self, parcel: P) -> Answer:
        """Send one. Raises CancelledError after writing down that it was interrupted."""
        began_s = self._clock.monotonic()
        try:
            async with self._link.asking():
                return Answer(began_s, remote_id=await self._bring(parcel))
        except RemoteError as error:
            return Answer(began_s, error=error)
        except asyncio.CancelledError:
            interrupted = partial(delivery.postponed, reason="interrupted while sending", due=parcel.place)
            await asyncio.shield(self._settle(parcel, interrupted))
            raise

    async def note(self, parcel: P, answer: Answer) -> bool:
        """Write down what came of it. True when it keeps its place: it goes first again."""
        error = answer.error
        if error is None:
            await self._link.succeeded()
            await self._acknowledge(parcel, answer.remote_id)
        elif isinstance(error, RemoteUnavailable):
            return await self._postpone(parcel, error, answer.began_s)
        elif isinstance(error, RemoteRefused):
            await self._link.succeeded()
            await self._refuse(parcel, error)
        else:
            reason = getattr(error, "reason", str(error))
            await self._settle(parcel, partial(delivery.postponed, reason=reason, due=parcel.place))
            await self._link.failed(error, since_s=answer.began_s)
        return False

    async def release(self, parcels: Sequence[P]) -> None:
        """Give back what was leased and not sent, so that nobody has to wait for the lease to lapse."""
        if parcels:
            await asyncio.shield(self._write(outbox.give_back(self._outbox, parcels, self._depot.owner)))

    async def reclaim(self, delivery_ids: Collection[str]) -> None:
        """Take back what a process leased that no longer delivers."""
        if delivery_ids:
            await self._write(outbox.reclaim(self._outbox, delivery_ids, self._depot.owner, self._now_s()))

    async def hasten(self, delivery_ids: Collection[str]) -> None:
        """Make those due that are not yet, for whoever delivers."""
        if delivery_ids:
            await self._write(outbox.hasten(self._outbox, delivery_ids, self._now_s()))

    async def _postpone(self, parcel: P, error: RemoteUnavailable, began_s: float) -> bool:
        """The remote could not: it waits, and a Retry-After holds everybody back. True when it keeps its place."""
        if error.retry_after_s is None:
            tries = 1 if error.reached else self._settings.send_tries
            await self._link.failed(error, tries=tries, since_s=began_s)
        is_over = parcel.leased.attempts == 0 and not error.reached and self._link.has_recovered(began_s)
        due = parcel.place if is_over else self._due_after(parcel, error.retry_after_s)
        if error.retry_after_s:
            wished_s = self._clock.monotonic() + due - self._now_s()
            self._depot.pause.until_s = max(self._depot.pause.until_s, wished_s)
        moved = await self._settle(parcel, lambda facet: delivery.postponed(facet, error.reason, due))
        self._complain(parcel, error.reason, dead=False)
        return moved is not None and moved.due == parcel.place

    async def _refuse(self, parcel: P, error: RemoteRefused) -> None:
        due, limit, sent = self._due_after(parcel), self._settings.refusals_limit, parcel.leased.wanted
        moved = await self._settle(
            parcel, lambda facet: delivery.refused(facet, sent, error.reason, clear=error.clear, limit=limit, due=due)
        )
        self._complain(parcel, error.reason, dead=moved is not None and moved.state is DeliveryState.DEAD)

    def _due_after(self, parcel: P, wished_s: float | None = None) -> float:
        """When to try again: as the remote wished, else backed off. A Retry-After of 0 is no wish for a storm.

        What met the outage first keeps its place: it waits for the link, and goes before what was stored later. If it
        brings the link down again it may be the cause, and lets the others pass.
        """
        if parcel.leased.attempts == 0 and not self._link.is_connected:
            return parcel.place
        longest_s = min(self._settings.longest_wait_s, LONGEST_S)
        backed_off_s = delivery.backoff_s(parcel.leased.attempts, longest_s, self._depot.chance())
        return self._now_s() + min(wished_s or backed_off_s, longest_s)

    async def _settle(self, parcel: P, move: Callable[[Delivery], Delivery]) -> Delivery | None:
        return await self._write(outbox.settle(self._outbox, parcel, self._depot.owner, move))

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        return await asyncio.wrap_future(self._store.write(change))

    def _complain(self, parcel: P, reason: str, *, dead: bool) -> None:
        fate = f"gave up ({self.remedy})" if dead else "will try again"
        log.warning("delivery of %r%s failed, %s: %s", parcel.name, self._depot.to_whom, fate, reason)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    @property
    def _lease_s(self) -> float:
        return min(self._settings.lease_s, LONGEST_S)
