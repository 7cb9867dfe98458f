"""How a hub finds by meaning: each memory has a vector beside it, and those of the projects that are asked are compared
in this process, as a home compares its own, whichever store keeps them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from kingly_memory.errors import StoreError
from kingly_memory.hub.recall import Lasting
from kingly_memory.models import JsonObject
from kingly_memory.observe import log
from kingly_memory.ports import HOME, INCARNATION, Embedder, LocalStore
from kingly_memory.router.search.embedding import BATCH, give_vectors
from kingly_memory.router.search.meaning import MeaningSearch, VectorSearch

MOST = 400_000
"""Memories whose vectors are kept in the process, some 150 MB: those of the projects that were asked last."""
_LOOK_S = 0.02
_AGAIN_S = 60.0
"""After the store could not be reached."""


class Vectors:
    """Searches by meaning, and the vectors of what was stored without them. Safe from any thread."""

    def __init__(self, store: LocalStore, embedder: Embedder, words_weight: float) -> None:
        """The embedder is a light one: whoever stores waits for it. `words_weight` as in the settings."""
        self.embedder = embedder
        self._store = store
        self._words_weight = words_weight
        self._lock = threading.Lock()
        self._searches: dict[str, _ByMeaning] = {}
        """By project; the one that was asked last stands last."""
        self._incarnation: JsonObject | None = None
        self._threads = ThreadPoolExecutor(2, "hub-vectors")
        self._is_closed = threading.Event()

    def search(self, space: str) -> MeaningSearch:
        """The search of a project. Its vectors are read in the background once it is asked."""
        incarnation = self._store.reader.facet(HOME, INCARNATION)
        with self._lock:
            if incarnation != self._incarnation:  # the store was restored, and gives its places anew
                self._searches.clear()
                self._incarnation = incarnation
            found = self._searches.pop(space, None)
            if found is None:
                vectors = VectorSearch(space, lambda: self.embedder, self._store.reader.vectors)
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

    def complete(self) -> Future[None]:
        """Give a vector to every memory that has none, in the background: to those that were there before the embedder
        was."""
        return self._threads.submit(self._complete)

    def close(self) -> None:
        """Finish what is being written, and begin nothing more."""
        self._is_closed.set()
        self._threads.shutdown(cancel_futures=True)

    def _complete(self) -> None:
        while not self._is_closed.is_set():
            try:
                for space in self._store.reader.counted_spaces():
                    self._complete_space(space)
                return
            except StoreError as error:
                log.warning("older memories are not found by their meaning for now: %s", error)
                self._is_closed.wait(_AGAIN_S)

    def _complete_space(self, space: str) -> None:
        position = 0
        while not self._is_closed.is_set():
            lacking = self._store.reader.vectors.lacking(self.embedder.name, space, position, BATCH)
            if not lacking:
                return
            give_vectors(self._store, self.embedder, space, [row.memory for row in lacking])
            position = lacking[-1].position

    def _read(self, vectors: VectorSearch) -> None:
        if not self._is_closed.is_set():
            self._threads.submit(vectors.load)


class _ByMeaning(Lasting, MeaningSearch):
    def __len__(self) -> int:
        """Of how many memories it has the vectors."""
        return len(self._vectors)

    def look_again(self) -> None:
        """Read the first vectors of a project that had none: a search reads on behind those that it has."""
        if self._vectors.is_loaded and not len(self):
            self._vectors.load(time.monotonic() + _LOOK_S)
