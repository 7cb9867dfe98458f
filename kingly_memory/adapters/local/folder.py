"""The store's folder: where its files lie, who may own them, and the lock that every writer takes."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from kingly_memory.adapters.local.safety import Inode, Malformed
from kingly_memory.errors import StoreBusy, StoreDamaged, StoreUntrusted, StoreUnwritable
from kingly_memory.own_files import (
    check_folder,
    check_no_link,
    check_one_name,
    check_ours,
    keep_out_of_git,
    lock,
    make_folder,
    opened,
)

_OPEN, _CLOSED = "open\n", "closed\n"
_NOTE_LIMIT_BYTES = 16


class Folder:
    """`<home>/store` holds diskcache's files and nothing else; locks, notes and damaged stores lie beside it."""

    def __init__(self, home: Path, name: str = "store") -> None:
        self.home = home
        self.name = name
        self.store = home / name
        self.database = self.store / "cache.db"
        self.wal = self.store / "cache.db-wal"
        """What is committed and not yet folded into the database."""
        self.shared_memory = self.store / "cache.db-shm"
        """SQLite's index of the WAL."""
        self.write_lock = home / "write.lock"
        self.founded = home / "founded"
        """A note that this home has held a store, so that a vanished file is reported and not taken as empty. It says
        whether a writer has the store open, so that a vanished WAL is noticed too."""

    @property
    def salvaged(self) -> Folder:
        """Where recovery builds the store that will take this one's place."""
        return Folder(self.home, "store.salvaged")

    @property
    def restored(self) -> Folder:
        """Where a backup becomes the store that will take this one's place."""
        return Folder(self.home, "store.restored")

    @property
    def quarantined(self) -> Path | None:
        """The newest damaged store that recovery has put aside, if there is one."""
        return max(self.home.glob("store.corrupt-*"), default=None)

    def aside(self, why: str) -> Path:
        """A name that is not taken yet, to put a store under that another one replaces."""
        named = self.home / time.strftime(f"store.{why}-%Y%m%dT%H%M%S", time.gmtime())
        others = (named.with_name(f"{named.name}-{number}") for number in count(2))
        return next(path for path in chain([named], others) if not path.exists())

    def take(self, fresh: Folder, why: str) -> Path | None:
        """Put another store, which is finished, in the place of this one. Returns where this one lies from now on; None
        when there was none. The caller holds the write lock."""
        aside = self.aside(why) if os.path.lexists(self.store) else None
        if aside is not None:
            self.store.rename(aside)
        fresh.store.rename(self.store)
        self.sync()
        self.note_closed()
        return aside

    def exists(self) -> bool:
        return os.path.lexists(self.database)

    def inode(self) -> Inode | None:
        """Which file the database is just now; None when there is none."""
        return inode_of(str(self.database))

    def files(self) -> str:
        """Which database in which folder this is. A move keeps both, and every copy has others; the device is no part
        of it, since it may have another number each time it is mounted."""
        return f"{self.store.lstat().st_ino}/{self.database.lstat().st_ino}"

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
        self.check()
        if self.exists():
            return
        try:
            make_folder(self.home)
            keep_out_of_git(self.home)
            self.store.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnwritable(str(self.home), error.strerror or "error") from error

    def check(self) -> None:
        """Raise StoreUntrusted unless the folders and files are ours, no links, and nobody else can write to them."""
        if "$" in str(self.home) or str(self.home).startswith("~"):
            raise StoreUntrusted(str(self.home), "its path contains `$` or begins with `~`, which would be expanded")
        check_folder(self.home)
        for path in (self.store, self.database, self.wal, self.shared_memory, self.founded):
            try:
                status = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            is_folder = path is self.store
            if stat.S_IFMT(status.st_mode) != (stat.S_IFDIR if is_folder else stat.S_IFREG):
                check_no_link(path)
                raise StoreUntrusted(str(path), f"it is no {'folder' if is_folder else 'regular file'}")
            if not is_folder:
                check_one_name(status, path)
            check_ours(status, path)

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
            descriptor = opened(self.founded, os.O_RDONLY)
        except (OSError, StoreUntrusted):
            return ""
        try:
            return os.read(descriptor, _NOTE_LIMIT_BYTES).decode("ascii", "replace")
        finally:
            os.close(descriptor)

    def _write_note(self, text: str) -> None:
        with os.fdopen(opened(self.founded, os.O_WRONLY | os.O_CREAT), "w", encoding="ascii") as file:
            file.truncate(0)
            file.write(text)


def inode_of(path: str) -> Inode | None:
    """Which file lies under that path just now. Asked before every read and commit, so a text: a Path costs more."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


class WriteLock:
    """The lock that every writer of a home holds during a commit, and that the kernel releases if we are killed. Its
    file stays open in between: to check and open it each time takes longer than most commits do.

    SQLite below 3.51.3 can lose commits when two processes write and checkpoint at the same time (sqlite.org/wal.html,
    the WAL-reset bug); one lock around both prevents that, and shares the store more fairly than SQLite's busy wait.
    """

    def __init__(self, path: Path, wait_s: float) -> None:
        self._path = str(path)
        self._wait_s = wait_s
        self._descriptor: int | None = None
        self._inode: Inode | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises StoreBusy after the wait, StoreUntrusted when a link is in the way, StoreUnwritable."""
        descriptor = self._descriptor
        if descriptor is None or inode_of(self._path) != self._inode:
            self.close()
            try:
                descriptor = self._descriptor = _opened_lock(Path(self._path))
            except OSError as error:
                raise StoreUnwritable(str(Path(self._path).parent), error.strerror or "error") from error
            self._inode = inode_of(self._path)
        if not lock(descriptor, self._wait_s):
            self.close()
            raise StoreBusy(self._wait_s)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file. A child that was forked does so at once, else it would keep what its parent locks."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[None]:
    """Hold an exclusive lock on that file of a home for once. Raises as `WriteLock.held` does."""
    once = WriteLock(path, wait_s)
    try:
        with once.held():
            yield
    finally:
        once.close()


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until `unlock`, or None when somebody else holds it. Raises OSError, and
    StoreUntrusted when a link is in the way."""
    descriptor = _opened_lock(path)
    is_ours = False
    try:
        is_ours = lock(descriptor, 0)
    finally:
        if not is_ours:
            os.close(descriptor)
    return descriptor if is_ours else None


def _opened_lock(path: Path) -> int:
    check_folder(path.parent)
    return opened(path, os.O_RDWR | os.O_CREAT)
