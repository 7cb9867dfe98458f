"""Sending what is leased to one remote: in order, a few at once, and what came of each written down.

Leases are the second safeguard: what one process has leased, no other sends before the lease lapses.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from kingly_memory.cognition import thoughts
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import OVERTAKEN, RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, Memory
from kingly_memory.observe import (
    DeliveryFailed,
    DeliveryStarted,
    MemoriesLeased,
    MemoryDelivered,
    MemorySent,
)
from kingly_memory.ports import Delivery, Transaction
from kingly_memory.router import delivery, outbox
from kingly_memory.router.delivery import Leased, outbox_of_links
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.routes import UNNAMED
from kingly_memory.router.services import RemotePart, Services

log = logging.getLogger("kingly_memory.delivery")

LONGEST_S = 300.0
"""No wait and no lease is longer: what is due further ahead was noted before the clock went back."""

MOST_STALE = 1_000
"""Deliveries that are reclaimed or hastened in one transaction."""

OVERTAKEN_AT_ONCE = 3
"""Tries of a delivery that are made one after the other while the remote answers with another text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a send, and when it began, on the monotonic clock. No error: the remote took it."""

    began_s: float
    remote_id: str | None = None
    error: RemoteError | None = None


class SendWindow:
    """How many sends may be under way at once: one, twice as many after each success, one again after each failure.

    So a remote in trouble is not stormed, and all sends hear what it says first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.at_once = 1

    def taken(self) -> None:
        self.at_once = min(self._most, self.at_once * 2)

    def failed(self) -> None:
        self.at_once = 1


