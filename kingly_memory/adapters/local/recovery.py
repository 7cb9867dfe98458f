"""Going on after damage: what still reads moves into a new store, the damaged one is kept beside it.

The new store is finished before the old one is moved, so an interruption at any point loses nothing: up to then the old
store is still in its place, and afterwards the next opening only has to rename.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.damage import Malformed
from kingly_memory.adapters.local.engine import Engine
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.salvage import Facet, Found, Unreadable, found_rows
from kingly_memory.errors import StoreUnwritable
from kingly_memory.ports import Row, Transaction

log = logging.getLogger("kingly_memory.store")

BATCH = 500
"""Rows per transaction."""


@dataclass(slots=True)
class _Saved:
    memories: int = 0
    facets: int = 0
    keys: int = 0
    unreadable: int = 0

    def count(self, found: Sequence[Found]) -> None:
        memories = [one.memory for one in found if isinstance(one, Row)]
        self.memories += len(memories)
        self.keys += sum(memory.key is not None for memory in memories)
        self.facets += sum(isinstance(one, Facet) for one in found)
        self.unreadable += sum(isinstance(one, Unreadable) for one in found)

    def __str__(self) -> str:
        lost = f"; {self.unreadable} rows could not be read" if self.unreadable else ""
        return f"{self.memories} memories, {self.facets} facets and {self.keys} keys were saved{lost}"


def recover(folder: Folder, damage: Malformed) -> None:
    """Put a whole store in the place of the damaged one, unless another process has done so already. The caller holds
    the write lock. Raises StoreUnwritable, StoreUntrusted."""
    if folder.inode() != damage.inode:
        return
    try:
        _replace(folder, damage)
    except OSError as error:
        raise StoreUnwritable(str(folder.home), error.strerror or "error") from error


def _replace(folder: Folder, damage: Malformed) -> None:
    fresh, told = folder.salvaged, "what could be read was saved before"
    fresh.check()
    if folder.exists():
        folder.check()
        if fresh.store.exists():
            shutil.rmtree(fresh.store)  # of an attempt that was interrupted
        told = str(_refill(folder, fresh))
        folder.store.rename(folder.quarantine())
    fresh.store.rename(folder.store)
    folder.sync()
    folder.note_closed()
    log.warning(
        "the memory store in %s was damaged (%s) and has been replaced: %s. The damaged files are kept in %s",
        folder.store,
        damage.problem,
        told,
        folder.quarantined,
    )


def _refill(damaged: Folder, fresh: Folder) -> _Saved:
    """Copy every readable row, in the order in which they were stored."""
    fresh.make()
    engine = Engine(fresh, synchronous=sql.SYNCHRONOUS["power"], lock_wait_s=0)
    saved = _Saved()
    try:
        engine.commit_locked([])  # so that there is a store, even without a row to keep
        found = found_rows(damaged, fresh)
        while batch := list(islice(found, BATCH)):
            (outcome,) = engine.commit_locked([partial(_copy, batch)])
            if outcome.error is not None:
                raise outcome.error
            saved.count(batch)
    finally:
        engine.release()
    return saved


def _copy(found: Sequence[Found], transaction: Transaction) -> None:
    for one in found:
        if isinstance(one, Row):
            transaction.save(one.memory, one.standing)
        elif isinstance(one, Facet):
            transaction.set_facet(one.name, one.owner, one.value)
