"""Searches go first: whatever is worked out in the background gives way to them between two bites.

All of this shares one interpreter: a thread that computes beside a search makes it wait at every statement.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_S = 0.1
"""How long the background gives way before its next bite: as long as a search may take here. Where one search follows
on another without a gap, it goes on all the same."""


def no_pause() -> None:
    """Between two bites of work that somebody waits for."""


class RightOfWay:
    """Knows which searches are under way. Safe from any thread."""

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._changed = threading.Condition()
        self._under_way = 0
        self._begun = 0
        self._is_over = False

    @contextmanager
    def search(self) -> Iterator[None]:
        """For as long as a search works on its answer."""
        with self._changed:
            self._under_way += 1
            self._begun += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    @property
    def is_taken(self) -> bool:
        """Whether a search is under way."""
        return self._under_way > 0

    def give(self) -> None:
        """Wait until no search is under way, but no longer than `most_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_taken or self._is_over, self._most_s)

    def watch(self) -> Callable[[], bool]:
        """A question for one who gives way: was any search under way since it was asked the last time?"""
        seen = 0

        def was_taken() -> bool:
            nonlocal seen
            with self._changed:
                was = self._begun != seen
                seen = self._begun - self.is_taken
            return was

        return was_taken

    def end(self) -> None:
        """Give way no more: whoever waits is to finish."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
