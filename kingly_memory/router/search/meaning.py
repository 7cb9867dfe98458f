"""Searching this machine by meaning: the vectors of one project in memory, kept in step with the store, and the local
search that blends what they find with what words find."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Executor, Future
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kingly_memory.dataclass import NamedTuple
from kingly_memory.errors import EmbedderFailed
from kingly_memory.models import Hit, Memory, Query
from kingly_memory.ports import Embedder, Row, StoreReader, Vector, VectorRows
from kingly_memory.retrieval.fusion import NAMED, VECTORS, WORDS
from kingly_memory.router.lifecycle.alive import UsageBuffer
from kingly_memory.router.search.local import HERE, LocalAnswer, LocalSearch, Wording, spelt
from kingly_memory.text.passages import LONGEST, MEANT, PASSAGE, passages, searchable_passages

if TYPE_CHECKING:
    from kingly_memory.retrieval.matrix import Matrix

PAGE = 200
"""Vectors that are read in one go, some milliseconds."""
PAGES_A_SEARCH = 2
"""What a search itself reads of what others have written meanwhile; the rest is read in the background."""


BITE = 16
"""Texts that are embedded without a pause: some milliseconds."""
LEVELS = 127
MOST_PASSAGES = 384
"""Vectors of one memory: of some 130,000 characters. What follows is found by its words."""


def parts(memory: Memory, *, speaks: bool) -> list[str]:
    """The text of each vector of a memory: one, or one a passage, which its title and headings introduce. What somebody
    said is `Speaker: content` where the embedder `speaks`."""
    title = f"{memory.title}\n" if memory.title else ""
    if cut := searchable_passages(memory.content, MEANT)[:MOST_PASSAGES]:
        return [title + passage for _, passage in cut]
    if speaks and isinstance(speaker := memory.metadata.get("speaker"), str):
        return [f"{speaker}: {memory.content}"]
    return ["\n".join(filter(None, (memory.title, memory.content, " ".join(memory.tags))))]


def levels(vector: Sequence[float]) -> bytes:
    """A vector in one signed byte a dimension. Only its direction is kept, so the scale is the largest value's."""
    scale = LEVELS / (max(map(abs, vector), default=0.0) or 1.0)
    return array("b", [round(value * scale) for value in vector]).tobytes()


def embedded(embedder: Embedder, memories: Sequence[Memory], pause_s: float = 0.0) -> list[bytes]:
    """What is kept of each: its vectors, one after another. `pause_s`, before every 16 of them, is for others who wait
    for the interpreter. Raises EmbedderFailed."""
    texts = [parts(memory, speaks=embedder.speaks) for memory in memories]
    flat, vectors = [text for of_memory in texts for text in of_memory], list[bytes]()
    for start in range(0, len(flat), BITE):
        time.sleep(pause_s)
        vectors += map(levels, embedder.embed(flat[start : start + BITE]))
    made = iter(vectors)
    return [b"".join(islice(made, len(of_memory))) for of_memory in texts]


class Near(NamedTuple):
    """What the vectors say to a question: similarities (0-1) by id, the revision that each vector was made of, and for
    long texts the number of the passage that is nearest."""

    similarities: dict[str, float]
    revisions: dict[str, int]
    passages: dict[str, int]

    def passage(self, row: Row) -> dict[str, float]:
        """The score that says where the passage begins that is nearest, where the memory is long."""
        number, text = self.passages.get(row.memory.id), row.memory.content
        cuts = passages(text, MEANT) if len(text) > LONGEST else []
        return {} if number is None or number >= len(cuts) else {PASSAGE: float(cuts[number][0])}

    def is_of(self, memory: Memory) -> bool:
        """Whether there is a vector of the memory as it is now."""
        return self.revisions.get(memory.id) == memory.revision


