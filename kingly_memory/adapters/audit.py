"""The audit on disk: a file of JSON lines for each kind of record, which several processes append to and read.

A line is there as a whole or not at all: what a crash has torn is taken off by the next writer, and what a full disk
has cut is taken off at once. The newest file of a kind is `<kind>.jsonl`; what was full became `<kind>.1.jsonl`, and
that one `<kind>.2.jsonl`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from enum import Enum
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, fields, is_dataclass
from kingly_memory.errors import InvalidInput, StoreUntrusted
from kingly_memory.models import JsonObject
from kingly_memory.own_files import check_folder, keep_out_of_git, lock, make_folder, opened, unlock
from kingly_memory.validation import mended

log = logging.getLogger("kingly_memory")

ROTATE_BYTES = 16 * 1_048_576
KEEP = 10
LOCK = "audit.lock"
LOCK_WAIT_S = 2.0
"""For another process; once that was in vain, a record does not wait until one has been written again."""
LONGEST_BYTES = 4 * 1_048_576
"""Of a line; a trace of a household usually takes some 5,000."""
LEAST_ID_LETTERS = 4

_NAME = re.compile(r"(?P<kind>[a-z_]{1,40})(?:\.(?P<age>[0-9]{1,6}))?\.jsonl")


# --- writing ----------------------------------------------------------------------------------------------------------


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
        self._rotate_bytes = validation.count("rotate_bytes", rotate_bytes, least=1_024, most=2**62)
        self._keep = validation.count("keep", keep, least=1, most=100)
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
        except (ValueError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else error
            self._lose(f"a record of {kind} {why}", "without it; put less into one record")
            return
        with self._lock:
            try:
                self._write(kind, line)
            except StoreUntrusted as error:
                self._lose(str(error), "without its records")
            except OSError as error:
                self._is_locked_out = error.errno == errno.EBUSY
                self._lose(
                    f"{self.folder} cannot be written ({error.strerror or error})",
                    "without its records. Free some space or make the folder writable: no restart is needed",
                )
            else:
                self.written += 1
                self._is_failing = self._is_locked_out = False

    def _write(self, kind: str, line: bytes) -> None:
        try:
            self._append(kind, line)
        except FileNotFoundError:  # the first record, or the folder was taken away
            is_new = not self.folder.is_dir()
            make_folder(self.folder)
            if is_new:
                keep_out_of_git(self.folder)
            self._append(kind, line)

    def _append(self, kind: str, line: bytes) -> None:
        path, how = self.folder / f"{kind}.jsonl", os.O_RDWR | os.O_APPEND | os.O_CREAT
        with _locked(self.folder, 0.0 if self._is_locked_out else LOCK_WAIT_S):
            while True:
                with os.fdopen(opened(path, how), "ab", 0) as file:
                    size = _mended_size(file.fileno())
                    if not size or size + len(line) <= self._rotate_bytes:
                        self._append_whole(file.fileno(), size, line)
                        return
                self._rotate(kind)

    def _append_whole(self, descriptor: int, size: int, line: bytes) -> None:
        """All of the line, or nothing of it."""
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            if self._fsync:
                os.fsync(descriptor)
                if not size:
                    _sync_folder(self.folder)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise

    def _rotate(self, kind: str) -> None:
        """Oldest first, so that being killed on the way leaves a gap and loses nothing."""
        for path in _files_of(self.folder, kind)[: -self._keep]:
            path.unlink()
        names = [self.folder / f"{kind}.jsonl", *(self.folder / f"{kind}.{n + 1}.jsonl" for n in range(self._keep))]
        for age in range(self._keep, 0, -1):
            if names[age - 1].exists():
                names[age - 1].replace(names[age])

    def _lose(self, problem: str, instead: str) -> None:
        self.lost += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning("audit: %s; the simulation goes on %s", problem, instead)


def line_of(record: JsonObject) -> bytes:
    """A record as one line with its end. What JSON cannot hold is written as near as can be, for an audit must not
    depend on it. Raises RecursionError, and ValueError for a record that is too large for a line."""
    try:
        text = json.dumps(_plain(record), ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # Python writes out no whole number of thousands of digits
        raise ValueError("holds a number with too many digits") from None
    line = mended(text).encode() + b"\n"
    if len(line) > LONGEST_BYTES:
        raise ValueError(f"takes {len(line):,} bytes, at most {LONGEST_BYTES:,} are written")
    return line


def _plain(value: Any) -> Any:
    """A copy out of JSON's own types."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, date):
        return value.isoformat()
    try:  # of numpy and the like
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return f"<{type(value).__name__}>"
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and hasattr(value, "__index__") else number


