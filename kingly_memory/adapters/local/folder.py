"""The store's folder: where its files lie, who may own them, and the lock that every writer takes."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kingly_memory.errors import StoreBusy, StoreUntrusted, StoreUnwritable


@dataclass(frozen=True, slots=True)
class Folder:
    """`<home>/store` holds diskcache's files and nothing else; locks and notes lie beside it."""

    home: Path

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def database(self) -> Path:
        return self.store / "cache.db"

    @property
    def write_lock(self) -> Path:
        return self.home / "write.lock"

    @property
    def founded(self) -> Path:
        """A note that this home has held a store, so that a vanished file is reported and not taken as empty."""
        return self.home / "founded"

    def exists(self) -> bool:
        return self.database.exists()

    def make(self) -> None:
        """Create what is missing, readable by the owner alone. Raises StoreUnwritable or StoreUntrusted."""
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.store.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnwritable(str(self.home), error.strerror or "error") from error
        self.check()

    def made_private(self) -> None:
        """Called once after creation: files for the owner alone (SQLite's WAL takes its mode from the database)."""
        for path in self.store.iterdir():
            path.chmod(0o600)
        self.founded.touch(mode=0o600)

    def check(self) -> None:
        """Raise StoreUntrusted unless the folder and the file are ours and nobody else can write to them."""
        if "$" in str(self.home) or str(self.home).startswith("~"):
            raise StoreUntrusted(str(self.home), "its path contains `$` or begins with `~`, which would be expanded")
        for path, is_kind in ((self.store, stat.S_ISDIR), (self.database, stat.S_ISREG)):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if not is_kind(status.st_mode):
                raise StoreUntrusted(str(path), "it is a link or a special file")
            if status.st_uid != os.geteuid():
                raise StoreUntrusted(str(path), "it belongs to another user")
            if status.st_mode & 0o022:
                raise StoreUntrusted(str(path), "other users may write to it (run `chmod go-w` on it)")


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[None]:
    """Hold an exclusive lock on the file, released by the kernel if we are killed. Raises StoreBusy after the wait.

    SQLite below 3.51.3 can lose commits when two processes write and checkpoint at the same time (sqlite.org/wal.html,
    the WAL-reset bug); one lock around both prevents that, and shares the store more fairly than SQLite's busy wait.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreUnwritable(str(path.parent), error.strerror or "error") from error
    try:
        _acquire(descriptor, wait_s)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed, or None when somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _acquire(descriptor: int, wait_s: float) -> None:
    end, pause = time.monotonic() + wait_s, 0.0002
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise StoreBusy(wait_s) from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.002)
