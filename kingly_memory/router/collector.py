"""Python's collector of garbage, which goes through everything there is again and again while very much is made."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def put_off() -> Iterator[None]:
    """For the tenth of a second in which fifty thousand objects are made that stay: to go through them meanwhile takes
    a third as long as making them, and holds up all threads. A collector that is off stays off. Safe from any thread,
    and from a fork; only who switches the collector in the meantime is overruled."""
    state = _state()
    state.enter()
    try:
        yield
    finally:
        state.leave()


class _State:
    """How many are inside, and how the collector was when the first one came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = False

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_on:
                gc.enable()

    def begin_anew(self) -> None:
        """In a child process, which has none of the threads that were inside."""
        self._lock = threading.Lock()
        if self._inside and self._was_on:
            gc.enable()
        self._inside = 0


@cache
def _state() -> _State:
    """The process's only one: a collector is of a process too."""
    state = _State()
    os.register_at_fork(after_in_child=state.begin_anew)
    return state
