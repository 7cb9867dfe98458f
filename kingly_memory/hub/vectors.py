"""How a hub finds by meaning: each memory has a vector beside it, and those of the projects that are asked are compared
in this process, as a home compares its own, whichever store keeps them."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hub.documents import is_of_documents
from kingly_memory.hub.recall import Lasting
from kingly_memory.models import JsonObject, MemoryStatus
from kingly_memory.observe import log
from kingly_memory.ports import HOME, INCARNATION, Embedder, LocalStore, Row
from kingly_memory.router.search.embedding import BATCH, give_vectors
from kingly_memory.router.search.meaning import MeaningSearch, VectorSearch

MOST, MOST_PROJECTS = 1_200_000, 200
"""Vectors that are kept in the process, some 1 GB, and of how many projects: of those that were asked last. Another
project is searched by words until its vectors are read, so all that is asked again and again should fit."""
_BITE_CHARACTERS = 16_384
"""Of memories whose vectors are made and written together: what may hold up the end of the hub, and other writers."""
_LOOK_S = 0.02
"""For the first vectors of a project that had none."""
_COLLECT_S = 0.05
"""A store is often followed by others, whose vectors then share a commit."""
_RESTORED_S = 1.0
"""Between two looks whether another store lies there, restored from a backup."""
_AGAIN_S = 5.0
"""Until the next try, where the store fails."""


class Vectors:
    """Makes the vectors of what is stored, just behind it, and searches by them. Safe from any thread."""

    def __init__(self, store: LocalStore, name: str, new_embedder: Callable[[], Embedder], words_weight: float) -> None:
        """`new_embedder` gives the embedder of that name, which its first call loads. `words_weight` as in the
        settings."""
        self.name = name
        self._new_embedder = new_embedder
        self._store = store
        self._words_weight = words_weight
        self._lock = threading.Lock()
        self._searches: dict[str, _ByMeaning] = {}
        """By project; the one that was asked last stands last."""
        self._incarnation: JsonObject | None = None
        self._looked_s = -math.inf
        """When the incarnation was last read."""
        self._reading = ThreadPoolExecutor(1, "hub-vectors-read")
        self._making = threading.Thread(target=self._run, name="hub-vectors", daemon=True)
        self._wanted: dict[str, dict[str, None]] = {}
        """The ids of memories that wait for a vector, by project."""
        self._is_complete = False
        """Whether all that lies in the store was looked through."""
        self._is_woken = threading.Event()
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Make vectors in the background: first of what was stored without."""
        self._making.start()

    def close(self) -> None:
        """Finish what is being written, and begin nothing more. What still waits is made after the next start."""
        self._is_closed.set()
        self._is_woken.set()
        with self._lock:
            for one in self._searches.values():
                one.stop()
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
        """Give a vector to every memory that has none. Raises StoreError, EmbedderFailed; the next call then looks
        through all of them again."""
        try:
            if not self._is_complete:
                self._is_complete = True
                for space in self._store.reader.counted_spaces():
                    if not is_of_documents(space):
                        self._complete(space)
            with self._lock:
                wanted, self._wanted = self._wanted, {}
            for space, memory_ids in wanted.items():
                rows = self._store.reader.rows([*memory_ids], math.inf).values()
                self._give(space, [row for row in rows if row is not None and row.status is MemoryStatus.LIVE])
        except BaseException:
            self._is_complete = False
            raise

    def search(self, space: str) -> MeaningSearch:
        """The search of a project. Its vectors are read in the background once it is asked."""
        looks = (now_s := time.monotonic()) >= self._looked_s + _RESTORED_S
        incarnation = self._store.reader.facet(HOME, INCARNATION) if looks else None
        with self._lock:
            if looks:
                self._looked_s = now_s
            # The store was restored: it lacks vectors, and gives places anew.
            if looks and incarnation != self._incarnation:
                self._incarnation, self._is_complete = incarnation, False
                self._searches.clear()
                self._is_woken.set()
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
            while len(self._searches) > 1 and (
                len(self._searches) > MOST_PROJECTS or sum(map(len, self._searches.values())) > MOST
            ):
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
                if not self._is_closed.wait(_COLLECT_S):
                    self._is_woken.wait()
            except Exception as error:  # noqa: BLE001  # a thread's top
                said = str(error) if isinstance(error, KinglyMemoryError) else f"{type(error).__name__}: {error}"
                if said != complaint:  # a database may be read-only for good
                    log.warning("some memories are not found by their meaning for now: %s", said)
                complaint = said
                self._is_closed.wait(_AGAIN_S)

    def _complete(self, space: str) -> None:
        position = 0
        while lacking := self._store.reader.vectors.lacking(self.name, space, position, BATCH):
            self._give(space, lacking)
            if self._is_closed.is_set():
                return
            position = lacking[-1].position

    def _give(self, space: str, rows: Iterable[Row]) -> None:
        """Make vectors, a few memories at a time."""
        waiting = deque(row.memory for row in rows)
        while waiting and not self._is_closed.is_set():
            bite, size = [waiting.popleft()], 0
            while waiting and (size := size + len(bite[-1].content)) < _BITE_CHARACTERS:
                bite.append(waiting.popleft())
            give_vectors(self._store, self._new_embedder(), space, bite)

    def _read(self, vectors: VectorSearch) -> None:
        if not self._is_closed.is_set():
            self._reading.submit(vectors.load)


class _ByMeaning(Lasting, MeaningSearch):
    def __len__(self) -> int:
        """How many vectors it keeps in memory."""
        return self._vectors.rows

    def look_again(self) -> None:
        """Read the first vectors of a project that had none: a search reads on behind those that it has."""
        if self._vectors.is_loaded and not len(self._vectors):
            self._vectors.load(time.monotonic() + _LOOK_S)

    def stop(self) -> None:
        """Read no more in the background."""
        self._vectors.is_stopped = True