class VectorSearch:
    """Finds the memories whose vectors are nearest to a question's. Safe from any thread.

    A new vector lies behind all that were there, so that whoever keeps them in memory reads on from where it was.
    """

    def __init__(
        self, space: str, new_embedder: Callable[[], Embedder], reader: VectorRows, questions: Executor | None = None
    ) -> None:
        """On `questions` those wait for an embedder that is not light."""
        self.space = space
        self._new_embedder = new_embedder
        self._questions = questions
        self._reader = reader
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._place = self._read_to = 0
        self._revisions: dict[str, int] = {}
        self._settled = threading.Event()
        self._trouble: str | None = None
        self.is_stopped = False
        """Set when closing: no more is read in the background."""
        self.remark: str | None = None
        """What to say of every answer, when some vectors are missing and will be."""

    @cached_property
    def embedder(self) -> Embedder:
        """Loaded by the first who needs it, which takes 0.1 s; no search does."""
        with self._loading:
            return self._new_embedder()

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
    def rows(self) -> int:
        """How many vectors that are in memory: several of a memory of several passages."""
        return len(self.__dict__.get("_matrix", ()))

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
            at_end = False
            while not at_end:
                with self._lock:
                    at_end = self._read_page(deadline_s)
                if not at_end and (time.monotonic() >= deadline_s or self.is_stopped):
                    return False
        except Exception as error:
            if not self.is_loaded:
                self.give_up(f"{type(error).__name__}: {error}")
            raise
        with self._lock:
            self._matrix.weigh()
        self._trouble = None
        self._settled.set()
        return True

    def begin_anew(self) -> None:
        """Read all vectors once more: another store lies in the place of the one that was read."""
        with self._lock:
            self._place = self._read_to = 0

    def give_up(self, why: str) -> None:
        """Do without vectors, for that reason, until all of them were read; once they are, there are some."""
        self._trouble = None if self.is_loaded else why
        self._settled.set()

    def close(self) -> None:
        """Let go of the embedder, if it was loaded."""
        if (loaded := self.__dict__.get("embedder")) is not None:
            loaded.close()

    def await_loaded(self, deadline_s: float) -> str | None:
        """Why there are no vectors to search by then; None when there are."""
        if not self._settled.wait(max(deadline_s - time.monotonic(), 0.0)):
            return "they are still being read, which takes a moment after the start"
        return self._trouble

    def asked(self, text: str) -> Future[list[float]]:
        """The vector of a question: there at once, or on its way where the embedder is not light."""
        if self._questions is not None and not self.embedder.is_light:
            return self._questions.submit(self._embedded, text)
        future: Future[list[float]] = Future()
        future.set_result(self._embedded(text))
        return future

    def _embedded(self, text: str) -> list[float]:
        return self.embedder.embed([text], is_question=True)[0]

    def near(
        self,
        question: Future[list[float]],
        limit: int,
        also: Iterable[str],
        deadline_s: float,
        last_change: int | None = None,
    ) -> Near | str:
        """The nearest `limit` vectors that are near enough, and `also` those of these memories; or why there are none.
        Those up to the `last_change` are read, if the caller knows it; else all that there are.

        What a forgotten or revised memory left behind is among them: look at the rows before showing one.
        """
        try:
            vector = question.result(max(deadline_s - time.monotonic(), 0.0))
        except TimeoutError:
            question.cancel()
            return f"{self.embedder.name} gave no vector of the question in time"
        except EmbedderFailed as error:
            return f"{self.embedder.name}: {error.reason}"
        if not self._lock.acquire(timeout=max(deadline_s - time.monotonic(), 0.0)):
            return NO_TIME
        try:
            for _ in range(PAGES_A_SEARCH if last_change is None or last_change > self._read_to else 0):
                if time.monotonic() >= deadline_s:
                    break
                if self._read_page(deadline_s):
                    self._read_to = last_change or 0
                    break
            scale = self.embedder.scale
            nearest = self._matrix.nearest(vector, limit, self.embedder.floor / scale)
            found = [*nearest, *self._matrix.compared(vector, also)]
            similarities = {memory_id: min(similarity * scale, 1.0) for memory_id, similarity in found}
            revisions = {one: self._revisions[one] for one in similarities}
            return Near(similarities, revisions, self._matrix.passages(vector, similarities))
        finally:
            self._lock.release()

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
        made = zip(rows, embedded(self.embedder, [row.memory for row in rows]), strict=True)
        with self._lock:
            self._put([Vector(0, row.memory.id, row.memory.revision, vector) for row, vector in made])

    def _read_page(self, deadline_s: float) -> bool:
        """Read on; True when there is nothing more."""
        found = self._reader.made(self.embedder.name, self.space, self._place, PAGE, deadline_s)
        if found:
            self._put(found)
            self._place = found[-1].place
        return found is not None and len(found) < PAGE

    def _put(self, made: Sequence[Vector]) -> None:
        """Anybody may write to a file: what holds no vector of ours is passed over."""
        size = self.embedder.dimensions
        sound = [
            vector
            for vector in made
            if (type(vector.levels), type(vector.revision)) == (bytes, int)
            and vector.levels
            and len(vector.levels) % size == 0
        ]
        self._revisions |= {vector.memory_id: vector.revision for vector in sound}
        self._matrix.put({vector.memory_id: vector.levels for vector in sound})