def _mended_size(descriptor: int) -> int:
    """The size of a file of lines. A last line without its end is one that a crash has torn, and is taken off; one that
    is whole otherwise gets its end. Raises OSError."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    start = max(size - LONGEST_BYTES, 0)
    tail = os.pread(descriptor, size - start, start)
    torn = tail[tail.rfind(b"\n") + 1 :]
    if noted("", torn) is not None:
        os.write(descriptor, b"\n")
        return size + 1
    os.ftruncate(descriptor, size - len(torn))
    return size - len(torn)


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- the folder -------------------------------------------------------------------------------------------------------


def _files_of(folder: Path, kind: str) -> list[Path]:
    """The files of that kind, oldest first."""
    found = [(int(match["age"] or 0), path) for path, match in _files(folder) if match["kind"] == kind]
    return [path for _, path in sorted(found, reverse=True)]


def _files(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    return [(path, match) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]


@contextmanager
def _locked(folder: Path, wait_s: float, *, is_reader: bool = False) -> Iterator[None]:
    """While no writer renames files. A writer is alone; readers share, go on without a lock where nobody has ever
    written, and after that wait: whoever holds the lock may have been stopped. Raises StoreUntrusted, OSError."""
    check_folder(folder)
    try:
        descriptor = opened(folder / LOCK, os.O_RDONLY if is_reader else os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        if not is_reader:
            raise
        yield
        return
    try:
        is_locked = lock(descriptor, wait_s, fcntl.LOCK_SH if is_reader else fcntl.LOCK_EX)
        if not is_locked and not is_reader:
            raise OSError(errno.EBUSY, f"another process has held its {LOCK} for {wait_s:g} s", str(folder))
        yield
    finally:
        unlock(descriptor)


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noted:
    """A record with its kind, and an id that is made of its line: the same wherever the line has been moved to."""

    kind: str
    id: str
    record: JsonObject

    @property
    def at(self) -> str:
        """ISO 8601, or empty."""
        return _text(self.record.get("timestamp"))

    @property
    def agent_id(self) -> str:
        return _text(self.record.get("agent_id"))


class AuditReader:
    """The records in a folder, while others write to it. `damaged` counts the lines that were none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged = 0

    def kinds(self) -> list[str]:
        """The kinds that there are records of. Raises InvalidInput, StoreUntrusted."""
        try:
            check_folder(self.folder)
            return sorted({match["kind"] for _, match in _files(self.folder)})
        except FileNotFoundError:
            problem = f"there is no audit in {self.folder}; name another --folder, or write one (docs/agents.md)"
            raise InvalidInput("folder", problem) from None
        except OSError as error:
            raise self._unreadable(error) from None

    def all(self, kinds: Sequence[str] | None = None) -> Iterator[Noted]:
        """Every record, oldest first within its kind. Raises InvalidInput."""
        for kind in self._chosen(kinds):
            with ExitStack() as files:
                for file in self.opened(kind, files):
                    yield from self._records(kind, file)

    def latest(self, most: int, kinds: Sequence[str] | None = None, agent_id: str | None = None) -> list[Noted]:
        """So many of the latest records, of one agent if it is named, oldest first. Raises InvalidInput."""
        found: list[Noted] = []
        for kind in self._chosen(kinds):
            own: list[Noted] = []
            with ExitStack() as files:
                for file in reversed(self.opened(kind, files)):
                    records = (one for one in self._records(kind, file) if agent_id in (None, one.agent_id))
                    own = [*deque(records, maxlen=most - len(own)), *own]
                    if len(own) == most:
                        break
            found += own
        return sorted(found, key=lambda one: one.at)[-most:] if most else []

    def named(self, name: str) -> Noted:
        """The record with that id, or the beginning of one, the latest if there are several; or of FILE:LINE.

        Raises InvalidInput.
        """
        file, _, line = name.rpartition(":")
        if file:
            return self._at(file, line)
        if len(name) < LEAST_ID_LETTERS:
            problem = f"{name!r} is too short; give {LEAST_ID_LETTERS} letters of an id, or FILE:LINE"
            raise InvalidInput("record", problem)
        for kind in self.kinds():
            found = deque((one for one in self.all([kind]) if one.id.startswith(name)), maxlen=1)
            if found:
                return found[0]
        raise InvalidInput("record", f"there is none with the id {mended(name)[:40]!r} in {self.folder}")

    def opened(self, kind: str, files: ExitStack) -> list[BinaryIO]:
        """All files of the kind, oldest first, opened while nobody renames them. Raises InvalidInput."""
        try:
            with _locked(self.folder, LOCK_WAIT_S, is_reader=True):
                return [_opened_file(path, files) for path in _files_of(self.folder, kind)]
        except OSError as error:
            raise self._unreadable(error) from None

    def _at(self, name: str, line: str) -> Noted:
        path = self.folder / Path(name if name.endswith(".jsonl") else f"{name}.jsonl").name
        kind = path.name.partition(".")[0]
        if not line.isdecimal() or kind not in self.kinds() or path not in _files_of(self.folder, kind):
            raise InvalidInput("record", f"{mended(name)[:60]}:{mended(line)[:20]} is no FILE:LINE of {self.folder}")
        number = int(line[:12])
        with ExitStack() as files:
            try:
                lines = whole_lines(_opened_file(path, files))
            except OSError as error:
                raise self._unreadable(error) from None
            found = next(islice(lines, number - 1, None), None) if number else None
        one = None if found is None else noted(kind, found)
        if one is None:
            raise InvalidInput("record", f"{path} has no record in line {line[:12]}")
        return one

    def _chosen(self, kinds: Sequence[str] | None) -> list[str]:
        return [kind for kind in self.kinds() if kinds is None or kind in kinds]

    def _records(self, kind: str, file: BinaryIO) -> Iterator[Noted]:
        for line in whole_lines(file):
            one = noted(kind, line)
            if one is None:
                self.damaged += 1
            else:
                yield one

    def _unreadable(self, error: OSError) -> InvalidInput:
        return InvalidInput("folder", f"the audit in {self.folder} cannot be read ({error.strerror or error})")


