"""What the engine offers to verbs that have a class of their own, such as those on threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from kingly_memory.models import Receipt
from kingly_memory.ports import Clock, InjectionLog, Searcher, StoreReader, Transaction
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.settings import Settings
from kingly_memory.validation import Draft

T = TypeVar("T")


class Access(Searcher, Protocol):
    """The way to the store of one router. Implemented by `router.engine.Engine`, which knows the verbs in turn."""

    @property
    def space(self) -> str: ...

    @property
    def reader(self) -> StoreReader: ...

    @property
    def injections(self) -> InjectionLog | None: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def settings(self) -> Settings: ...

    async def read(self, look: Callable[[], T]) -> T:
        """Look on a reader thread. Raises RouterClosed, StoreError, and what the look raises."""
        ...

    def write(self, change: Callable[[Transaction], T]) -> Awaitable[T]:
        """Run a change in a transaction; it is durable when this has been awaited. Raises RouterClosed, StoreError, and
        what the change raises."""
        ...

    def write_context(self) -> WriteContext:
        """What a change needs to know, as of now: made anew for each."""
        ...

    def put(self, draft: Draft, *, noted: bool = True) -> Awaitable[Receipt]:
        """Store a draft as `store` does: durable and searchable when this has been awaited. Raises StoreError.

        `noted=False` leaves it out of the working context that it names.
        """
        ...

    async def keep(self, change: Callable[[Transaction], Stored]) -> Receipt:
        """Run a change that stores a memory, with what comes after a store. Raises what `write` raises."""
        ...

    def wake(self) -> None:
        """Something was stored."""
        ...