POOL, FILTERED_POOL = 50, 200
"""Fewest candidates by words and by meaning that are held against each other; and by meaning, when what the query
filters by may leave few of the nearest."""
READ_SHARE, WAIT_SHARE = 0.9, 0.6
"""Of the time for the local side: no row is read after the first; a process' first searches wait until the second for
its vectors to be read."""
LEAST_OF_WORDS, HALF = 0.4, 0.5
"""Share of their weight that words keep in any case, and the share of a question that the best hit has to hold for all
of it: the less it holds, the more its words were met by chance, and the more meaning says."""
ROWS_AT_ONCE = 8
NO_TIME = "there was no time to ask them"


class MeaningSearch(LocalSearch):
    """The local side of searches, with what the vectors find as well."""

    def __init__(
        self,
        reader: StoreReader,
        usage: UsageBuffer | None = None,
        *,
        vectors: VectorSearch,
        words_weight: float,
        hurry: Callable[[], None] = lambda: None,
        repairs: bool = True,
    ) -> None:
        """`hurry` hears that a search waits for the vectors to be read."""
        super().__init__(reader, usage, repairs=repairs)
        self._vectors = vectors
        self._words_weight = words_weight
        self._hurry = hurry

    def search(
        self,
        query: Query,
        *,
        now_s: float,
        budget_s: float,
        wording: Wording | None = None,
        most: int | None = None,
        scale: float | None = None,
    ) -> LocalAnswer:
        """See LocalSearch. `without` says why the vectors had no part in the answer, or not their whole part."""
        if not query.by_meaning or query.space != self._vectors.space:
            return super().search(query, now_s=now_s, budget_s=budget_s, wording=wording, most=most, scale=scale)
        began, wanted = time.monotonic(), most or query.limit
        wording = wording or self.word(query, budget_s=budget_s)
        question = self._vectors.asked(spelt(query, wording.repaired).text) if self._vectors.is_loaded else None
        left_s = max(began + budget_s - time.monotonic(), 0.0)
        looked_at = max(wanted, POOL)
        words = super().search(query, now_s=now_s, budget_s=left_s, wording=wording, most=looked_at, scale=scale)
        if not self._vectors.is_loaded:
            self._hurry()  # not before: what is read for it would take the time of the words
        near: Near | str | None = None
        why = self._vectors.await_loaded(began + budget_s * WAIT_SHARE)
        deadline_s = began + budget_s * READ_SHARE
        if why is None and len(self._vectors):
            size = (FILTERED_POOL if _is_narrow(query) else looked_at) + len(query.seen)
            also = [hit.memory.id for hit in words.hits]
            question = question or self._vectors.asked(spelt(query, wording.repaired).text)
            near = self._vectors.near(question, size, also, deadline_s, wording.last_change)
        if not isinstance(near, Near):
            why = near or why
            return words._replace(hits=words.hits[:wanted], cut=words.cut or why is NO_TIME, without=why)

        named = [hit for hit in words.hits if NAMED in hit.scores]
        worded = {hit.memory.id: hit for hit in words.hits if NAMED not in hit.scores}
        unmade = frozenset(memory_id for memory_id, hit in worded.items() if not near.is_of(hit.memory))
        # A vector of a later revision than the words found was read meanwhile.
        self._drop(near, {one for one in unmade if near.revisions.get(one, 0) < worded[one].memory.revision})
        worth = blended(
            {memory_id: hit.relevance for memory_id, hit in worded.items()},
            {memory_id: similarity for memory_id, similarity in near.similarities.items() if memory_id not in unmade},
            unmade,
            words_weight=self._words_weight,
            floor=self._vectors.embedder.floor,
        )
        found: list[Hit] = []
        for memory_id, hit in worded.items():
            scores = {WORDS: hit.relevance} | ({} if memory_id in unmade else {VECTORS: near.similarities[memory_id]})
            found.append(Hit(hit.memory, worth[memory_id], HERE, {**hit.scores, **scores}))

        # What only the vectors found is read a few at a time, the best first, as long as it may come among the hits
        # that are wanted. What is gone or revised waits for another vector.
        listed = {hit.memory.id for hit in named} | worded.keys()
        others = sorted(worth.keys() - listed, key=lambda memory_id: (-worth[memory_id], memory_id))
        better = sorted(-worth[memory_id] for memory_id in worded)
        shown, cut = 0, False
        for start in range(0, len(others), ROWS_AT_ONCE):
            some = others[start : start + ROWS_AT_ONCE]
            if cut or shown >= wanted - bisect_right(better, -worth[some[0]]):
                break
            rows = self._reader.rows(some, deadline_s)
            current = [row for row in rows.values() if row is not None and near.is_of(row.memory)]
            self._drop(near, rows.keys() - {row.memory.id for row in current})
            for row in self.shown(current, query, now_s):
                memory_id, shown = row.memory.id, shown + 1
                found.append(
                    Hit(
                        row.memory, worth[memory_id], HERE, {VECTORS: near.similarities[memory_id], **near.passage(row)}
                    )
                )
            cut = len(rows) < len(some)
        found.sort(key=lambda hit: (hit.relevance, hit.memory.id), reverse=True)
        took_ms = (time.monotonic() - began) * 1000
        hits = tuple([*named, *found][:wanted])
        return words._replace(hits=hits, took_ms=took_ms, cut=words.cut or cut, without=self._vectors.remark)

    def _drop(self, near: Near, memory_ids: Set[str]) -> None:
        """Leave out the vectors of memories that have changed since, or are gone."""
        if outdated := memory_ids & near.revisions.keys():
            self._vectors.drop({memory_id: near.revisions[memory_id] for memory_id in outdated})


