"""The store's folder: where its files lie, who may own them, and the lock that every writer takes."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kingly_memory.adapters.local.damage import Inode, Malformed
from kingly_memory.errors import StoreBusy, StoreDamaged, StoreUntrusted, StoreUnwritable

_OPEN, _CLOSED = "open\n", "closed\n"
_NOTE_LIMIT_BYTES = 16
_CAREFULLY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""No link is followed, and no pipe waited for."""


@dataclass(frozen=True)  # without slots, so that paths are put together once: every commit asks for them
class Folder:
    """`<home>/store` holds diskcache's files and nothing else; locks, notes and damaged stores lie beside it."""

    home: Path
    name: str = "store"

    @cached_property
    def store(self) -> Path:
        return self.home / self.name

    @cached_property
    def database(self) -> Path:
        return self.store / "cache.db"

    @cached_property
    def wal(self) -> Path:
        """What is committed and not yet folded into the database."""
        return self.store / "cache.db-wal"

    @cached_property
    def write_lock(self) -> Path:
        return self.home / "write.lock"

    @cached_property
    def founded(self) -> Path:
        """A note that this home has held a store, so that a vanished file is reported and not taken as empty. It says
        whether a writer has the store open, so that a vanished WAL is noticed too."""
        return self.home / "founded"

    @cached_property
    def salvaged(self) -> Folder:
        """Where recovery builds the store that will take this one's place."""
        return replace(self, name="store.salvaged")

    @property
    def quarantined(self) -> Path | None:
        """The newest damaged store that recovery has put aside, if there is one."""
        return max(self.home.glob("store.corrupt-*"), default=None)

    def quarantine(self) -> Path:
        """A name that is not taken yet, to put the damaged store under."""
        named = self.home / time.strftime("store.corrupt-%Y%m%dT%H%M%S", time.gmtime())
        taken = 1
        path = named
        while path.exists():
            taken += 1
            path = named.with_name(f"{named.name}-{taken}")
        return path

    def exists(self) -> bool:
        return os.path.lexists(self.database)

    def inode(self) -> Inode | None:
        """Which file the database is just now; None when there is none."""
        return inode_of(str(self.database))

    def is_empty(self) -> bool:
        """True when there is no database, or nothing in it.

        Only looked at from outside: closing a file that SQLite has open in this process would drop its locks and let
        other processes corrupt it (sqlite.org/howtocorrupt.html, 2.2).
        """
        try:
            return self.database.lstat().st_size == 0
        except (FileNotFoundError, NotADirectoryError):
            return True

    def check_not_lost(self) -> None:
        """Raise StoreDamaged when there is nothing although there was something, StoreUntrusted as `check` does."""
        if not self.is_empty():
            return
        self.check()
        if self.salvaged.exists() and not self.exists():
            raise Malformed(str(self.store), "its recovery was interrupted", None)
        self.check_not_founded()

    def check_not_founded(self) -> None:
        """Raise StoreDamaged when this home has held a store; for a database that turns out to hold nothing."""
        if self.founded.exists():
            problem = f"{self.name}/cache.db is missing or empty, although memories were kept here"
            raise StoreDamaged(str(self.home), problem)

    def make(self) -> None:
        """Create what is missing, readable by the owner alone. Raises StoreUnwritable or StoreUntrusted."""
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.store.is_dir():
                self._keep_out_of_git()
            self.store.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnwritable(str(self.home), error.strerror or "error") from error
        self.check()

    def _keep_out_of_git(self) -> None:
        """Memories are private, and a home often lies inside a repository."""
        note = self.home / ".gitignore"
        note.write_text("*\n", encoding="ascii")
        note.chmod(0o600)

    def made_private(self) -> None:
        """Called once after creation: files for the owner alone (SQLite's WAL takes its mode from the database)."""
        for path in self.store.iterdir():
            path.chmod(0o600)

    def check(self) -> None:
        """Raise StoreUntrusted unless the folder and the file are ours and nobody else can write to them."""
        if "$" in str(self.home) or str(self.home).startswith("~"):
            raise StoreUntrusted(str(self.home), "its path contains `$` or begins with `~`, which would be expanded")
        kinds = ((self.store, stat.S_ISDIR), (self.database, stat.S_ISREG), (self.founded, stat.S_ISREG))
        for path, is_kind in kinds:
            try:
                status = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            if not is_kind(status.st_mode):
                raise StoreUntrusted(str(path), "it is a link or a special file")
            if status.st_uid != os.geteuid():
                raise StoreUntrusted(str(path), "it belongs to another user")
            if status.st_mode & 0o022:
                raise StoreUntrusted(str(path), "other users may write to it (run `chmod go-w` on it)")

    def has_lost_wal(self) -> bool:
        """True when a writer was killed and its WAL is gone, or is an empty one that a reader has made since."""
        return self._note() == _OPEN and (not self.wal.exists() or self.wal.stat().st_size == 0)

    def note_opened(self) -> None:
        """Note that a writer has the store open."""
        if self._note() != _OPEN:
            self._write_note(_OPEN)

    def note_closed(self) -> None:
        """Note that nobody has it open, unless the WAL is still there: then somebody has."""
        if not self.wal.exists():
            self._write_note(_CLOSED)

    def sync(self) -> None:
        """Make renames in the home survive a power cut."""
        descriptor = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _note(self) -> str:
        """What the note says; "" when there is none, or something else in its place that could hold us up."""
        try:
            descriptor = os.open(self.founded, os.O_RDONLY | _CAREFULLY)
        except OSError:
            return ""
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return os.read(descriptor, _NOTE_LIMIT_BYTES).decode("ascii", "replace") if is_file else ""
        finally:
            os.close(descriptor)

    def _write_note(self, text: str) -> None:
        descriptor = os.open(self.founded, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFULLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)


def inode_of(path: str) -> Inode | None:
    """Which file lies under that path just now. Asked before every read and commit, so a text: a Path costs more."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


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
        unlock(descriptor)


def unlock(descriptor: int) -> None:
    """Let go of a lock. A child forked meanwhile holds a copy of the descriptor, so closing ours is not enough."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed, or None when somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
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
