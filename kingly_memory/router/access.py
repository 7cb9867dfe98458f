"""How verbs that stand outside the router's class reach its store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kingly_memory.ports import StoreReader, Transaction
from kingly_memory.router.write import WriteContext

T = TypeVar("T")


class Read(Protocol):
    """Looks on a reader thread. Raises RouterClosed, StoreError."""

    def __call__(self, look: Callable[[], T]) -> Awaitable[T]: ...


class Write(Protocol):
    """Runs a change in a transaction. Raises RouterClosed, StoreError, and what the change raises."""

    def __call__(self, change: Callable[[Transaction], T]) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Access:
    """`desk` is made anew for each change, since it says what time it is. `wake` is told which memories were stored."""

    reader: StoreReader
    read: Read
    write: Write
    write_context: Callable[[], WriteContext]
    wake: Callable[..., None]
