"""The folder of an audit: which files there are, who may read them, and the lock that every writer takes.

The newest file of a kind is `<kind>.jsonl`; what was full became `<kind>.1.jsonl`, and that `<kind>.2.jsonl`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kingly_memory.own_files import check_folder, keep_out_of_git, lock, make_folder, opened, unlock

_NAME = re.compile(r"(?P<kind>[a-z_]{1,40})(?:\.(?P<age>[0-9]{1,6}))?\.jsonl")
LOCK = "audit.lock"


def made(folder: Path) -> None:
    """Make the folder, for its owner alone, and keep it out of repositories. Raises OSError, StoreUntrusted."""
    is_new = not folder.is_dir()
    make_folder(folder)
    if is_new:
        keep_out_of_git(folder)


def named(folder: Path, kind: str, age: int = 0) -> Path:
    return folder / (f"{kind}.{age}.jsonl" if age else f"{kind}.jsonl")


def files_of(folder: Path, kind: str) -> list[Path]:
    """The files of that kind, oldest first."""
    found = [(int(match["age"] or 0), path) for path, match in _files(folder) if match["kind"] == kind]
    return [path for _, path in sorted(found, reverse=True)]


def kinds(folder: Path) -> list[str]:
    """The kinds that there are records of. Raises OSError for a folder that cannot be read, StoreUntrusted."""
    check_folder(folder)
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
    """A descriptor for reading and appending, readable by the owner alone. Raises OSError, StoreUntrusted."""
    return opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def opened_to_read(path: Path) -> int:
    """Raises OSError, StoreUntrusted."""
    return opened(path, os.O_RDONLY)


@contextmanager
def locked(folder: Path, wait_s: float) -> Iterator[None]:
    """Alone among the writers and readers of the folder. Raises StoreUntrusted, and OSError, after that wait too:
    whoever holds the lock may have been stopped."""
    check_folder(folder)
    descriptor = opened(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if not lock(descriptor, wait_s):
            raise OSError(errno.EBUSY, f"another process has held its {LOCK} for {wait_s:g} s", str(folder))
        yield
    finally:
        unlock(descriptor)


@contextmanager
def steady(folder: Path, wait_s: float) -> Iterator[None]:
    """While no writer is at work, where there has ever been one, and none holds the lock for longer than that wait.
    Raises OSError, StoreUntrusted."""
    check_folder(folder)
    try:
        descriptor = opened(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        lock(descriptor, wait_s, fcntl.LOCK_SH)
        yield
    finally:
        unlock(descriptor)
