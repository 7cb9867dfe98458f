"""How a hub finds by meaning: each memory has a vector beside it, and those of the projects that are asked are compared
in this process, as a home compares its own, whichever store keeps them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hub.recall import Lasting
from kingly_memory.models import JsonObject, MemoryStatus
from kingly_memory.observe import log
from kingly_memory.ports import HOME, INCARNATION, Embedder, LocalStore
from kingly_memory.router.search.embedding import BATCH, give_vectors
from kingly_memory.router.search.meaning import MeaningSearch, VectorSearch

MOST = 400_000
"""Memories whose vectors are kept in the process, some 150 MB: those of the projects that were asked last."""
_LOOK_S = 0.02
_COLLECT_S = 0.05
"""A store is often followed by others, whose vectors then share a commit."""
_AGAIN_S = 5.0
"""After the store could not be reached."""


class Vectors:
    """Makes the vectors of what is stored, just behind it, and searches by them. Safe from any thread."""

    def __init__(self, store: LocalStore, name: str, new_embedder: Callable[[], Embedder], words_weight: float) -> None:
        """What has that name gives the same embedder each time, and loads it the first time. `words_weight` as in the
        settings."""
        self.name = name
        self._new_embedder = new_embedder
        self._store = store
        self._words_weight = words_weight
        self._lock = threading.Lock()
        self._searches: dict[str, _ByMeaning] = {}
        """By project; the one that was asked last stands last."""
        self._incarnation: JsonObject | None = None
        self._reading = ThreadPoolExecutor(1, "hub-vectors-read")
        self._making = threading.Thread(target=self._run, name="hub-vectors", daemon=True)
        self._wanted: dict[str, dict[str, None]] = {}
        """The ids of memories that wait for a vector, by project."""
        self._is_complete = False
        """Whether all that lay in the store at the start was looked through."""
        self._is_woken = threading.Event()
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Make vectors in the background: first of what was stored without."""
        self._making.start()

    def close(self) -> None:
        """Finish what is being written, and begin nothing more. What still waits is made after the next start."""
        self._is_closed.set()
        self._is_woken.set()
        if self._making.is_alive():
            self._making.join()
        self._reading.shutdown(cancel_futures=True)

    def want(self, space: str, memory_ids: Sequence[str]) -> None:
        """Have vectors made of memories that were committed."""
        if memory_ids:
            with self._lock:
                self._wanted.setdefault(space, {}).update(dict.fromkeys(memory_ids))
            self._is_woken.set()

    def catch_up(self) -> None:
        """Give a vector to every memory that has none. Raises StoreError; it then begins with all of them again."""
        try:
            for space in () if self._is_complete else self._store.reader.counted_spaces():
                self._complete(space)
            self._is_complete = True
            while not self._is_closed.is_set() and (wanted := self._take()):
                space, memory_ids = wanted
                rows = self._store.reader.rows(memory_ids, math.inf).values()
                live = [row.memory for row in rows if row is not None and row.status is MemoryStatus.LIVE]
                give_vectors(self._store, self._new_embedder(), space, live)
        except KinglyMemoryError:
            self._is_complete = False
            raise

    def search(self, space: str) -> MeaningSearch:
        """The search of a project. Its vectors are read in the background once it is asked."""
        incarnation = self._store.reader.facet(HOME, INCARNATION)
        with self._lock:
            if incarnation != self._incarnation:  # the store was restored, and gives its places anew
                self._searches.clear()
                self._incarnation = incarnation
            found = self._searches.pop(space, None)
            if found is None:
                vectors = VectorSearch(space, self._new_embedder, self._store.reader.vectors)
                found = _ByMeaning(
                    self._store.reader,
                    vectors=vectors,
                    words_weight=self._words_weight,
                    hurry=lambda: self._read(vectors),
                    repairs=False,
                )
            self._searches[space] = found
            while len(self._searches) > 1 and sum(map(len, self._searches.values())) > MOST:
                del self._searches[next(iter(self._searches))]
        found.look_again()
        return found

    def _run(self) -> None:
        complaint = None
        while not self._is_closed.is_set():
            self._is_woken.clear()
            try:
                self.catch_up()
                complaint = None
                self._is_closed.wait(_COLLECT_S)
                self._is_woken.wait()
            except KinglyMemoryError as error:
                if str(error) != complaint:  # a database may be read-only for good
                    log.warning("some memories are not found by their meaning for now: %s", error)
                complaint = str(error)
                self._is_closed.wait(_AGAIN_S)

    def _complete(self, space: str) -> None:
        position = 0
        while not self._is_closed.is_set():
            lacking = self._store.reader.vectors.lacking(self.name, space, position, BATCH)
            if not lacking:
                return
            give_vectors(self._store, self._new_embedder(), space, [row.memory for row in lacking])
            position = lacking[-1].position

    def _take(self) -> tuple[str, list[str]] | None:
        """Some of the memories of one project that wait."""
        with self._lock:
            for space, waiting in self._wanted.items():
                taken = list(islice(waiting, BATCH))
                for memory_id in taken:
                    del waiting[memory_id]
                if not waiting:
                    del self._wanted[space]
                return space, taken
        return None

    def _read(self, vectors: VectorSearch) -> None:
        if not self._is_closed.is_set():
            self._reading.submit(vectors.load)


class _ByMeaning(Lasting, MeaningSearch):
    def __len__(self) -> int:
        """Of how many memories it has the vectors."""
        return len(self._vectors)

    def look_again(self) -> None:
        """Read the first vectors of a project that had none: a search reads on behind those that it has."""
        if self._vectors.is_loaded and not len(self):
            self._vectors.load(time.monotonic() + _LOOK_S)
