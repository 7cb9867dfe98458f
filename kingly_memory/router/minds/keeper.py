"""Keeps a mind in the store: each change goes to the writer thread at once, in its order, and is not waited for.

A change names the edition of the mind that it rests on, so what comes behind a change that failed, or that somebody
else was quicker than, is not written either. Then the mind is read anew, and what is not stored is done once more.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakSet

from kingly_memory.cognition.experience.cognitive import Change, CognitiveMemory, Verb
from kingly_memory.cognition.experience.episodes import Kept
from kingly_memory.cognition.experience.holdings import Holdings
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.errors import KinglyMemoryError, StoreBusy
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import Memory, MemoryType
from kingly_memory.ports import LocalStore
from kingly_memory.router.landing import Landing
from kingly_memory.router.minds import records
from kingly_memory.router.minds.records import Loaded, Moved, Step
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")

PATIENCE_S = 10.0
"""How long somebody else may always be quicker before we say that the mind is busy."""
FAILURES = 2
"""What failed is tried once more before it is told."""


_TYPES = {Verb.HOLD: MemoryType.WORKING, Verb.REMEMBER: MemoryType.EPISODIC}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a keeper needs of its router. `written` is told, from any thread, what is in the store now: the new memory,
    if there is one, and those that are of another type. `keepers` has all there are, `unsaved` those that wait for the
    store."""

    store: LocalStore
    landing: Landing
    project: str
    write_context: Callable[[], WriteContext]
    check_open: Callable[[], None]
    written: Callable[[Memory | None, tuple[MemoryId, ...]], None]
    content_limit_bytes: int
    unsaved: set[StoreKeeper]
    keepers: WeakSet[StoreKeeper]


class _Entry(NamedTuple):
    """A change and its fate."""

    change: Change
    future: Future[None]


