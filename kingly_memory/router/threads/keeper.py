"""Keeping the briefs of threads up: behind every store, in a thread of its own, a few milliseconds at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from kingly_memory.cognition.working import owner
from kingly_memory.errors import KinglyMemoryError, RouterClosed
from kingly_memory.ports import Clock, LocalStore, Transaction
from kingly_memory.router.apart import apart
from kingly_memory.router.lock import Lock
from kingly_memory.router.right_of_way import Pause, RightOfWay, no_pause
from kingly_memory.router.threads import courses, kin, roll
from kingly_memory.router.threads.briefs import Briefs, Survey
from kingly_memory.router.threads.courses import COURSE, TOPIC, Alike, Outline, Read
from kingly_memory.router.threads.kin import Kin
from kingly_memory.router.threads.pairs import WorkedOut
from kingly_memory.router.threads.rolling import Rolling

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")

BATCH, TOGETHER = 16, 64
"""Threads written down in one transaction: after each was read, and when all have been."""
PAUSE_S = 0.002
"""After a millisecond or two of work: nobody waits for this, and others may wait for the interpreter."""
GIVE_WAY_S = 0.02
"""The same while somebody stores or searches: in a run of them this is next to nothing of the interpreter's time."""
COLLECT_S = 2.0
"""A store is often followed by others in the same thread."""
EVERY_S = 300.0
"""How often it is looked for what other processes have stored. Who reads misses nothing meanwhile."""
TIDIED = 10
"""Rounds after which all briefs are looked through for those of threads that are no more: others write some too."""
RESTS = 20.0
"""Looking over all threads takes longer the more there are: so many times as long nothing is looked at."""
MOST_REST_S = 600.0
SHARE = 0.5
"""Of the time that somebody has waited for briefs to be worked out: what it may take besides to write them down."""


class Keeper:
    """Writes down what the threads of a project are about, as long as nobody else holds the `lock`."""

    def __init__(
        self,
        project: str,
        briefs: Briefs,
        *,
        store: LocalStore,
        clock: Clock,
        lock: Lock | None = None,
        right_of_way: RightOfWay | None = None,
    ) -> None:
        self._lock = lock or Lock()
        self._right_of_way = right_of_way or RightOfWay()
        self._was_searched = self._right_of_way.watch()
        self._project = project
        self._briefs = briefs
        self._rolling = Rolling(store, briefs)
        self._store = store
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kingly-threads")
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()
        self._is_stopped = False
        self._gives_way = False
        self._rest_s = COLLECT_S
        self._rounds = 0
        self._complaint: str | None = None

    def wake(self) -> None:
        """Something was stored or taken away. Called in the router's event loop."""
        self._wanted.set()
        self._gives_way = True

    async def run(self) -> None:
        """Work for as long as the router is open."""
        while True:
            self._wanted.clear()
            await self._catch_up_if_possible()
            await self._clock.sleep(self._rest_s)
            await self._clock.wait(self._wanted, EVERY_S)
            await self._clock.sleep(COLLECT_S)

    async def complete(self) -> None:
        """Until every thread's brief is true. Raises StoreError."""
        async with self._turn:
            await self._catch_up()

    async def take_over(self, worked_out: WorkedOut) -> int:
        """Write down what was worked out for somebody, who waits for this too: so nobody else has to. Says how many
        briefs. What is left after a share of the time that it took, or cannot be written, is worked out again."""
        try:
            writing = asyncio.wrap_future(self._thread.submit(self._taken_over, worked_out))
            await asyncio.wait({writing})
            return 0 if writing.cancelled() else writing.result()
        except (KinglyMemoryError, RuntimeError) as error:  # RuntimeError: stopped meanwhile
            log.info("briefs of threads that were worked out are not kept: %s", error)
            return 0

    def _taken_over(self, worked_out: WorkedOut) -> int:
        until_s = time.monotonic() + worked_out.took_s * SHARE
        if not self._lock.take():
            return 0
        is_rolled = self._rolling.is_begun(worked_out.found)
        found = self._briefs.survey(self._now_s())
        if not worked_out.holds(found):
            return 0
        names, count = list(worked_out.read), 0
        while count < len(names) and time.monotonic() < until_s and not self._is_stopped:
            some = names[count : count + TOGETHER]
            self._store.write(written({name: worked_out.read[name] for name in some}, self._project)).result()
            count += len(some)
        if is_rolled and count == len(names):
            new = {name: one.course for name, one in worked_out.read.items()}
            self._rolling.finish({**found.current, **new}, until_s - time.monotonic())
        return count

    def stop(self) -> None:
        """Let go of the thread; what is under way is finished, and nothing after it is begun."""
        self._is_stopped = True
        self._right_of_way.end()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._lock.give_up()

    async def _catch_up_if_possible(self) -> None:
        """Whatever prevents it, what is missing is worked out by whoever asks, and the next round tries again."""
        try:
            async with self._turn:
                if await self._lead():
                    await self._catch_up()
        except RouterClosed:
            return
        except Exception as error:  # noqa: BLE001  # a background task's top
            complaint = f"{type(error).__name__}: {error}"
            if complaint != self._complaint:
                log.warning("threads are not kept in brief for now: %s", complaint)
            self._complaint = complaint
        else:
            self._complaint = None

    async def _catch_up(self) -> None:
        began = time.perf_counter()
        found = await apart(self._thread, self._survey)
        self._rest_s = min(RESTS * (time.perf_counter() - began), MOST_REST_S)
        keeping = Keeping(self._store, self._project, found, self._now_s())
        while await apart(self._thread, lambda: keeping.some(self._pause)):
            pass
        await apart(self._thread, lambda: self._roll(found))

    async def _lead(self) -> bool:
        return await apart(self._thread, self._lock.take)

    def _survey(self) -> Survey:
        found = self._briefs.survey(self._now_s(), self._pause)
        self._rounds += 1
        return found if self._rounds % TIDIED else replace(found, over=self._briefs.strays(found, self._pause))

    def _roll(self, found: Survey) -> None:
        if self._lock.take():
            self._rolling.look(found, self._now_s(), self._pause)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    def _pause(self) -> None:
        if self._is_stopped:
            raise RouterClosed
        gives_way, self._gives_way = self._was_searched() or self._gives_way, False
        time.sleep(GIVE_WAY_S if gives_way else PAUSE_S)
        self._right_of_way.give()


