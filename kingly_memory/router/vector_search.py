"""The vectors of one project in memory: kept in step with the store, whoever writes to it, and searched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.models import JsonObject
from kingly_memory.ports import Embedder, StoreReader
from kingly_memory.retrieval.vectors import unpacked

if TYPE_CHECKING:
    from kingly_memory.retrieval.matrix import Matrix

PAGE = 200
"""Vectors that are read in one go, some milliseconds."""
PAGES_A_SEARCH = 2
"""What a search itself reads of what others have written meanwhile; the rest is read in the background."""


class Near(NamedTuple):
    """What the vectors say to a question: similarities (0-1) by id, and the revision that each vector was made of."""

    similarities: dict[str, float]
    revisions: dict[str, int]


class VectorSearch:
    """Finds the memories whose vectors are nearest to a question's. Safe from any thread.

    Vectors are facets beside their memories. A new one lies behind all that were there, so that whoever keeps them in
    memory reads on from where it was.
    """

    def __init__(self, project: str, new_embedder: Callable[[], Embedder], reader: StoreReader) -> None:
        self.project = project
        self._new_embedder = new_embedder
        self._reader = reader
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self.read_to = 0
        """The position of the last vector that was read."""
        self._revisions: dict[str, int] = {}

    @cached_property
    def embedder(self) -> Embedder:
        """Loaded by the first who needs it, which takes 0.1 s; no search does."""
        with self._loading:
            return self._new_embedder()

    @property
    def facet(self) -> str:
        """The name of the facet that keeps a memory's vector."""
        return f"vector-{self.embedder.name}"

    @cached_property
    def _matrix(self) -> Matrix:
        from kingly_memory.retrieval.matrix import Matrix

        return Matrix(self.embedder.dimensions)

    def __len__(self) -> int:
        """How many vectors are in memory; 0 until something was loaded."""
        return len(self._revisions)

    def load(self) -> bool:
        """Read the next page; False when there was none."""
        with self._lock:
            more = self._read_page()
            if not more:
                self._matrix.weigh()
            return more

    def nearest(self, text: str, limit: int, also: Sequence[str], deadline_s: float) -> Near | None:
        """The nearest `limit` vectors and those of `also`. None when there are none yet, or no time for them.

        What a forgotten or revised memory left behind is among them: look at the rows before showing one.
        """
        if not len(self):
            return None
        vector = self.embedder.embed([text])[0]
        if not self._lock.acquire(timeout=max(deadline_s - time.monotonic(), 0.0)):
            return None
        try:
            for _ in range(PAGES_A_SEARCH):
                if time.monotonic() >= deadline_s or not self._read_page():
                    break
            found = dict(self._matrix.nearest(vector, None, limit, also))
            return Near(found, {one: self._revisions[one] for one in found})
        finally:
            self._lock.release()

    def drop(self, memory_ids: Sequence[str]) -> None:
        """Leave out vectors whose memories are gone or have changed; a new vector brings them back."""
        with self._lock:
            for memory_id in memory_ids:
                self._matrix.remove(memory_id)
                self._revisions.pop(memory_id, None)

    def _read_page(self) -> bool:
        rows = self._reader.facets_after(self.facet, self.project, self.read_to, PAGE)
        held = {memory_id: one for _, memory_id, facet in rows if (one := self._held(facet)) is not None}
        self._matrix.put_packed({memory_id: vector for memory_id, (vector, _) in held.items()})
        self._revisions.update({memory_id: revision for memory_id, (_, revision) in held.items()})
        if rows:
            self.read_to = rows[-1][0]
        return len(rows) == PAGE

    def _held(self, facet: JsonObject | None) -> tuple[bytes, int] | None:
        """The vector in a facet and the revision it was made of; None when it holds none of ours: anybody may write
        to a file."""
        try:
            vector, revision = (b"", 0) if facet is None else (unpacked(facet).tobytes(), int(facet["revision"]))
        except (KeyError, TypeError, ValueError):
            return None
        return (vector, revision) if len(vector) == self.embedder.dimensions else None
