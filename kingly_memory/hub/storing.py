"""What a hub needs of its store, of which there are two: the embedded one of a home, and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Protocol, TypeVar

from kingly_memory.ports import LocalStore, StoreReader, Transaction

T = TypeVar("T")


class HubStore(Protocol):
    """Changes of one space follow each other, whoever makes them, and are read by everybody as soon as they are
    acknowledged.

    Of a reader a hub asks rows, keys, pages, revisions, facets, the feed, how many memories a space has, and what
    searches by words without repairs ask; of a transaction rows, keys, facets, `save`, `erase`, `unlearn`, `note_seen`
    and `keep_revision`.
    """

    is_shared: bool
    """Whether other hubs write to it."""

    @property
    def reader(self) -> StoreReader: ...

    def write(self, change: Callable[[Transaction], T], space: str) -> Future[T]:
        """Run a change of that space. The future resolves after the commit. Raises StoreError; then nothing is
        stored."""
        ...

    def last_change(self, space: str) -> int:
        """The last sequence of the space's feed, or one behind it."""
        ...

    def changed_since(self, space: str, sequence: int) -> int:
        """How many memories of the space lines of the feed beyond that sequence are about."""
        ...

    def size_bytes(self) -> int:
        """What it takes of its disk."""
        ...

    def scrub(self, memory_ids: Collection[str]) -> object:
        """Leave nothing of what was erased in the store's own files, as far as that is in its hands."""
        ...

    def close(self) -> None: ...


class Embedded:
    """The local layer of a home, which one hub at a time writes to."""

    is_shared = False

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self.scrub = store.scrub
        self.close = store.close

    @property
    def reader(self) -> StoreReader:
        return self._store.reader

    def write(self, change: Callable[[Transaction], T], space: str) -> Future[T]:
        return self._store.write(change)

    def last_change(self, space: str) -> int:
        return self._store.reader.last_change()

    def changed_since(self, space: str, sequence: int) -> int:
        return self._store.reader.changed_since(space, sequence)

    def size_bytes(self) -> int:
        return self._store.reader.size_bytes()