class Sender:
    """Leases deliveries to one remote, sends them, and writes down what came of it."""

    def __init__(self, part: RemotePart, link: LinkKeeper, services: Services) -> None:
        self.outboxes = (part.name, outbox_of_links(part.name))
        self.owner = f"{os.getpid()}-{uuid4().hex[:12]}"
        self.delivered = 0
        """Memories, by this process."""
        self.settled = asyncio.Event()
        self.turn = asyncio.Lock()
        self.to_whom = "" if part.label == UNNAMED else f" to {part.label}"
        self.paused_until_s = 0.0  # as the remote has asked (Retry-After), on the monotonic clock
        self._name = part.name
        self._remote = part.remote
        self._link = link
        self._services = services

    @property
    def may_send(self) -> bool:
        """False while the link is offline or the remote has asked for a pause."""
        return self._link.is_connected and self._services.clock.monotonic() >= self.paused_until_s

    def due_outbox(self) -> str | None:
        """The first outbox in which something is due. A look without a write, so that polling costs the disk
        nothing."""
        now_s = self._services.now_s()
        for name in self.outboxes:
            due = self._services.reader.next_due_s(name)
            if due is not None and (due <= now_s or due > now_s + LONGEST_S + 1):
                return name
        return None

    def waiting(self, name: str) -> int:
        """How many deliveries of that outbox are not at rest."""
        counts = self._services.reader.outbox_counts(name)
        return counts["pending"] + counts["leased"]

    def dead(self, name: str) -> int:
        return self._services.reader.outbox_counts(name)["dead"]

    def ids(self, name: str, state: str) -> list[str]:
        return [one for one, _ in self._services.reader.outbox_page(name, [state], MOST_STALE)]

    def delivery_of(self, name: str, item_id: str) -> Delivery | None:
        return self._services.reader.deliveries([name], [item_id])[name].get(item_id)

    async def send_batch(
        self, name: str, window: SendWindow, *, early: bool, failed: Collection[str] = (), end: float | None = None
    ) -> DeliveryBatch:
        """Lease a batch and send it. What is begun in the first half of the lease can end before it lapses."""
        async with self.turn:
            items = await self._lease(name, early, failed)
            half_lease_over = self._services.clock.monotonic() + self._services.settings.pace.lease_s / 2
            batch = DeliveryBatch(self, items, window, settled=self.settled.set)
            try:
                await batch.send(min(half_lease_over, end or half_lease_over))
            finally:
                self.settled.set()
            return batch

    async def _lease(self, name: str, early: bool, failed: Collection[str]) -> list[Leased]:
        """Lease what is due (or, `early`, whatever waits). When this is cancelled, what was leased is given back."""
        lease_s = min(self._services.settings.pace.lease_s, LONGEST_S)
        claim = outbox.Claim(self._name, self.owner, self._services.now_s(), lease_s, early, failed)
        are_links = name != self._name
        if not are_links:
            self._services.events.emit(DeliveryStarted(self._name))
        change = claim.links() if are_links else claim.memories(self._services.settings.pace.lease_size)
        claiming = asyncio.ensure_future(self._services.write(change))
        try:
            items = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            taken, *_ = await asyncio.gather(claiming, return_exceptions=True)
            if isinstance(taken, list):
                await self.release(taken)
            raise
        if not are_links:
            self._services.events.emit(MemoriesLeased(tuple(MemoryId(item.id) for item in items)))
        return items

    async def release(self, items: Sequence[Leased]) -> None:
        """Give back what was leased and not sent, so that nobody has to wait for the lease to lapse."""
        if items:
            await asyncio.shield(self._services.write(outbox.give_back(items, self.owner)))

    def is_outdated(self, item: Leased) -> bool:
        """True when it must not be sent as it was leased: it was changed meanwhile, or it is a thought whose parent,
        leased before it, could not be delivered."""
        if self.delivery_of(item.outbox, item.id) != item.leased:
            return True
        parent, is_told = parent_of(item), item.forgotten or item.leased.remote_id is not None
        if parent is None or is_told or not isinstance(item.subject, Memory):
            return False
        return outbox.is_awaited(self._services.reader.row(parent), self.delivery_of(self._name, parent), item.subject)

    async def send(self, item: Leased) -> Answer:
        """Send one. Raises CancelledError after writing down that it was interrupted."""
        began_s = self._services.clock.monotonic()
        try:
            async with self._link.asking():
                return Answer(began_s, remote_id=await self._call(item))
        except RemoteError as error:
            return Answer(began_s, error=error)
        except asyncio.CancelledError:
            interrupted = partial(delivery.postponed, reason="interrupted while sending", due=item.place)
            await asyncio.shield(self._settle(item, interrupted))
            raise

    async def _call(self, item: Leased) -> str | None:
        """Call the remote; returns its id of the memory, where it has one."""
        subject, known, key = item.subject, item.leased.remote_id, item.idempotency_key
        if not isinstance(subject, Memory):
            await self._remote.link(subject, idempotency_key=key, repeated=item.repeated)
            return None  # what the remote calls a link must not be taken for a memory's id there
        if item.forgotten:
            return await self._remote.forget(subject, remote_id=known, idempotency_key=key)
        if known is None and thoughts.is_thought(subject):
            parent = parent_of(item)
            ahead = None if parent is None else self.delivery_of(self._name, parent)
            return await self._remote.record_thought(
                subject,
                parent_remote_id=None if ahead is None else ahead.remote_id,
                idempotency_key=key,
                repeated=item.repeated,
            )
        return await self._remote.store(subject, idempotency_key=key, remote_id=known, repeated=item.repeated)

    async def note(self, item: Leased, answer: Answer) -> bool:
        """Write down what came of it. True when it keeps its place: it goes first again."""
        error = answer.error
        if error is None:
            await self._link.succeeded()
            await self._acknowledge(item, answer.remote_id)
        elif isinstance(error, RemoteUnavailable):
            return await self._postpone(item, error, answer.began_s)
        elif isinstance(error, RemoteRefused):
            await self._link.succeeded()
            await self._refuse(item, error)
        else:  # a refused token says nothing about the delivery, which keeps its place
            await self._settle(item, partial(delivery.postponed, reason=error.reason, due=item.place))
            await self._link.failed(error, since_s=answer.began_s)
        return False

    async def _acknowledge(self, item: Leased, remote_id: str | None) -> None:
        """In the same transaction those links of a memory become due that have waited for it."""
        now_s, is_memory = self._services.now_s(), isinstance(item.subject, Memory)

        def move(found: Delivery) -> Delivery:
            after = delivery.acknowledged(found, item.confirms, remote_id, now_s)
            return after if is_memory else replace(after, first_sent=0)

        settle = outbox.settle(item, self.owner, move)

        def change(transaction: Transaction) -> bool:
            settled = settle(transaction)
            if settled is not None and is_memory and not item.forgotten:
                was_elsewhere = item.leased.remote_id not in (None, remote_id)
                outbox.want_links_of(transaction, self._name, item.id, now_s, moved=was_elsewhere)
            return settled is not None and settled.state is DeliveryState.DELIVERED

        if is_memory:
            self._services.events.emit(MemorySent(MemoryId(item.id)))
        is_delivered = await self._services.write(change)
        if is_memory:
            self.delivered += is_delivered
            self._services.events.emit(MemoryDelivered(MemoryId(item.id), remote_id))

    async def _postpone(self, item: Leased, error: RemoteUnavailable, began_s: float) -> bool:
        """The remote could not take it: it waits, and a Retry-After holds everybody back. True when it keeps its
        place."""
        if error.retry_after_s is None:
            tries = 1 if error.reached else self._services.settings.pace.send_tries
            await self._link.failed(error, tries=tries, since_s=began_s)
        is_over = item.leased.attempts == 0 and not error.reached and self._link.has_recovered(began_s)
        due = item.place if is_over else self._due_after(item, error.retry_after_s)
        if error.retry_after_s:
            until_s = self._services.clock.monotonic() + due - self._services.now_s()
            self.paused_until_s = max(self.paused_until_s, until_s)
        moved = await self._settle(item, partial(delivery.postponed, reason=error.reason, due=due))
        self._complain(item, error.reason, dead=False)
        return moved is not None and moved.due == item.place

    async def _refuse(self, item: Leased, error: RemoteRefused) -> None:
        if error.code == OVERTAKEN:
            due = self._services.now_s() if goes_at_once(error, item) else self._due_after(item)
            if item.leased.remote_id is None and item.confirms < item.leased.wanted and error.remote_id is not None:
                await self._acknowledge(item, error.remote_id)  # what it answers from is the first store
            else:
                await self._settle(item, partial(delivery.overtaken, remote_id=error.remote_id, due=due))
            return
        limit, due = self._services.settings.pace.refusals_limit, self._due_after(item)
        move = partial(
            delivery.refused, change=item.leased.wanted, reason=error.reason, clear=error.clear, limit=limit, due=due
        )
        moved = await self._settle(item, move)
        self._complain(item, error.reason, dead=moved is not None and moved.state is DeliveryState.DEAD)

    def _due_after(self, item: Leased, wished_s: float | None = None) -> float:
        """When to try again: as the remote wished, else backed off. A Retry-After of 0 does not make a storm.

        What met the outage first keeps its place: it waits for the link, and goes before what was stored later. If it
        brings the link down again it may be the cause, and lets the others pass.
        """
        if item.leased.attempts == 0 and not self._link.is_connected:
            return item.place
        longest_s = min(self._services.settings.pace.longest_wait_s, LONGEST_S)
        backed_off_s = delivery.backoff_s(item.leased.attempts, longest_s, self._services.chance())
        return self._services.now_s() + min(wished_s or backed_off_s, longest_s)

    def _complain(self, item: Leased, reason: str, *, dead: bool) -> None:
        is_memory = isinstance(item.subject, Memory)
        see = "see `kingly-memory outbox list --remote …`"
        remedy = see if is_memory else "link the memories again to have it tried anew"
        fate = f"gave up ({remedy})" if dead else "will try again"
        log.warning("delivery of %r%s failed, %s: %s", item.name, self.to_whom, fate, reason)
        if isinstance(item.subject, Memory):
            self._services.events.emit(DeliveryFailed(item.subject.id, item.subject.key, reason, dead))

    async def _settle(self, item: Leased, move: Callable[[Delivery], Delivery]) -> Delivery | None:
        return await self._services.write(outbox.settle(item, self.owner, move))

    def monotonic_s(self) -> float:
        return self._services.clock.monotonic()


