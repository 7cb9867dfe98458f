"""Searches and stores go first: whatever is worked out in the background gives way to them between two bites.

All of this shares one interpreter: a thread that computes beside one makes it wait at every statement.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_S = 0.1
"""How long the background gives way before its next bite: as long as a search may take here. Where one search follows
on another without a gap, it goes on all the same."""
SOON_S = 0.001
"""What is begun so soon after another one follows on it: often what was searched for is stored, or the other way."""
PATIENCE, PATIENT_S = 2.0, 1.0
"""Work that somebody waits for gives way for so many times as long as it takes itself, and for some seconds besides."""


Pause = Callable[[], None]
"""Called between two bites of work."""


def no_pause() -> None:
    """Between two bites of work that somebody waits for."""


class RightOfWay:
    """Knows which searches and stores are under way. Safe from any thread."""

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._changed = threading.Condition()
        self._searches = 0
        self._stores = 0
        self._begun = 0
        self._is_over = False

    @contextmanager
    def search(self) -> Iterator[None]:
        """For as long as a search works on its answer."""
        with self._changed:
            self._searches += 1
            self._begun += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._searches -= 1
                self._changed.notify_all()

    @contextmanager
    def store(self) -> Iterator[None]:
        """For as long as somebody waits for what he stores, or changes otherwise."""
        with self._changed:
            self._stores += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._stores -= 1
                self._changed.notify_all()

    @property
    def is_taken(self) -> bool:
        """Whether a search or a store is under way."""
        return self._searches > 0 or self._stores > 0

    def give(self) -> None:
        """Wait until nothing of that is under way, nor what follows on it, but no longer than `most_s`."""
        until_s = time.monotonic() + self._most_s
        with self._changed:
            if not self._is_free() and self._changed.wait_for(self._is_free, self._most_s):
                self._changed.wait_for(lambda: not self._is_free(), min(SOON_S, self._most_s))
                self._changed.wait_for(self._is_free, max(until_s - time.monotonic(), 0.0))

    def watch(self) -> Callable[[], bool]:
        """A question for one who gives way: was any search under way since it was asked the last time?"""
        seen = 0

        def was_taken() -> bool:
            nonlocal seen
            with self._changed:
                was = self._begun != seen
                seen = self._begun - (self._searches > 0)
            return was

        return was_taken

    def _is_free(self) -> bool:
        return not self.is_taken or self._is_over

    def end(self) -> None:
        """Give way no more: whoever waits is to finish."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class Patience:
    """One piece of work that gives way between its bites, and is done after some time whatever is under way."""

    def __init__(self, right_of_way: RightOfWay) -> None:
        self._right_of_way = right_of_way
        self._left_s = PATIENT_S

    def give(self, worked_s: float) -> bool:
        """Give way after a bite that took so long. False when there was nobody, or no patience is left."""
        self._left_s += PATIENCE * worked_s
        if not self._right_of_way.is_taken or self._left_s <= 0:
            return False
        began_s = time.monotonic()
        self._right_of_way.give()
        self._left_s -= time.monotonic() - began_s
        return True
