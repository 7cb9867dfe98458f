"""Where the server's warnings go: to standard error, from a thread of their own.

A host may start the server with a pipe for standard error that it never reads. Once that pipe is full, a write to it
waits for ever, and must not do so in the event loop.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kingly_memory.intake import mended

MOST_WAITING = 1_000
"""Lines that wait to be written; of more, the later ones are dropped."""
LINE_CHARACTERS = 500

_LAST_LINES_S = 0.2


class _Notes(logging.Handler):
    """Hands warnings to the thread that writes them. Of an exception only its kind is told: its text may hold what a
    memory says."""

    def __init__(self, waiting: queue.Queue[str | None]) -> None:
        super().__init__(logging.WARNING)
        self._waiting = waiting

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        told = record.getMessage() if kind is None else f"{record.getMessage()} ({kind.__name__})"
        line = " ".join(mended(told).split())[:LINE_CHARACTERS]
        with suppress(queue.Full):
            self._waiting.put_nowait(f"kingly-memory: {line}\n")


@contextmanager
def warnings_to_stderr() -> Iterator[None]:
    """Show the warnings of every library, as notes of this program."""
    waiting: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
    handler = _Notes(waiting)
    writing = threading.Thread(target=_write, args=(waiting,), name="kingly-stderr", daemon=True)
    root = logging.getLogger()
    root.addHandler(handler)
    writing.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        with suppress(queue.Full):
            waiting.put_nowait(None)
        writing.join(_LAST_LINES_S)


def _write(waiting: queue.Queue[str | None]) -> None:
    while (line := waiting.get()) is not None:
        with suppress(OSError, ValueError):  # nobody reads, which is no reason to stop
            os.write(sys.stderr.fileno(), line.encode())
