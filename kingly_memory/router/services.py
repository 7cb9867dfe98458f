"""What the parts of a router work with, whichever space they are for: store, clock, settings, observers, remotes, and
whose turn it is."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kingly_memory.dataclass import dataclass, field
from kingly_memory.observe import Event, Observer, log
from kingly_memory.ports import Clock, LocalStore, Remote, StoreReader, Transaction
from kingly_memory.router.delivery.routes import Route
from kingly_memory.settings import Settings

T = TypeVar("T")


class CalledMeanwhile(Exception):
    """Somebody has called a verb: the work in the background is undone, and done later."""


class Callers:
    """Lets calls of verbs go before work that nobody waits for, which is done piece by piece. That work has all the
    time while nobody calls, else a tenth, by the real clock: interpreter and writer serve one at a time."""

    _THERE_S = 1.0
    """A call seldom comes alone, and takes a moment."""
    _OTHERS = 9
    """After a piece of work, callers have this many times as long as it took to themselves."""

    def __init__(self) -> None:
        self.called_s = -math.inf
        """When a verb was called last (monotonic)."""

    def call(self) -> None:
        """A verb is called."""
        self.called_s = time.monotonic()

    def are_there(self) -> bool:
        return time.monotonic() < self.called_s + self._THERE_S

    def check(self) -> None:
        """Raises CalledMeanwhile."""
        if self.are_there():
            raise CalledMeanwhile

    async def let_pass(self, worked_s: float) -> None:
        """Wait after a piece that took so long, until callers have had their time or have stopped calling. No event
        says that they have stopped, so this looks at the clock."""
        theirs_s = time.monotonic() + self._OTHERS * worked_s
        while (wait_s := min(theirs_s, self.called_s + self._THERE_S) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(wait_s)


class Events:
    """Hands each event to the observers of one router. An observer runs in the caller's thread and must be quick; what
    it raises is logged, for a memory must not depend on who watches it."""

    def __init__(self, observers: tuple[Observer, ...] = ()) -> None:
        self._observers = observers

    @property
    def are_heard(self) -> bool:
        """Whether anybody hears of events, which need not be made else."""
        return bool(self._observers) or log.isEnabledFor(logging.DEBUG)

    def emit(self, event: Event) -> None:
        log.debug("%s %r", type(event).__name__, event)
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  # somebody else's code
                log.warning("an observer failed at %s: %s", type(event).__name__, type(error).__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """The same for everything that one router does. `chance` is a random number in [0, 1); `erase_records` takes
    records with one of these texts out of the audit, and counts them."""

    store: LocalStore
    clock: Clock
    settings: Settings
    events: Events
    chance: Callable[[], float]
    erase_records: Callable[[Sequence[str]], int] = lambda _: 0
    callers: Callers = field(default_factory=Callers)

    @property
    def reader(self) -> StoreReader:
        return self.store.reader

    def now_s(self) -> float:
        """Unix seconds."""
        return self.clock.now().timestamp()

    @property
    def write(self) -> Callable[[Callable[[Transaction], T]], Awaitable[T]]:
        """Run a change in a transaction; it is durable when that has been awaited. See `LocalStore.commit`."""
        return self.store.commit


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A remote that a router works with: its names and address, the port, which process may deliver to it on this
    machine, and when it last answered anything, on the monotonic clock."""

    route: Route
    remote: Remote
    leads: Callable[[], bool]
    stop_leading: Callable[[], None]
    heard_s: Callable[[], float] = lambda: -math.inf
