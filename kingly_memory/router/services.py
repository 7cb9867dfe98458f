"""What the parts of a router work with, whichever space they are for: store, clock, settings, observers, remotes,
threads, and whose turn it is."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import RouterClosed
from kingly_memory.observe import Event, Observer, log
from kingly_memory.ports import Clock, LocalStore, Remote, StoreReader, Transaction
from kingly_memory.router.delivery.routes import Route
from kingly_memory.settings import Settings

P = ParamSpec("P")
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
        """When a verb was called last (monotonic), which every verb says here."""

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


@dataclass(frozen=True, slots=True)
class Services:
    """The same for everything that one router does. `chance` is a random number in [0, 1); `erase_records` takes
    records with one of these texts out of the audit, and counts them."""

    store: LocalStore
    clock: Clock
    settings: Settings
    observers: tuple[Observer, ...]
    chance: Callable[[], float]
    erase_records: Callable[[Sequence[str]], int]
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

    def emit(self, event: Event) -> None:
        """Hand an event to the observers. One runs in the caller's thread and must be quick; what it raises is logged,
        for a memory must not depend on who watches it."""
        log.debug("%s %r", type(event).__name__, event)
        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  # somebody else's code
                log.warning("an observer failed at %s: %s", type(event).__name__, type(error).__name__)


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A remote that a router works with: its names and address, the port, which process may deliver to it on this
    machine, and when it last answered anything, on the monotonic clock."""

    route: Route
    remote: Remote
    leads: Callable[[], bool]
    stop_leading: Callable[[], None]
    heard_s: Callable[[], float] = lambda: -math.inf


# --- threads ----------------------------------------------------------------------------------------------------------


class SharedThreads(Executor):
    """A router's share in the pool of that name, which all routers of the process share: twenty projects need no more
    threads than one. The pool ends when the last router that uses it shuts its share down. A process that was forked
    has pools of its own: threads do not survive a fork."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._key = ("", 0)
        self._pool: ThreadPoolExecutor | None = None
        self._own: set[Future[object]] = set()
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises RouterClosed once this share is shut down, whoever else uses the pool, or the program has ended."""
        with _lock:
            if self._is_shut:
                raise RouterClosed
            if self._pool is None:  # the first use: who never needs a thread keeps none for others
                self._key = (self._name, os.getpid())
                pool, users = _pools.get(self._key) or (ThreadPoolExecutor(self._most, self._name), 0)
                self._pool, _pools[self._key] = pool, (pool, users + 1)
            try:
                future = self._pool.submit(fn, *args, **kwargs)
            except RuntimeError:  # its main thread has ended, and with that what Python has of thread pools
                raise RouterClosed from None
        self._own.add(future)  # type: ignore[arg-type]  # whatever it gives
        future.add_done_callback(self._own.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what this router has under way, and for nobody else's."""
        with _lock:
            self._is_shut, pool, self._pool = True, self._pool, None
        if pool is None:
            return
        own = list(self._own)
        for future in own if cancel_futures else ():
            future.cancel()
        if wait:
            futures.wait(own)
        with _lock:
            _, users = _pools[self._key]
            _pools[self._key] = (pool, users - 1)
            if users == 1:
                del _pools[self._key]
        if users == 1:
            pool.shutdown(wait)


_pools: dict[tuple[str, int], tuple[ThreadPoolExecutor, int]] = {}
"""By name and process: the pool, and how many routers use it."""
_lock = threading.Lock()
# A fork waits until nobody holds it: else the child could never get it.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
