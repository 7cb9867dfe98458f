"""Making the vectors that are missing: behind every store, and for what was stored without them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import JsonObject, Memory, MemoryStatus
from kingly_memory.ports import HOME, INCARNATION, Clock, Embedder, LocalStore, Transaction
from kingly_memory.router.search.meaning import VectorSearch, embedded

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")

BATCH = 64
"""Memories whose vectors are written in one transaction."""
PAUSE_S = 0.002
"""For searches and stores that wait for the interpreter."""
EVERY_S = 5.0
"""How often it is looked for what other processes have stored."""
PREPARE_S = 0.5
COLLECT_S = 0.2
"""A store is often followed by others, whose vectors then share a transaction."""


class Embedding:
    """Gives every memory of the project a vector and keeps VectorSearch up to date, in a thread of its own."""

    def __init__(self, vectors: VectorSearch, *, store: LocalStore, clock: Clock, thread: Executor) -> None:
        self._vectors = vectors
        self._store = store
        self._clock = clock
        self._thread = thread
        self.wanted = asyncio.Event()
        """Set in the router's event loop when something was stored."""
        self._turn = asyncio.Lock()
        self._home: JsonObject | None = None
        self._position: int | None = None
        """Memories up to there have been looked at; None once all that were there were, and the change feed says what
        is new or has changed since."""
        self._sequence = 0
        self._unmade: int | None = None
        self._is_hurried = False
        self._complaint: str | None = None

    def hurry(self) -> None:
        """A search waits for the vectors to be read, so no more waiting for a quiet moment. Safe from any thread."""
        if not self._is_hurried:
            self._is_hurried = True
            with contextlib.suppress(RuntimeError):  # closing meanwhile
                self._thread.submit(self._vectors.load)

    async def prepare(self) -> None:
        """Load what vectors are made with before anybody waits for an answer: its parser holds up the whole process for
        a tenth of a second. Opening waits for that only so long; what prevents it is reported when vectors are read."""
        preparing = asyncio.ensure_future(self._apart(self._vectors.prepare))
        preparing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({preparing}, timeout=PREPARE_S)

    async def run(self) -> None:
        """Work for as long as the router is open. Whatever prevents it, the words are searched all the same, and the
        next round tries again."""
        while True:
            await self._clock.sleep(COLLECT_S)
            self.wanted.clear()
            try:
                async with self._turn:
                    await self._catch_up()
                self._complaint = None
            except Exception as error:  # noqa: BLE001  # a background task's top
                complaint = str(error) if isinstance(error, KinglyMemoryError) else f"{type(error).__name__}: {error}"
                if complaint != self._complaint:
                    log.warning("memories are not found by their meaning for now: %s", complaint)
                self._complaint = complaint
                self._vectors.give_up(complaint)
            await self._clock.wait(self.wanted, EVERY_S)

    async def complete(self) -> None:
        """Until every memory that is stored has its vector and all of them are in memory. Raises StoreError."""
        async with self._turn:
            await self._catch_up()

    def status(self) -> JsonObject:
        """How many vectors are in memory, and how many memories wait for one, as of the last look, which was seconds
        ago. What has not been looked at yet is None; `problem` says why none are made. Reads nothing."""
        fields = {"embedder": self._vectors.name, "read": len(self._vectors), "waiting": self._unmade}
        return fields if self._complaint is None else {**fields, "problem": self._complaint}

    async def describe(self) -> JsonObject:
        """What makes vectors, how many memories have theirs, and how many another embedder made. Asks the embedder."""
        return await self._apart(self._description)

    def _description(self) -> JsonObject:
        vectors, reader = self._vectors, self._store.reader.vectors
        counts = reader.counts(vectors.space)
        try:
            name = vectors.embedder.name
        except KinglyMemoryError as error:
            return {"embedder": None, "others": sum(counts.values()), "problem": str(error)}
        made = counts.pop(name, 0)
        waiting = reader.lacking_count(name, vectors.space)
        fields = {"embedder": name, "dimensions": vectors.embedder.dimensions, "made": made, "waiting": waiting}
        return {**fields, "others": sum(counts.values())}

    async def rebuild(self, progress: Callable[[int], None], *, anew: bool) -> None:
        """Make the vectors that are missing, or all `anew`, and tell how many wait. What was made when this is cut
        short stays. Raises StoreError, EmbedderFailed."""
        async with self._turn:
            if anew:
                await self._apart(lambda: self._drop_vectors(but=None))
            self._home = None
            await self._catch_up(progress)
            await self._apart(lambda: self._drop_vectors(but=self._vectors.embedder.name))

    def stop(self) -> None:
        """Let go of the thread; a batch that is under way is finished, and nothing after it is begun."""
        self._vectors.is_stopped = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._vectors.close()

    async def _catch_up(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """What is there already is read first, so that searches have it while the rest is made. What another embedder
        made goes when all of it is made anew."""
        await self._apart(self._look_around)
        await self._apart(self._vectors.load)
        is_new = bool(self._unmade)
        for work in (self._make_some, self._follow):
            while await self._apart(work):
                progress(self._unmade or 0)
        if is_new and self._position is None and not self._vectors.is_stopped:
            await self._apart(lambda: self._drop_vectors(but=self._vectors.embedder.name))
        await self._apart(self._vectors.load)

    def _drop_vectors(self, *, but: str | None) -> None:
        while self._store.write(lambda transaction: transaction.drop_vectors(self._vectors.space, but)).result():
            pass

    async def _apart(self, work: Callable[[], T]) -> T:
        """On the thread that makes vectors."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _look_around(self) -> None:
        """Begin anew in a home that was put together anew, where places are given anew. What was stored until now is
        found among all memories, and what is stored from now on in the change feed, whichever process does it."""
        reader = self._store.reader
        home = reader.facet(HOME, INCARNATION)
        if home != self._home:
            if self._home is not None:
                self._vectors.begin_anew()
            self._sequence, self._position = reader.last_change(), 0
            self._unmade = reader.vectors.lacking_count(self._vectors.embedder.name, self._vectors.space)
            self._home = home

    def _make_some(self) -> bool:
        """Give vectors to memories that were there and have none; False when there are no more."""
        if self._position is None or self._vectors.is_stopped:
            return False
        where = (self._vectors.embedder.name, self._vectors.space, self._position)
        found = self._store.reader.vectors.lacking(*where, BATCH) or []
        self._write([row.memory for row in found])
        at_end = len(found) < BATCH
        self._position = None if at_end else found[-1].position
        self._unmade = 0 if at_end else max((self._unmade or 0) - len(found), 0)
        return not at_end

    def _follow(self) -> bool:
        """Give vectors to what was stored or changed since. False when that is all."""
        reader = self._store.reader
        changes = [] if self._vectors.is_stopped else reader.changes(self._sequence, BATCH)
        if changes:
            named = list(dict.fromkeys(one.memory_id for one in changes))
            made_of = reader.vectors.made_of(self._vectors.embedder.name, named)
            rows = [
                row for row in map(reader.row, named) if row is not None and row.status is not MemoryStatus.FORGOTTEN
            ]
            own = [row.memory for row in rows if row.memory.scope.space == self._vectors.space]
            self._write([memory for memory in own if made_of.get(memory.id) != memory.revision])
            self._sequence = changes[-1].sequence
        return bool(changes)

    def _write(self, memories: Sequence[Memory]) -> None:
        give_vectors(self._store, self._vectors.embedder, self._vectors.space, memories)
        self._vectors.load()  # else the next search would


def give_vectors(store: LocalStore, embedder: Embedder, space: str, memories: Sequence[Memory]) -> None:
    """Make a vector of each memory of a space, and write those down whose memories are still what they were. Raises
    StoreError, EmbedderFailed."""
    made = list(zip(memories, embedded(embedder, memories, PAUSE_S), strict=True))

    def change(transaction: Transaction) -> None:
        revisions = transaction.current_revisions([memory.id for memory in memories])
        for memory, vector in made:
            if revisions.get(memory.id) == memory.revision:
                transaction.set_vector(embedder.name, memory, vector)

    if made:
        store.write(change, space).result()