def blended(
    worded: Mapping[str, float],
    near: Mapping[str, float],
    without_vector: frozenset[str],
    *,
    words_weight: float,
    floor: float,
) -> dict[str, float]:
    """The relevance (0-1) of every candidate of either list, by id.

    `worded` and `near` are relevances by words and similarities by meaning, 0-1. What only one list has is worth its
    share of that; what only the vectors have must reach the `floor`. A memory that has no vector yet is taken to be as
    near as the nearest, by the share of the question that it holds. Words weigh less where none of the worded holds
    half of the question.
    """
    best = max(near.values(), default=0.0)
    held = min(max(worded.values(), default=0.0) / HALF, 1.0)
    words_weight *= LEAST_OF_WORDS + (1 - LEAST_OF_WORDS) * held
    relevance: dict[str, float] = {}
    for memory_id in {*worded, *(memory_id for memory_id, similarity in near.items() if similarity >= floor)}:
        words = worded.get(memory_id, 0.0)
        meaning = words * best if memory_id in without_vector else near.get(memory_id, 0.0)
        relevance[memory_id] = min(words_weight * words + (1 - words_weight) * meaning, 1.0)
    return relevance


def _is_narrow(query: Query) -> bool:
    """Whether more than the project has to fit."""
    filters = (query.types, query.tags, query.agent, query.context_id, query.since, query.until)
    others = (query.any_tags, query.origins, query.metadata)
    return any(value is not None for value in (*filters, *others)) or query.min_confidence > 0
