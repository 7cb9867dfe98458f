"""What happened, as past-tense events. Logs carry their names and facts, never a memory's text or a secret."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kingly_memory.dataclass import dataclass, field
from kingly_memory.models import Memory

log = logging.getLogger("kingly_memory")


@dataclass(frozen=True, slots=True)
class MemoryStored:
    """The local transaction is durable."""

    memory_id: str
    revision: int
    took_ms: float = 0.0
    """With waiting for the disk; of memories that were stored together, the time of all of them."""


@dataclass(frozen=True, slots=True)
class MemoriesForgotten:
    """They are out of sight here."""

    memory_ids: tuple[str, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class MemoriesFound:
    """A search has answered, with these memories and how relevant each is. The texts are in no log."""

    source: str
    took_ms: float
    query: str = field(repr=False)
    found: tuple[tuple[Memory, float], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeliveryStarted:
    """The outbox is about to be claimed from."""

    remote: str


@dataclass(frozen=True, slots=True)
class MemoriesLeased:
    """These memories are this process's to send until the lease lapses."""

    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemorySent:
    """The remote answered; the acknowledgement is not written yet."""

    memory_id: str


@dataclass(frozen=True, slots=True)
class MemoryDelivered:
    """The acknowledgement is durable."""

    memory_id: str
    remote_id: str | None


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """The remote did not take it; it waits, or is dead."""

    memory_id: str
    key: str | None
    reason: str
    dead: bool


@dataclass(frozen=True, slots=True)
class LinkChanged:
    """The link went to another state."""

    state: str
    reason: str | None
    remote: str | None = None
    """The remote's name, where it has one."""


@dataclass(frozen=True, slots=True)
class MemoriesSwept:
    """A sweep has carried out its plan."""

    archived: int
    erased: int
    promoted: int
    demoted: int


Event = (
    MemoryStored
    | MemoriesForgotten
    | MemoriesFound
    | DeliveryStarted
    | MemoriesLeased
    | MemorySent
    | MemoryDelivered
    | DeliveryFailed
    | LinkChanged
    | MemoriesSwept
)
Observer = Callable[[Event], None]
