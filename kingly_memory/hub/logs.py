"""Where a server's lines go: calls to standard output, where they are wanted, and warnings to standard error, each of
a kind once a minute. Both are written by threads of their own.

A host may start the server with a pipe that it never reads. Once that pipe is full, a write to it waits for ever, and
must not do so in the event loop. What is refused a thousand times a second must not fill a disk.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from kingly_memory.validation import mended

MOST_WAITING = 1_000
"""Lines that wait to be written; of more, the later ones are dropped."""
LINE_CHARACTERS = 500
MOST_KINDS = 1_000

_ONCE_IN_S = 60.0
_LAST_LINES_S = 0.2


class _Notes(logging.Handler):
    """Hands warnings to the thread that writes them. Of an exception only its type is written: its text may hold what a
    memory says."""

    def __init__(self, write: Callable[[str], None], now_s: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._write = write
        self._now_s = now_s
        self._written: dict[str, tuple[float, int]] = {}
        """When each line was last written, and how often it was left out since then."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        # What asyncio and the like say in further lines are addresses of objects.
        text = record.getMessage().partition("\n")[0]
        text = mended(text if kind is None else f"{text} ({kind.__name__})")[:LINE_CHARACTERS]
        last_s, more = self._written.get(text, (-math.inf, 0))
        if self._now_s() - last_s < _ONCE_IN_S:
            self._written[text] = (last_s, more + 1)
            return
        if len(self._written) >= MOST_KINDS:
            self.write_the_rest()
        self._written[text] = (self._now_s(), 0)
        self._write_line(text, more)

    def write_the_rest(self) -> None:
        """Write how often each line was left out since it was last written."""
        for text, (_, more) in self._written.items():
            if more:
                self._write_line(text, more)
        self._written.clear()

    def _write_line(self, text: str, more: int) -> None:
        line = " ".join(text.split())
        self._write(f"kingly-memory: {line}{f' ({more} more since)' if more else ''}")


@contextmanager
def warnings_to_stderr(now_s: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Show the warnings of every library, as notes of this program."""
    with lines_to(sys.stderr) as write:
        handler = _Notes(write, now_s)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            handler.write_the_rest()


@contextmanager
def lines_to(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """What writes a line to the stream and never waits: where nobody reads, the later lines are dropped."""
    waiting: queue.Queue[str | None] = queue.Queue(MOST_WAITING)

    def write(line: str | None) -> None:
        with suppress(queue.Full):
            waiting.put_nowait(line)

    def write_out() -> None:
        while (line := waiting.get()) is not None:
            with suppress(OSError, ValueError):  # nobody reads, which is no reason to stop
                os.write(stream.fileno(), f"{line}\n".encode())

    writing = threading.Thread(target=write_out, name="kingly-lines", daemon=True)
    writing.start()
    try:
        yield write
    finally:
        write(None)
        writing.join(_LAST_LINES_S)
