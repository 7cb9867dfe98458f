"""What the parts of a router work with, whichever space they are for: store, clock, settings, observers, remotes."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kingly_memory.dataclass import dataclass, field
from kingly_memory.observe import Events
from kingly_memory.ports import Clock, LocalStore, Remote, StoreReader, Transaction
from kingly_memory.router.callers import Callers
from kingly_memory.router.delivery.routes import UNNAMED, Route
from kingly_memory.settings import Settings

T = TypeVar("T")


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
