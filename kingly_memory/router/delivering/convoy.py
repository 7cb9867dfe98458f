"""What one process has leased, on its way: several at once, and in order where order was promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from kingly_memory.ports import Clock
from kingly_memory.router.delivering.courier import Answer, Courier
from kingly_memory.router.delivering.outbox import Leased

P = TypeVar("P", bound=Leased)


class Pace:
    """How many may be under way at once: one until the remote has taken it, twice as many with every one it takes, and
    one again after every failure. A remote in trouble is not stormed, and what it says first is heard by all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.at_once = 1

    def taken(self) -> None:
        self.at_once = min(self._most, self.at_once * 2)

    def failed(self) -> None:
        self.at_once = 1


class Convoy(Generic[P]):
    """The parcels of one lease. Each starts as soon as there is room and none is left that goes before it, the earlier
    ones first. A place is free again when the remote has answered: the outcome is written down meanwhile, together
    with others. `settled` is called whenever that is done."""

    def __init__(
        self, courier: Courier[P], parcels: Sequence[P], pace: Pace, *, clock: Clock, settled: Callable[[], None]
    ) -> None:
        self._courier = courier
        self._pace = pace
        self._clock = clock
        self._settled = settled
        self._waiting = list(parcels)
        self._sending: dict[asyncio.Task[Answer], P] = {}
        self._noting: dict[asyncio.Task[bool], P] = {}
        self._begun: set[str] = set()
        self._failed: set[str] = set()
        self._is_halted = False

    async def arrive(self, end: float) -> frozenset[str]:
        """Send what can be begun before `end`, on the monotonic clock; returns those that were tried in vain. What is
        left is given back, also when this is cancelled."""
        try:
            await self._start(end)
            while self._sending or self._noting:
                await self._go_on()
                await self._start(end)
        finally:
            try:
                await self._interrupt()
            finally:
                await self._courier.release(self._waiting)
        return frozenset(self._failed)

    async def _start(self, end: float) -> None:
        while self._has_room(end) and (parcel := self._next()) is not None:
            self._waiting.remove(parcel)
            if self._courier.is_outdated(parcel):
                await self._courier.release([parcel])
            else:
                self._sending[asyncio.create_task(self._send(parcel))] = parcel

    async def _send(self, parcel: P) -> Answer:
        self._begun.add(parcel.id)
        return await self._courier.send(parcel)

    def _has_room(self, end: float) -> bool:
        """What a failure means to the link is known once it is written down."""
        failing = sum(parcel.id in self._failed for parcel in self._noting.values())
        has_room = bool(self._waiting) and len(self._sending) + failing < self._pace.at_once
        return has_room and not self._is_halted and self._courier.may_send and self._clock.monotonic() < end

    def _next(self) -> P | None:
        """The earliest that has to wait for none before it."""
        ahead = [*self._sending.values(), *self._noting.values()]
        unsettled = {parcel.id for parcel in ahead}
        failing = (parcel for parcel in self._noting.values() if parcel.id in self._failed)  # it may go first again
        rows = {self._courier.row(parcel) for parcel in (*self._sending.values(), *failing)}
        for parcel in self._waiting:
            row = self._courier.row(parcel)
            if (row is None or row not in rows) and self._courier.follows(parcel) not in unsettled:
                return parcel
            unsettled.add(parcel.id)
            rows.add(row)
        return None

    async def _go_on(self) -> None:
        """Wait until something has been answered or written down."""
        await asyncio.wait([*self._sending, *self._noting], return_when=asyncio.FIRST_COMPLETED)
        for sent in [task for task in self._sending if task.done()]:
            self._note(self._sending.pop(sent), sent.result())
        for noted in [task for task in self._noting if task.done()]:
            parcel = self._noting.pop(noted)
            if noted.result():  # a new lease puts it first
                self._is_halted = True
                self._failed.discard(parcel.id)
            self._settled()

    def _note(self, parcel: P, answer: Answer) -> None:
        if answer.error is None:
            self._pace.taken()
        else:
            self._pace.failed()
            self._failed.add(parcel.id)
        self._noting[asyncio.create_task(self._courier.note(parcel, answer))] = parcel

    async def _interrupt(self) -> None:
        """End what is being sent; what has been answered is written down all the same."""
        for task in self._sending:
            task.cancel()
        await _all_done(self._sending)
        for task, parcel in self._sending.items():
            if parcel.id not in self._begun:
                self._waiting.append(parcel)
            elif not task.cancelled() and task.exception() is None:
                self._note(parcel, task.result())
        await _all_done(self._noting)


async def _all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait for them without cancelling any; what they raise has been told, or comes second."""
    waited_for = list(tasks)
    if waited_for:
        await asyncio.wait(waited_for)
    for task in waited_for:
        if not task.cancelled():
            task.exception()