class Follower:
    """The records that are added after this was made, across rotation. An audit need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._reader = AuditReader(folder)
        self._marks: dict[str, tuple[int, int]] = {}
        """How far each kind has been read: the inode of a file, whatever it is called by now, and a place in it."""
        for kind in self._kinds():
            with ExitStack() as files:
                newest = self._reader.opened(kind, files)[-1]
                offset = 0
                for _ in whole_lines(newest):
                    offset = newest.tell()
                self._marks[kind] = _inode(newest), offset

    def added(self) -> list[Noted]:
        """What was added since the last time, in the order of time. Raises InvalidInput."""
        found = [one for kind in self._kinds() for one in self._more(kind)]
        return sorted(found, key=lambda one: one.at)

    def _kinds(self) -> list[str]:
        return self._reader.kinds() if self._reader.folder.is_dir() else []

    def _more(self, kind: str) -> Iterator[Noted]:
        inode, offset = self._marks.get(kind, (0, 0))
        with ExitStack() as files:
            there = {_inode(file): file for file in self._reader.opened(kind, files)}
            unread = list(there).index(inode) if inode in there else 0
            for each in list(there)[unread:]:
                file = there[each]
                place = file.seek(offset if each == inode else 0)
                for line in whole_lines(file):
                    place = file.tell()
                    if (one := noted(kind, line)) is not None:
                        yield one
                self._marks[kind] = each, place


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines; a torn one at the end is none, and one that is too long is cut, which makes it none."""
    while line := file.readline(LONGEST_BYTES + 1):
        rest = line
        while len(rest) > LONGEST_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_BYTES + 1)
        if rest.endswith(b"\n"):
            yield line[:-1] if line is rest else line[:1]


def noted(kind: str, line: bytes) -> Noted | None:
    """None for a line that is no record: torn by a crash, or somebody else's."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Noted(kind, sha256(line).hexdigest()[:12], record) if isinstance(record, dict) else None


def _opened_file(path: Path, files: ExitStack) -> BinaryIO:
    return files.enter_context(os.fdopen(opened(path, os.O_RDONLY), "rb"))


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
