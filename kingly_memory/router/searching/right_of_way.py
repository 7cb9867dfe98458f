"""Searches go first: what is done in the background for them to find more gives way between two bites."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

MOST_S = 0.1
"""How long the background gives way before its next bite: as long as a search may take here. Where one search follows
on another without a gap, it goes on all the same."""


class RightOfWay:
    """Knows which searches are under way. Safe from any thread."""

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._changed = threading.Condition()
        self._under_way = 0
        self._has_begun = False
        self._is_over = False

    @contextmanager
    def search(self) -> Iterator[None]:
        """For as long as a search works on its answer."""
        with self._changed:
            self._under_way += 1
            self._has_begun = True
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

    def was_taken(self) -> bool:
        """Whether there was any search since this was asked the last time."""
        with self._changed:
            was, self._has_begun = self._has_begun, self.is_taken
        return was

    def end(self) -> None:
        """Give way no more: whoever waits is to finish."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
