"""The vectors of one project in memory: kept in step with the store, whoever writes to it, and searched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.models import JsonObject
from kingly_memory.ports import Embedder, Looked, Made, Mark, Row, VectorRows
from kingly_memory.retrieval.blending import LEAST
from kingly_memory.retrieval.vectors import packed, searchable, unpacked

if TYPE_CHECKING:
    from kingly_memory.retrieval.matrix import Matrix

FACETS = "vector-"
"""How the facets begin that keep vectors; the rest of the name is the embedder's."""
PAGE = 200
"""Vectors that are read in one go, some milliseconds."""
PAGES_A_SEARCH = 2
"""What a search itself reads of what others have written meanwhile; the rest is read in the background."""
MARKS = 32
"""Places on the way that are kept to fall back to. Of the older ones every second goes when there are more."""


def facet_of(embedder: str) -> str:
    """The name of the facet that keeps a memory's vector by that embedder."""
    return f"{FACETS}{embedder}"


class Trail:
    """How far a store has been looked through. Where its last rows are gone, it goes back to before them."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    @property
    def mark(self) -> Mark:
        return self._marks[-1] if self._marks else Mark()

    def follow(self, mark: Mark | None) -> None:
        """Go on to the mark of a look that began here; None says that this place is gone."""
        if mark is None:
            self._marks.pop()
        elif mark != self.mark:
            self._marks.append(mark)
        if len(self._marks) > MARKS:
            del self._marks[1 : MARKS // 2 : 2]

    def restart(self) -> None:
        self._marks.clear()


class Near(NamedTuple):
    """What the vectors say to a question: similarities (0-1) by id, and the revision that each vector was made of."""

    similarities: dict[str, float]
    revisions: dict[str, int]


class Nearest(NamedTuple):
    """The nearest, and the question's own vector to hold others against."""

    near: Near
    vector: list[float]