class StoreKeeper:
    """The keeper of one mind."""

    def __init__(self, agent_id: str, around: Surroundings, loaded: Loaded, *, waits: bool) -> None:
        """`waits`: every change is in the store when its verb returns, or is not made."""
        self._agent_id = agent_id
        self._around = around
        self._waits = waits
        self._edition = loaded.edition
        self._held = Holdings()
        self._waiting: deque[_Entry] = deque()
        self._is_told = False
        self._memory: CognitiveMemory | None = None
        self._taken_away: set[str] = set()
        around.keepers.add(self)

    def keep(self, memory: CognitiveMemory, loaded: Loaded) -> None:
        """From now on that one, which is to hold what was loaded."""
        self._memory = memory
        self._take_up(loaded)

    def take_away(self, memory_id: MemoryId) -> None:
        """Somebody had it forgotten or put away: the mind is without it when next it is looked at. From any thread."""
        self._taken_away.add(memory_id)

    # --- the keeper's promise -----------------------------------------------------------------------------------------

    def look(self) -> None:
        if not self._taken_away:
            return
        gone, self._taken_away = self._taken_away, set()
        held = self._mind().holdings
        left = held._replace(working=_without(held.working, gone), episodic=_without(held.episodic, gone))
        self._mind().take_up(left)

    def admit(self, item: MemoryItem | None) -> MemoryItem | None:
        """Raises InvalidInput, RouterClosed, and the StoreError of an earlier change, which is then tried again."""
        self._around.check_open()
        self.look()
        if self._is_behind():
            trouble = self._trouble()
            if self._waits or self._is_settled():  # whoever does not wait is not held up by what is still on its way
                self._catch_up()
            if trouble is not None:
                raise trouble
        if item is None:
            return None
        desk = self._around.write_context()
        named = replace(item, id=new_id(desk.now))
        self._record(named, desk)
        return named

    def changed(self, change: Change) -> None:
        self._submit(change)
        if not self._waits:
            return
        try:
            self._wait()
        except KinglyMemoryError:
            self._give_up()
            raise

    async def saved(self) -> None:
        """Wait until everything is in the store. Raises StoreError."""
        began, failures = time.monotonic(), 0
        while time.monotonic() - began < PATIENCE_S:
            if self._waiting:
                with suppress(KinglyMemoryError, Moved):
                    await self._around.landing.of(self._waiting[-1].future)
            if not self._is_behind():
                return
            if not self._is_settled():  # somebody added to it meanwhile
                continue
            trouble = self._trouble()
            failures += trouble is not None
            if trouble is not None and failures == FAILURES:
                self._is_told = True
                raise trouble
            self._catch_up()
        raise StoreBusy(time.monotonic() - began)

    # --- within -------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until the last change is in the store. Raises StoreError."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            wait([entry.future for entry in self._waiting])
            if not self._is_behind():
                return
            trouble = self._trouble()
            if trouble is not None:
                raise trouble
            self._catch_up()
        raise StoreBusy(time.monotonic() - began)

    def _give_up(self) -> None:
        """Take the last change back. Where the store cannot even be read, that shows with the next change."""
        self._waiting.clear()
        self._around.unsaved.discard(self)
        with suppress(KinglyMemoryError):
            self._take_up(self._load())

    def _submit(self, change: Change) -> None:
        desk = self._around.write_context()
        step = self._step(change, desk)
        future = self._around.store.write(records.keep(step, desk))
        self._held, self._edition = step.holdings, step.edition
        self._waiting.append(_Entry(change, future))
        self._around.unsaved.add(self)
        future.add_done_callback(lambda done: self._done(done, step))

    def _step(self, change: Change, desk: WriteContext) -> Step:
        held = self._mind().holdings
        were, are = records.types_of(self._held), records.types_of(held)
        new = None if change.item is None else self._record(change.item, desk)
        if new is not None:
            new = replace(new, type=are.get(new.id, _TYPES[change.verb]))
            were[new.id] = new.type
        return Step(
            agent_id=self._agent_id,
            expected=self._edition,
            edition=new_id(desk.now),
            holdings=held,
            new=new,
            types={one: kind for one, kind in are.items() if were.get(one) is not kind},
            left={one: kind for one, kind in were.items() if one not in are},
        )

    def _record(self, item: MemoryItem, desk: WriteContext) -> Memory:
        return records.memory_of(item, self._agent_id, desk, content_limit_bytes=self._around.content_limit_bytes)

    def _done(self, done: Future[None], step: Step) -> None:
        """On the writer thread, mostly."""
        error = None if done.cancelled() else done.exception()
        if error is None:
            self._around.written(step.new, tuple(step.types))
            if step.edition == self._edition:
                self._around.unsaved.discard(self)
                if step.edition != self._edition:  # another change was submitted at this very moment
                    self._around.unsaved.add(self)
        elif not isinstance(error, Moved):
            log.warning("an experience is not stored yet: %s", error)

    def _is_behind(self) -> bool:
        """Whether something that was to be stored is not, and nobody is about to store it."""
        while self._waiting and self._waiting[0].future.done() and self._failure() is None:
            self._waiting.popleft()
        return bool(self._waiting) and self._waiting[0].future.done()

    def _is_settled(self) -> bool:
        return all(entry.future.done() for entry in self._waiting)

    def _failure(self) -> BaseException | None:
        return self._waiting[0].future.exception()

    def _trouble(self) -> KinglyMemoryError | None:
        """Why we are behind, unless that is told already or no failure at all."""
        error = self._failure()
        if error is None or isinstance(error, KinglyMemoryError):
            return None if self._is_told else error
        if isinstance(error, Moved):
            return None
        raise error

    def _catch_up(self) -> None:
        """Read the mind anew and do again what is not stored. Raises StoreError, and then nothing is lost."""
        wait([entry.future for entry in self._waiting])
        self._take_up(self._load())
        again = [entry.change for entry in self._waiting]
        self._waiting.clear()
        self._is_told = False
        for change in again:
            if not self._is_stored(change.item):
                self._mind().replay(change)
                self._submit(change)
        if not self._waiting:
            self._around.unsaved.discard(self)

    def _is_stored(self, item: MemoryItem | None) -> bool:
        """After a failed commit one cannot know."""
        return item is not None and self._around.store.reader.row(item.id or "") is not None

    def _load(self) -> Loaded:
        return records.load(self._around.store.reader, self._around.project, self._agent_id)

    def _take_up(self, loaded: Loaded) -> None:
        self._mind().take_up(loaded.holdings)
        self._edition, self._held = loaded.edition, loaded.holdings

    def _mind(self) -> CognitiveMemory:
        if self._memory is None:
            raise AssertionError("no memory was given to keep")
        return self._memory


def _without(kept: tuple[Kept, ...], gone: set[str]) -> tuple[Kept, ...]:
    return tuple(one for one in kept if one.item.id not in gone)
