"""What of the engine its own parts use: the searches, and whoever asks a language model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from kingly_memory.ports import Clock, StoreReader, Transaction
from kingly_memory.settings import Settings

T = TypeVar("T")


class Access(Protocol):
    """The way to the store of one router. Implemented by `router.engine.Engine`, which knows those parts in turn, and
    which says of each what it does and raises."""

    @property
    def space(self) -> str: ...

    @property
    def reader(self) -> StoreReader: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def settings(self) -> Settings: ...

    async def read(self, look: Callable[[], T]) -> T: ...

    def write(self, change: Callable[[Transaction], T]) -> Awaitable[T]: ...