class Keeping:
    """One round: what a look over all threads has found to be done, done in batches."""

    def __init__(self, store: LocalStore, project: str, found: Survey, now_s: float) -> None:
        self._store = store
        self._project = project
        self._found = found
        self._now_s = now_s
        self._waiting = list(found.waiting.values())
        self._kin = Kin(store.reader, project)
        self._over = list(found.over)

    def some(self, pause: Pause = no_pause) -> bool:
        """Read and write some threads; False when there are none left. What `pause` raises ends it between two."""
        pause()
        over, self._over = self._over[:BATCH], self._over[BATCH:]
        there = courses.kept(self._store.reader, self._project, over)  # each look names them until something changes
        if there:
            self._store.write(_tidied(list(there), self._project)).result()
        some, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        some = self._unwritten(some)
        if some:
            self._keep(some, pause)
        return bool(self._waiting or self._over)

    def _unwritten(self, some: Sequence[Outline]) -> list[Outline]:
        """Without those that somebody else has written down meanwhile."""
        written = courses.kept(self._store.reader, self._project, [one.context_id for one in some])
        return [
            one
            for one in some
            if one.context_id not in written or not written[one.context_id].is_true(one.made_of, self._now_s)
        ]

    def _keep(self, some: Sequence[Outline], pause: Pause) -> None:
        read: dict[str, Read] = {}
        unknown: dict[str, list[str]] = {}
        for outline in some:
            pause()
            one = courses.read(self._store.reader, self._project, outline, self._now_s, pause)
            if one is None:
                continue
            pause()
            candidates = self._kin.candidates(one, self._found)
            known = self._kin.topics(candidates, self._found, read, self._now_s)
            unknown[outline.context_id] = [name for name in candidates if name not in known]
            read[outline.context_id] = _with(one, kin.alike(one, known))
        self._write(read)
        self._look_again(read, unknown)

    def _look_again(self, read: Mapping[str, Read], unknown: Mapping[str, Sequence[str]]) -> None:
        """Two who write like threads at the same time may each have looked before the other wrote: one of them sees it
        now."""
        changed: dict[str, Read] = {}
        candidates = list(dict.fromkeys(name for one in read for name in unknown[one]))
        known = self._kin.topics(candidates, self._found, {}, self._now_s) if candidates else {}
        for context_id, one in read.items():
            found = kin.alike(one, {name: known[name] for name in unknown[context_id] if name in known})
            if found:
                changed[context_id] = _with(one, [*one.course.others(), *found])
        if changed:
            self._write(changed)

    def _write(self, read: Mapping[str, Read]) -> None:
        if read:
            self._store.write(written(read, self._project)).result()


def _with(one: Read, alike: Sequence[Alike]) -> Read:
    best = sorted(set(alike), key=lambda other: (-other.similarity, other.context_id))[: kin.KEPT]
    return replace(one, course=one.course.like(best))


def written(read: Mapping[str, Read], project: str) -> Callable[[Transaction], None]:
    """Writes the briefs down, but for those of threads that were forgotten while they were read."""

    def change(transaction: Transaction) -> None:
        for context_id, one in read.items():
            if any(transaction.is_said_in(project, name) for name, _ in one.course.contexts):
                transaction.set_facet(COURSE, owner(project, context_id), one.course.to_json(project))
                transaction.set_facet(TOPIC, owner(project, context_id), one.topic_json(project))
        roll.note(transaction, project, read)

    return change


def _tidied(over: Sequence[str], project: str) -> Callable[[Transaction], None]:
    """Removes the briefs of threads that are no more: what was forgotten is not to be read in them."""

    def change(transaction: Transaction) -> None:
        for context_id in over:
            for name in (COURSE, TOPIC):
                transaction.set_facet(name, owner(project, context_id), None)
        roll.drop(transaction, project)

    return change
