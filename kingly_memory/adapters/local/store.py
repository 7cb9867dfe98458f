"""The local layer: one hardened diskcache per home, written by one thread and read over raw connections."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from weakref import WeakSet

from kingly_memory.adapters.local import safety, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.reader import Reader
from kingly_memory.adapters.local.safety import Inode, Malformed
from kingly_memory.errors import RouterClosed, StoreError
from kingly_memory.ports import HOME, READ, Scrubbed, Transaction

if TYPE_CHECKING:
    import asyncio
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future
    from queue import SimpleQueue

    from kingly_memory.adapters.local.engine import Engine, Outcome
    from kingly_memory.adapters.local.transaction import DiskTransaction
    from kingly_memory.models import Backup, JsonObject, Memory

T = TypeVar("T")
LARGEST_BATCH = 256
"""Changes that one commit takes together."""
A_DAY_S = 0.9 * 86_400
"""A sweep that comes every day comes a little earlier now and then."""
MOST_DAMAGED = 1_000
"""Names of damaged rows that are noted."""
_UNREAD: JsonObject = {"share": 0, "at": 0.0, "began": 0.0, "whole": None, "damaged": []}

Job = tuple[Any, Any, "AbstractEventLoop | None"]
"""What is to be committed, the future of whoever waits for it, and the event loop that this belongs to, if to one."""
_Settled = tuple[Any, "Outcome"]
"""Such a future, and what became of the change."""


class DiskStore:
    """Implements ports.LocalStore over `<home>/store`. Nothing is created before the first write.

    Changes that wait together are committed together and share one fsync. After a fork the child has a writer and
    connections of its own; what waited in the parent is stored by the parent alone.

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
        self._connections = Connections(self._folder, self._recover, self._upgrade)
        self.reader = Reader(self._connections)
        self._mended: Inode | None = None
        self._closed = False
        self._begin()
        try:
            self._folder.check_not_lost()
        except Malformed as damage:
            self._recover(damage)
        _stores.add(self)

    def _begin(self) -> None:
        self._lock, self._committing = threading.RLock(), threading.RLock()
        self._jobs: SimpleQueue[Job | None] | None = None
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        from concurrent.futures import Future  # loads logging, which a command that only reads does without

        future: Future[T] = Future()
        self._submit(change, future, None)
        return future

    def commit(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> asyncio.Future[T]:
        loop = sys.modules["asyncio"].get_running_loop()  # whoever awaits this has loaded it; an import takes 0.3 µs
        waiting: asyncio.Future[T] = loop.create_future()
        self._submit(change, waiting, loop)
        return waiting

    def _submit(self, change: Callable[[Transaction], Any], waiting: Any, loop: AbstractEventLoop | None) -> None:
        with self._lock:  # a fork waits for it, so that no child finds an import half done
            if self._closed:
                raise RouterClosed
            if self._jobs is None:
                from queue import SimpleQueue

                from kingly_memory.adapters.local.engine import Engine

                self._jobs = SimpleQueue()
                self._engine = Engine(
                    self._folder,
                    synchronous=self._synchronous,
                    lock_wait_s=self._lock_wait_s,
                    recover=self._recover_locked,
                    committing=self._committing,
                )
                self._thread = threading.Thread(
                    target=self._work, args=(self._engine, self._jobs), name="kingly-writer"
                )
                self._thread.daemon = True
                self._thread.start()
            self._jobs.put((change, waiting, loop))

    def versions(self) -> Mapping[str, str]:
        layout = self._connections.layout() or sql.LAYOUT
        return {"layout": str(layout), "sqlite": sqlite3.sqlite_version}

    def scrub(self, memory_ids: Collection[str], spaces: Sequence[str] = ()) -> Scrubbed:
        from kingly_memory.adapters.local.scrubbing import scrub

        return scrub(self._folder, memory_ids, spaces, self._lock_wait_s)

    def read_all(self, now_s: float) -> list[str]:
        def change(transaction: Transaction) -> list[str]:
            found = cast("DiskTransaction", transaction).read_all()
            memories = [name for name in found if name.startswith("memory ")]  # which `status` does not count
            noted = {"share": 0, "at": now_s, "began": now_s, "whole": now_s, "damaged": memories[:MOST_DAMAGED]}
            transaction.set_facet(HOME, READ, noted)
            return found

        return self.write(change).result()

    def note_damaged(self, memory_ids: Sequence[str]) -> None:
        noted = self.reader.facet(HOME, READ) or _UNREAD
        known = dict.fromkeys([*noted["damaged"], *(f"memory {one}" for one in memory_ids)])
        if len(known) > len(noted["damaged"]):
            noted = {**noted, "damaged": list(known)[:MOST_DAMAGED]}
            self.write(lambda transaction: transaction.set_facet(HOME, READ, noted)).result()

    def read_share(self, now_s: float) -> None:
        noted = self.reader.facet(HOME, READ) or _UNREAD
        if 0 <= now_s - noted["at"] < A_DAY_S:
            return
        share = noted["share"]
        damaged = [*noted["damaged"], *safety.damaged_rows(self._connections.rows, share, share + 1)]
        began = noted["began"] if share else now_s
        noted = {
            "share": (share + 1) % sql.SHARES,
            "at": now_s,
            "began": began,
            "whole": began if share + 1 == sql.SHARES else noted["whole"],
            "damaged": list(dict.fromkeys(damaged))[:MOST_DAMAGED],
        }
        self.write(lambda transaction: transaction.set_facet(HOME, READ, noted)).result()

    def recovered(self) -> str | None:
        quarantined = self._folder.quarantined
        return None if quarantined is None else str(quarantined)

    def backup(self, file: Path) -> Backup:
        from kingly_memory.adapters.local.backup import create

        return create(self._folder.home, file)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            jobs = self._jobs
        self._connections.close()  # first: SQLite folds the WAL in only where the writer is the last to close
        if thread is not None and jobs is not None:
            jobs.put(None)
            thread.join()
        self._connections.close()

    @staticmethod
    def _work(engine: Engine, jobs: SimpleQueue[Job | None]) -> None:
        def commit(changes: Sequence[Any], tell: Callable[[], None]) -> Sequence[Outcome]:
            tell()
            return engine.commit(changes)

        commit_together(commit, jobs)
        engine.close()  # SQLite wants the thread that opened it

    def _upgrade(self) -> None:
        self.write(lambda _: None).result()  # a writer upgrades what it opens

    def _recover(self, damage: Malformed) -> None:
        if self._jobs is not None:
            with suppress(StoreError, RouterClosed):  # our own writer may have a log that was deleted
                self.write(lambda _: None).result()
        with locked(self._folder.write_lock, self._lock_wait_s):
            self._recover_locked(damage)

    def _recover_locked(self, damage: Malformed) -> None:
        """Once per store: one that we have just put together and that fails again is left to a person."""
        from kingly_memory.adapters.local.recovery import recover

        if damage.inode is not None and damage.inode == self._mended:
            raise damage
        recover(self._folder, damage)
        self._mended = self._folder.inode()

    # --- forks

    def _in_child(self) -> None:
        if self._engine is not None:
            self._engine.forked()
        # SQLite must not even close what the parent has open.
        _inherited.append((self._engine, self._connections.forked()))
        self._begin()


def commit_together(
    commit: Callable[[Sequence[Any], Callable[[], None]], Sequence[Outcome]],
    jobs: SimpleQueue[Job | None],
    most: int = LARGEST_BATCH,
) -> None:
    """The writer thread of a store: wait for one job, take whatever else is there, `most` of them, and tell all who
    wait what became of theirs. None says that no more will come.

    `commit` is given the changes of a batch, and a function that tells those who wait for the batch before. It may call
    that while it waits for the commit itself: what they do next is then done meanwhile. Else they are told after it."""
    committed: list[tuple[Job, Outcome]] = []

    def tell() -> None:
        by_loop: dict[AbstractEventLoop | None, list[_Settled]] = {}
        for (_, waiting, loop), outcome in committed:
            by_loop.setdefault(loop, []).append((waiting, outcome))
        committed.clear()
        for loop, own in by_loop.items():
            if loop is None:
                _tell([waited for waited in own if waited[0].set_running_or_notify_cancel()])
            else:  # each loop is woken once: with each wake it takes the interpreter from this thread
                with suppress(RuntimeError):  # the loop has ended, and with it all who waited there
                    loop.call_soon_threadsafe(_tell, own)

    job = jobs.get()
    while job is not None:
        batch = [job]
        while len(batch) < most and not jobs.empty() and (job := jobs.get()) is not None:
            batch.append(job)
        try:
            outcomes = commit([change for change, *_ in batch], tell)
        except Exception as error:  # noqa: BLE001  # the thread outlives any failed commit; all who wait are told
            outcomes = [(None, error)] * len(batch)
        tell()
        committed += zip(batch, outcomes, strict=True)
        if jobs.empty():
            tell()
        if job is not None:
            job = jobs.get()
    tell()


def _tell(outcomes: Sequence[_Settled]) -> None:
    for waiting, (value, error) in outcomes:
        if waiting.done():  # nobody waits any more
            continue
        if error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)


_stores: WeakSet[DiskStore] = WeakSet()
_forking: list[DiskStore] = []
_inherited: list[object] = []


def _locks() -> list[threading.RLock]:
    return [lock for store in _forking for lock in (store._committing, store._lock)]  # noqa: SLF001


def _before_fork() -> None:
    """Nobody forks in the middle of a commit: the child would hold its lock, and half of it."""
    _forking[:] = _stores
    for lock in _locks():
        lock.acquire()


def _after_fork() -> None:
    for lock in _locks():
        lock.release()
    _forking.clear()


def _in_child() -> None:
    for store in _forking:
        store._in_child()  # noqa: SLF001
    _forking.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
