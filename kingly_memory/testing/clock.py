"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.models import as_utc
from kingly_memory.ports import Clock

_MICROSECONDS = 1_000_000
"""Both clocks go by whole microseconds, the finest a datetime can tell: they never drift apart."""
_TURNS, _MOST_TURNS = 50, 10_000
"""Turns of the event loop given to woken tasks: as many where the loop does not say that some are left to run, and at
most where it does. Each hop between tasks, futures and events takes one or two."""


@dataclass(order=True, slots=True)
class _Sleeper:
    deadline_us: int
    sequence: int
    woken: asyncio.Future[None] = field(compare=False)


class ManualClock:
    """Time for tests: `advance` moves it and wakes whoever slept, `jump` moves only the wall clock.

    Reading the time is safe from any thread; sleepers may live on several event loops.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._lock = threading.Lock()
        self._wall = as_utc(start) if start else datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic_us = 0
        self._sleepers: list[_Sleeper] = []
        self._sequence = 0

    def __repr__(self) -> str:
        return f"<ManualClock now={self.now().isoformat()} sleepers={len(self._sleepers)}>"

    def now(self) -> datetime:
        with self._lock:
            return self._wall

    def monotonic(self) -> float:
        with self._lock:
            return self._monotonic_us / _MICROSECONDS

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = self._lie_down(seconds)
        try:
            await sleeper.woken
        finally:
            self._get_up(sleeper)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        if event.is_set():
            return True
        if seconds is None:
            return await event.wait()
        setting = asyncio.ensure_future(event.wait())
        sleeping = asyncio.ensure_future(self.sleep(seconds))
        try:
            await asyncio.wait((setting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            setting.cancel()
            sleeping.cancel()
        return event.is_set()

    async def advance(self, seconds: float) -> None:
        """Move both clocks forward. Sleepers wake in the order of their deadlines, each at its own time, and run
        until they wait for something again; a sleep that begins on the way is served too."""
        target_us = self._target_us(seconds)
        await self.settle()
        while (deadline_us := self._earliest(target_us)) is not None:
            self._move_to(deadline_us)
            await self.settle()
        self._move_to(target_us)
        await self.settle()

    def tick(self, seconds: float) -> None:
        """Move both clocks forward from any thread, without waiting for those it wakes."""
        self._move_to(self._target_us(seconds))

    def jump(self, seconds: float) -> None:
        """Move only the wall clock, backwards when negative, as a user or a time server does."""
        with self._lock:
            self._wall += timedelta(seconds=seconds)

    async def settle(self) -> None:
        """Let the tasks of this event loop run until they wait for something again."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)  # what asyncio's own loops have left to run
        for turn in range(_MOST_TURNS):
            await asyncio.sleep(0)
            if not ready and (ready is not None or turn >= _TURNS):
                break

    def _target_us(self, seconds: float) -> int:
        if not seconds >= 0:
            raise ValueError("time moves forward; use jump() for the wall clock")
        return self._monotonic_us + round(seconds * _MICROSECONDS)

    def _lie_down(self, seconds: float) -> _Sleeper:
        woken = asyncio.get_running_loop().create_future()
        with self._lock:
            self._sequence += 1
            sleeper = _Sleeper(self._monotonic_us + max(1, round(seconds * _MICROSECONDS)), self._sequence, woken)
            heapq.heappush(self._sleepers, sleeper)
        return sleeper

    def _get_up(self, sleeper: _Sleeper) -> None:
        with self._lock:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    def _earliest(self, until_us: int) -> int | None:
        with self._lock:
            first = self._sleepers[0].deadline_us if self._sleepers else None
        return first if first is not None and first <= until_us else None

    def _move_to(self, moment_us: int) -> None:
        with self._lock:
            self._wall += timedelta(microseconds=moment_us - self._monotonic_us)
            self._monotonic_us = moment_us
            due = []
            while self._sleepers and self._sleepers[0].deadline_us <= moment_us:
                due.append(heapq.heappop(self._sleepers))
        for sleeper in due:
            _wake(sleeper.woken)


def _wake(woken: asyncio.Future[None]) -> None:
    def arrive() -> None:
        if not woken.done():
            woken.set_result(None)

    loop = woken.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(arrive)


class Hanging:
    """A fake that answers at once, until a test calls `hang`."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock or SystemClock()
        self._released: asyncio.Event | None = None

    def hang(self) -> None:
        """From now on calls wait; their deadline ends them, unless `go_on` comes first."""
        self._released = asyncio.Event()

    def go_on(self) -> None:
        """Let the calls that wait, and all later ones, be answered."""
        if self._released is not None:
            self._released.set()
            self._released = None

    async def _goes_on(self, within_s: float) -> bool:
        """Whether a call is answered before that time is over."""
        return self._released is None or await self._clock.wait(self._released, within_s)
