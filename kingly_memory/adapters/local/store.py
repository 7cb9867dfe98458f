"""The local layer: one hardened diskcache per home, written by one thread and read over raw connections."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.damage import Inode, Malformed
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.reader import Reader
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
        """Raises StoreDamaged when memories were kept in this home and are gone."""
        self._folder = Folder(home)
        self._synchronous = sql.SYNCHRONOUS[durability]
        self._lock_wait_s = lock_wait_s
        self._connections = Connections(self._folder, self._recover)
        self._reader = Reader(self._connections)
        self._writers: dict[int, Writer] = {}
        self._mended: Inode | None = None
        self._check_not_lost()

    @property
    def reader(self) -> Reader:
        return self._reader

    def write(self, change: Callable[[Transaction], T]) -> Future[T]:
        writer = self._writers.get(os.getpid()) or self._new_writer()
        return writer.submit(change)

    def versions(self) -> Mapping[str, str]:
        layout = self._connections.layout() or sql.LAYOUT
        return {"layout": str(layout), "sqlite": sqlite3.sqlite_version}

    def recovered(self) -> str | None:
        """The folder in which the newest damaged store is kept, if one ever had to be replaced and is still there."""
        quarantined = self._folder.quarantined
        return None if quarantined is None else str(quarantined)

    def close(self) -> None:
        writer = self._writers.get(os.getpid())
        if writer is not None:
            writer.close()
        self._connections.close()

    def _new_writer(self) -> Writer:
        """By process: a fork leaves its parent's writer thread behind. One that loses a race has done no harm."""
        from kingly_memory.adapters.local.engine import Engine
        from kingly_memory.adapters.local.writer import Writer

        engine = Engine(
            self._folder, synchronous=self._synchronous, lock_wait_s=self._lock_wait_s, recover=self._recover_locked
        )
        return self._writers.setdefault(os.getpid(), Writer(engine))

    def _recover(self, damage: Malformed) -> None:
        with locked(self._folder.write_lock, self._lock_wait_s):
            self._recover_locked(damage)

    def _recover_locked(self, damage: Malformed) -> None:
        """Once per store: one that we have just put together and that fails again is left to a person."""
        from kingly_memory.adapters.local.recovery import recover

        if damage.inode is not None and damage.inode == self._mended:
            raise damage
        recover(self._folder, damage)
        self._mended = self._folder.inode()

    def _check_not_lost(self) -> None:
        try:
            self._folder.check_not_lost()
        except Malformed as damage:
            self._recover(damage)
