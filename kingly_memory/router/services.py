"""What the parts of a router work with, whichever space they are for: store, clock, settings, observers, remotes."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from kingly_memory.dataclass import dataclass, field
from kingly_memory.models import Memory
from kingly_memory.observe import Events
from kingly_memory.ports import Clock, LocalStore, Outcome, Remote, StoreReader, Transaction
from kingly_memory.router.delivery.routes import UNNAMED, Route
from kingly_memory.settings import Settings

T = TypeVar("T")


class Remembering(Protocol):
    """Holds memories in this process beside the store."""

    def take_away(self, memory: Memory) -> None:
        """It was forgotten, put away or purged. From any thread."""
        ...


class Departures:
    """What is left of memories in this process and in the audit when they go, whoever took them away."""

    def __init__(self, erase_records: Callable[[Sequence[str]], int] = lambda _: 0) -> None:
        """`erase_records` takes records with one of these texts out of the audit, and counts them."""
        self._erase_records = erase_records
        self.remembering = WeakSet[Remembering]()

    def take_away(self, memories: Iterable[Memory]) -> None:
        for memory in memories:
            for one in self.remembering:
                one.take_away(memory)

    async def purged(self, memories: Sequence[Memory]) -> int:
        """They are to leave no trace. How many records went. Raises StoreUnwritable."""
        self.take_away(memories)
        return await asyncio.to_thread(self._erase_records, [one.content for one in memories]) if memories else 0


@dataclass(frozen=True, slots=True)
class Services:
    """The same for everything that one router does. `chance` is a random number in [0, 1)."""

    store: LocalStore
    clock: Clock
    settings: Settings
    events: Events
    chance: Callable[[], float]
    departures: Departures = field(default_factory=Departures)

    @property
    def reader(self) -> StoreReader:
        return self.store.reader

    def now_s(self) -> float:
        """Unix seconds."""
        return self.clock.now().timestamp()

    async def write(self, change: Callable[[Transaction], T]) -> T:
        """Run a change in a transaction; it is durable when this returns. Cancelling the wait leaves it to go on.
        Raises StoreError, and what the change raises."""
        waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.store.submit(change, waiting, _committed)
        return await waiting


def _committed(outcomes: Sequence[tuple[asyncio.Future[Any], Outcome]]) -> None:
    """On the writer's thread: wake each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for one in outcomes:
        loops.setdefault(one[0].get_loop(), []).append(one)
    for loop, own in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all who waited there
            loop.call_soon_threadsafe(_tell, own)


def _tell(outcomes: Sequence[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for waiting, outcome in outcomes:
        if waiting.done():  # nobody waits any more
            continue
        if outcome.error is None:
            waiting.set_result(outcome.value)
        else:
            waiting.set_exception(outcome.error)


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A remote that a router works with: the port, its stable name and address, which process may deliver to it on this
    machine, what people call it, and when it last answered anything, on the monotonic clock."""

    name: str
    endpoint: str
    remote: Remote
    leads: Callable[[], bool]
    stop_leading: Callable[[], None]
    label: str = UNNAMED
    heard_s: Callable[[], float] = lambda: -math.inf
    token_mark: str = ""

    @property
    def route(self) -> Route:
        return Route(self.name, self.label, self.endpoint, self.token_mark)