class VectorSearch:
    """Finds the memories whose vectors are nearest to a question's. Safe from any thread.

    Vectors are facets beside their memories. A new one lies behind all that were there, so that whoever keeps them in
    memory reads on from where it was.
    """

    def __init__(
        self,
        project: str,
        new_embedder: Callable[[], Embedder],
        reader: VectorRows,
    ) -> None:
        self.project = project
        self._new_embedder = new_embedder
        self._reader = reader
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._trail = Trail()
        self._revisions: dict[str, int] = {}
        self._orphaned: list[str] = []
        self._settled = threading.Event()
        self._trouble: str | None = None
        self.is_stopped = False
        self.remark: str | None = None
        """What to say of every answer, when some vectors are missing and will be."""

    @cached_property
    def embedder(self) -> Embedder:
        """Loaded by the first who needs it, which takes 0.1 s; no search does."""
        with self._loading:
            return self._new_embedder()

    @property
    def facet(self) -> str:
        """Where its own vectors are kept."""
        return facet_of(self.embedder.name)

    @property
    def name(self) -> str | None:
        """What made the vectors; None until it is loaded."""
        loaded: Embedder | None = self.__dict__.get("embedder")
        return None if loaded is None else loaded.name

    @cached_property
    def _matrix(self) -> Matrix:
        from kingly_memory.retrieval.matrix import Matrix

        return Matrix(self.embedder.dimensions)

    def __len__(self) -> int:
        """How many vectors are in memory; 0 until something was loaded."""
        return len(self._revisions)

    @property
    def is_loaded(self) -> bool:
        """Whether all that were there were read, once: no search is answered by some of them."""
        return self._settled.is_set() and self._trouble is None

    def prepare(self) -> None:
        """Load what texts are embedded and compared with, which takes some tenths of a second in a new process."""
        len(self._matrix)

    def load(self, deadline_s: float = float("inf")) -> bool:
        """Read on to the last vector. False when the deadline came first, or the end."""
        try:
            while not self._read_locked(deadline_s):
                if time.monotonic() >= deadline_s or self.is_stopped:
                    return False
        except Exception as error:
            if not self.is_loaded:
                self._settle(f"{type(error).__name__}: {error}")
            raise
        with self._lock:
            self._matrix.weigh()
        self._settle(None)
        return True

    def give_up(self, why: str) -> None:
        """Do without vectors, for that reason, until all of them were read."""
        self._settle(why)

    def stop(self) -> None:
        """Read no more in the background."""
        self.is_stopped = True

    def await_loaded(self, deadline_s: float) -> str | None:
        """Why there are no vectors to search by then; None when there are."""
        if not self._settled.wait(max(deadline_s - time.monotonic(), 0.0)):
            return "they are still being read, which takes a moment after the start"
        return self._trouble

    def nearest(self, text: str, limit: int, deadline_s: float) -> Nearest | None:
        """The nearest `limit` vectors that are near enough; None when there is no time for them.

        What a forgotten or revised memory left behind is among them: look at the rows before showing one.
        """
        vector = self.embedder.embed([text])[0]
        if not self._lock.acquire(timeout=max(deadline_s - time.monotonic(), 0.0)):
            return None
        try:
            for _ in range(PAGES_A_SEARCH):
                if time.monotonic() >= deadline_s or self._read_page(deadline_s):
                    break
            return Nearest(self._told(self._matrix.nearest(vector, None, limit, LEAST)), vector)
        finally:
            self._lock.release()

    def among(self, nearest: Nearest, memory_ids: Iterable[str]) -> Near:
        """The nearest, and what of those memories is here."""
        with self._lock:
            also = self._told(self._matrix.compared(nearest.vector, memory_ids))
        similarities, revisions = nearest.near
        return Near({**similarities, **also.similarities}, {**revisions, **also.revisions})

    def drop(self, made_of: Mapping[str, int]) -> None:
        """Leave out vectors that were made of these revisions, since their memories are gone or have changed. One that
        was read meanwhile stays."""
        with self._lock:
            for memory_id, revision in made_of.items():
                if self._revisions.get(memory_id) == revision:
                    self._matrix.remove(memory_id)
                    del self._revisions[memory_id]

    def add(self, rows: Sequence[Row]) -> None:
        """Make vectors of these memories for this process alone."""
        vectors = self.embedder.embed([searchable(row.memory) for row in rows])
        with self._lock:
            self._put(
                Made(row.memory.id, {**packed(vector), "revision": row.memory.revision}, False)
                for row, vector in zip(rows, vectors, strict=True)
            )

    def take_orphaned(self) -> list[str]:
        """Whose vectors were found although the memory is gone; told once."""
        with self._lock:
            found, self._orphaned = self._orphaned, []
        return found

    def _settle(self, trouble: str | None) -> None:
        self._trouble = trouble
        self._settled.set()

    def _read_locked(self, deadline_s: float) -> bool:
        with self._lock:
            return self._read_page(deadline_s)

    def _read_page(self, deadline_s: float) -> bool:
        """Read on; True when there is nothing more."""
        looked = self._look(deadline_s)
        while looked.mark is None:
            self._trail.follow(None)
            looked = self._look(deadline_s)
        self._put(one for one in looked.found if not one.orphaned)
        self._orphaned += [one.memory_id for one in looked.found if one.orphaned]
        self._trail.follow(looked.mark)
        return looked.at_end

    def _look(self, deadline_s: float) -> Looked[Made]:
        return self._reader.made(self.facet, self.project, self._trail.mark, PAGE, deadline_s)

    def _put(self, made: Iterable[Made]) -> None:
        held = {one.memory_id: kept for one in made if (kept := self._held(one.facet)) is not None}
        self._matrix.put_packed({memory_id: vector for memory_id, (vector, _) in held.items()})
        self._revisions.update({memory_id: revision for memory_id, (_, revision) in held.items()})

    def _told(self, found: Sequence[tuple[str, float]]) -> Near:
        similarities = dict(found)
        return Near(similarities, {one: self._revisions[one] for one in similarities})

    def _held(self, facet: JsonObject | None) -> tuple[bytes, int] | None:
        """The vector in a facet and the revision it was made of; None when it holds none of ours: anybody may write
        to a file."""
        try:
            vector, revision = (b"", 0) if facet is None else (unpacked(facet).tobytes(), int(facet["revision"]))
        except (KeyError, TypeError, ValueError):
            return None
        return (vector, revision) if len(vector) == self.embedder.dimensions else None