class DeliveryBatch:
    """The deliveries of one lease. Each starts as soon as the window has room and none is left that goes before it.

    Order: memories of one context (or of none) go one after the other, a thought goes after the one before it is
    written down as delivered. A place is free again when the remote has answered; the outcome is written down
    meanwhile, together with others. `settled` is called whenever that is done. `failed` are those that were tried in
    vain.
    """

    def __init__(
        self, sender: Sender, items: Sequence[Leased], window: SendWindow, *, settled: Callable[[], None]
    ) -> None:
        self.size = len(items)
        self.failed: frozenset[str] = frozenset()
        self._sender = sender
        self._window = window
        self._settled = settled
        self._waiting = list(items)
        self._sending: dict[asyncio.Task[Answer], Leased] = {}
        self._noting: dict[asyncio.Task[bool], Leased] = {}
        self._is_halted = False

    async def send(self, end: float) -> None:
        """Send what can be begun before `end`, on the monotonic clock. What is left is given back, also when this is
        cancelled."""
        try:
            await self._start(end)
            while self._sending or self._noting:
                await asyncio.wait([*self._sending, *self._noting], return_when=asyncio.FIRST_COMPLETED)
                for sent in [task for task in self._sending if task.done()]:
                    self._note(self._sending.pop(sent), sent.result())
                for noted in [task for task in self._noting if task.done()]:
                    item = self._noting.pop(noted)
                    if noted.result():  # a new lease puts it first
                        self._is_halted = True
                        self.failed -= {item.id}
                    self._settled()
                await self._start(end)
        finally:
            try:
                await self._interrupt()
            finally:
                await self._sender.release(self._waiting)

    async def _start(self, end: float) -> None:
        while self._has_room(end) and (item := self._next()) is not None:
            self._waiting.remove(item)
            if self._sender.is_outdated(item):
                await self._sender.release([item])
            else:
                self._sending[asyncio.create_task(self._sender.send(item))] = item

    def _has_room(self, end: float) -> bool:
        """A failure keeps its place until it is written down: only then is known what it means to the link."""
        under_way = len(self._sending) + len(self._failing())
        is_free = not self._is_halted and bool(self._waiting) and under_way < self._window.at_once
        return is_free and self._sender.may_send and self._sender.monotonic_s() < end

    def _next(self) -> Leased | None:
        """The earliest that has to wait for none before it. What fails may go first again, so its row waits for it."""
        unsettled = {item.id for item in (*self._sending.values(), *self._noting.values())}
        rows = {_row(item) for item in (*self._sending.values(), *self._failing())}
        for item in self._waiting:
            row = _row(item)
            if (row is None or row not in rows) and parent_of(item) not in unsettled:
                return item
            unsettled.add(item.id)
            rows.add(row)
        return None

    def _failing(self) -> list[Leased]:
        return [item for item in self._noting.values() if item.id in self.failed]

    def _note(self, item: Leased, answer: Answer) -> None:
        if answer.error is None or goes_at_once(answer.error, item):
            self._window.taken()
        else:
            self._window.failed()
            self.failed |= {item.id}
        self._noting[asyncio.create_task(self._sender.note(item, answer))] = item

    async def _interrupt(self) -> None:
        """End what is being sent. What has been answered is written down all the same, the rest is given back: that
        changes nothing where the interruption has been written down."""
        for task in self._sending:
            task.cancel()
        await _all_done(self._sending)
        for task, item in self._sending.items():
            if task.cancelled() or task.exception() is not None:
                self._waiting.append(item)
            else:
                self._note(item, task.result())
        await _all_done(self._noting)


def goes_at_once(error: RemoteError, item: Leased) -> bool:
    """Whether the next try need not wait: the remote has a later change already, so this one goes under another key.
    That is tried a few times, since a remote may say so for ever."""
    is_overtaken = isinstance(error, RemoteRefused) and error.code == OVERTAKEN
    return is_overtaken and item.leased.attempts < OVERTAKEN_AT_ONCE


def parent_of(item: Leased) -> MemoryId | None:
    """The thought that goes before this one, if any."""
    is_thought = isinstance(item.subject, Memory) and thoughts.is_thought(item.subject)
    return thoughts.parent_of(item.subject) if is_thought else None  # type: ignore[arg-type]


def _row(item: Leased) -> str | None:
    """Of one row only one delivery is under way, the earliest first. Links stand in none."""
    if not isinstance(item.subject, Memory):
        return None
    scope = item.subject.scope
    return f"{scope.space}\n{scope.context_id or ''}"


async def _all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait for them without cancelling any. What they raise has been told, or comes second."""
    waited_for = list(tasks)
    if waited_for:
        await asyncio.wait(waited_for)
    for task in waited_for:
        if not task.cancelled():
            task.exception()
