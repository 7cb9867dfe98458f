"""The audit on disk: a file of JSON lines for each kind of record, which several processes may append to.

A line is there as a whole or not at all: what a crash has torn is taken off by the next writer, and what a full disk
has cut is taken off at once.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path

from kingly_memory import intake
from kingly_memory.adapters.audit import folder as places
from kingly_memory.adapters.audit.lines import LONGEST_BYTES, Unwritable, line_of, record_in
from kingly_memory.errors import StoreUntrusted
from kingly_memory.models import JsonObject

log = logging.getLogger("kingly_memory")

ROTATE_BYTES = 16 * 1_048_576
KEEP = 10
LEAST_ROTATE_BYTES = 1_024
LOCK_WAIT_S = 2.0
"""For another process; once that was in vain, a record does not wait until one has been written again."""
MOST_KEPT = 100
MAKE_ROOM = "without its records. Free some space or make the folder writable: no restart is needed"


class AuditFiles:
    """Appends records to the files of a folder, from any thread.

    A file that would grow beyond `rotate_bytes` makes room for a new one; the newest `keep` full ones stay beside it.
    `fsync`: a record survives a power cut, and not only the death of this process. A disk that takes nothing is warned
    of once, `lost` counts, and work goes on.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, rotate_bytes: int = ROTATE_BYTES, keep: int = KEEP, fsync: bool = False
    ) -> None:
        """Raises InvalidInput for figures that make no sense; whatever is wrong with the folder shows when writing."""
        self.folder = Path(folder)
        self._rotate_bytes = intake.count("rotate_bytes", rotate_bytes, least=LEAST_ROTATE_BYTES, most=2**62)
        self._keep = intake.count("keep", keep, least=1, most=MOST_KEPT)
        self._fsync = fsync
        self._lock = threading.Lock()
        self._is_failing = False
        self._is_locked_out = False
        self.written = 0
        self.lost = 0

    def append(self, kind: str, record: JsonObject) -> None:
        """Write one record of that kind. Raises nothing on account of the disk; see `lost`."""
        try:
            line = line_of(record)
        except Unwritable as error:
            self._lose(f"a record of {kind} {error}", "without it; put less into one record")
            return
        with self._lock:
            try:
                self._write(kind, line)
            except OSError as error:
                self._is_locked_out = error.errno == errno.EBUSY
                self._lose(f"{self.folder} cannot be written ({error.strerror or error})", MAKE_ROOM)
                return
            except StoreUntrusted as error:
                self._lose(str(error), "without its records")
                return
            self.written += 1
            self._is_failing = self._is_locked_out = False

    def _write(self, kind: str, line: bytes) -> None:
        try:
            self._append(kind, line)
        except FileNotFoundError:  # the first record, or the folder was taken away
            places.made(self.folder)
            self._append(kind, line)

    def _append(self, kind: str, line: bytes) -> None:
        with places.locked(self.folder, 0.0 if self._is_locked_out else LOCK_WAIT_S):
            path = places.named(self.folder, kind)
            descriptor = places.opened_to_append(path)
            try:
                size = mended_size(descriptor)
                if size and size + len(line) > self._rotate_bytes:
                    os.close(descriptor)
                    descriptor = -1
                    self._rotate(kind)
                    descriptor, size = places.opened_to_append(path), 0
                self._append_whole(descriptor, size, line)
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    def _append_whole(self, descriptor: int, size: int, line: bytes) -> None:
        """All of the line, or nothing of it."""
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            if self._fsync:
                os.fsync(descriptor)
                if not size:
                    places.sync(self.folder)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise

    def _rotate(self, kind: str) -> None:
        """Oldest first, so that being killed on the way leaves a gap and loses nothing."""
        for path in places.files_of(self.folder, kind)[: -self._keep]:
            path.unlink()
        for age in range(self._keep, 0, -1):
            younger = places.named(self.folder, kind, age - 1)
            if younger.exists():
                younger.replace(places.named(self.folder, kind, age))

    def _lose(self, problem: str, instead: str) -> None:
        self.lost += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning("audit: %s; the simulation goes on %s", problem, instead)


def mended_size(descriptor: int) -> int:
    """The size of a file of lines. A last line without its end is one that a crash has torn, and is taken off; one that
    is whole otherwise gets its end. Raises OSError."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    start = max(size - LONGEST_BYTES, 0)
    tail = os.pread(descriptor, size - start, start)
    torn = tail[tail.rfind(b"\n") + 1 :]
    if record_in(torn) is not None:
        os.write(descriptor, b"\n")
        return size + 1
    os.ftruncate(descriptor, size - len(torn))
    return size - len(torn)
