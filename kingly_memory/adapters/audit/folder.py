"""The folder of an audit: which files there are, who may read them, and the lock that every writer takes.

The newest file of a kind is `<kind>.jsonl`; what was full became `<kind>.1.jsonl`, and that `<kind>.2.jsonl`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CAREFULLY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""No link is followed, and no pipe waited for."""
_NAME = re.compile(r"(?P<kind>[a-z_]{1,40})(?:\.(?P<age>[0-9]{1,6}))?\.jsonl")
LOCK = "audit.lock"


def made(folder: Path) -> None:
    """Make the folder, for its owner alone, and keep it out of repositories. Raises OSError."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    note = folder / ".gitignore"
    if not note.exists():
        note.write_text("*\n", encoding="ascii")
        note.chmod(0o600)


def named(folder: Path, kind: str, age: int = 0) -> Path:
    return folder / (f"{kind}.{age}.jsonl" if age else f"{kind}.jsonl")


def files_of(folder: Path, kind: str) -> list[Path]:
    """The files of that kind, oldest first."""
    found = [(int(match["age"] or 0), path) for path, match in _files(folder) if match["kind"] == kind]
    return [path for _, path in sorted(found, reverse=True)]


def kinds(folder: Path) -> list[str]:
    """The kinds that there are records of. Raises OSError for a folder that cannot be read."""
    return sorted({match["kind"] for _, match in _files(folder)})


def _files(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match:
            yield path, match


def sync(folder: Path) -> None:
    """Make a new file's name survive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opened_to_append(path: Path) -> int:
    """A descriptor for reading and appending, readable by the owner alone. Raises OSError, for a link too."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _CAREFULLY, 0o600)
    return _regular(descriptor, path)


def opened_to_read(path: Path) -> int:
    """Raises OSError, for a link too."""
    return _regular(os.open(path, os.O_RDONLY | _CAREFULLY), path)


@contextmanager
def locked(folder: Path, wait_s: float) -> Iterator[None]:
    """Alone among the writers and readers of the folder. Raises OSError, after that wait too: whoever holds the lock
    may have been stopped."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o600)
    with _closing(descriptor):
        if not _acquire(descriptor, fcntl.LOCK_EX, wait_s):
            raise OSError(errno.EBUSY, f"another process has held its {LOCK} for {wait_s:g} s", str(folder))
        yield


@contextmanager
def steady(folder: Path, wait_s: float) -> Iterator[None]:
    """While no writer is at work, where there has ever been one, and none holds the lock for longer than that wait.
    Raises OSError."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | _CAREFULLY)
    except FileNotFoundError:
        yield
        return
    with _closing(descriptor):
        _acquire(descriptor, fcntl.LOCK_SH, wait_s)
        yield


def _acquire(descriptor: int, how: int, wait_s: float) -> bool:
    end, pause = time.monotonic() + wait_s, 0.0002
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.002)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    """With its lock let go. A child forked meanwhile has a copy of the descriptor, so closing is not enough."""
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _regular(descriptor: int, path: Path) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is no regular file", str(path))
