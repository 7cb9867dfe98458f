"""The local layer: one hardened diskcache per home, written by one thread and read over raw connections."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.reader import Reader
from kingly_memory.errors import StoreDamaged
from kingly_memory.ports import Transaction

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kingly_memory.adapters.local.writer import Writer

T = TypeVar("T")


class DiskStore:
    """Implements ports.LocalStore over `<home>/store`. Nothing is created before the first write.

    `durability`: `power` survives a power cut (fsync per commit), `process` survives kill -9 and is several times
    faster. `lock_wait_s`: how long a write waits for other processes before it fails with StoreBusy.
    """

    def __init__(
        self, home: Path, *, durability: Literal["power", "process"] = "power", lock_wait_s: float = 5.0
    ) -> None:
        self._folder = Folder(home)
        self._synchronous = sql.SYNCHRONOUS[durability]
        self._lock_wait_s = lock_wait_s
        self._reader = Reader(self._folder)
        self._writer: Writer | None = None
        self._pid = os.getpid()
        self._check_founded()

    @property
    def reader(self) -> Reader:
        return self._reader

    def write(self, change: Callable[[Transaction], T]) -> Future[T]:
        if self._writer is None or self._pid != os.getpid():
            self._writer = self._new_writer()
        return self._writer.submit(change)

    def versions(self) -> Mapping[str, str]:
        layout = self._reader.layout() or sql.LAYOUT
        return {"layout": str(layout), "sqlite": sqlite3.sqlite_version}

    def close(self) -> None:
        if self._writer is not None and self._pid == os.getpid():
            self._writer.close()
        self._reader.close()

    def _new_writer(self) -> Writer:
        """A fork leaves its parent's writer thread behind, so the child makes its own."""
        from kingly_memory.adapters.local.engine import Engine
        from kingly_memory.adapters.local.writer import Writer

        self._pid = os.getpid()
        return Writer(Engine(self._folder, synchronous=self._synchronous, lock_wait_s=self._lock_wait_s))

    def _check_founded(self) -> None:
        if not self._folder.founded.exists():
            return
        database = self._folder.database
        if not database.exists() or database.stat().st_size == 0:
            raise StoreDamaged(
                str(self._folder.store), "cache.db is missing or empty, although memories were kept here"
            )
