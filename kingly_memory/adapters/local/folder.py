"""The store's folder: where its files lie, who may own them, and the lock that every writer takes."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from zlib import crc32

from kingly_memory.adapters.local import sqlite
from kingly_memory.adapters.local.safety import MAKE_READABLE, Inode, Malformed
from kingly_memory.errors import StoreBusy, StoreDamaged, StoreUnreadable, StoreUntrusted
from kingly_memory.home.own_files import (
    CAREFULLY,
    check_folder,
    check_no_link,
    check_one_name,
    check_ours,
    keep_out_of_git,
    lock,
    make_folder,
    on_the_disk,
    opened,
    writing_to,
)
from kingly_memory.text.writing import counted

Log = tuple[Inode | None, Inode | None]


class Folder:
    """`<home>/store` holds diskcache's files and nothing else; locks, notes and damaged stores lie beside it."""

    def __init__(self, home: Path, name: str = "store") -> None:
        self.home = home
        self.name = name
        self.store = home / name
        self.database = self.store / "cache.db"
        self._database = str(self.database)
        self.wal = self.store / "cache.db-wal"
        """What is committed and not yet folded into the database."""
        self.key_mark = self.store / sqlite.MARK
        self.shared_memory = self.store / "cache.db-shm"
        """SQLite's index of the WAL."""
        self.journal = self.store / "cache.db-journal"
        """What SQLite would roll back; there is none unless somebody put it there."""
        self._wal, self._shared_memory = str(self.wal), str(self.shared_memory)
        self.write_lock = home / "write.lock"
        self.sentinel = Sentinel(home / "sentinel")
        self._was_there = False

    @property
    def salvaged(self) -> Folder:
        """What will take this one's place: where there is none, it is finished."""
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

    def begin(self, key_name: str | None) -> None:
        """Make the folder anew, with an empty database, for a store that will take another one's place, encrypted with
        that key or with none. Raises OSError, StoreUntrusted."""
        self.check()
        if self.store.exists():
            import shutil  # a hook has no use for it

            shutil.rmtree(self.store)  # of an attempt that was interrupted
        self.store.mkdir(mode=0o700)
        sqlite.mark(self.store, key_name)
        os.close(opened(self.database, os.O_WRONLY | os.O_CREAT | os.O_EXCL))

    def take(self, fresh: Folder, why: str) -> Path | None:
        """Put another store, which is finished, in the place of this one. Returns where this one lies from now on; None
        when there was none. The caller holds the write lock."""
        with suppress(OSError):
            self.store.rmdir()  # an empty folder is nothing to keep
        aside = self.aside(why) if os.path.lexists(self.store) else None
        if aside is not None:
            self.store.rename(aside)
        fresh.store.rename(self.store)
        on_the_disk(self.home)
        return aside

    def exists(self) -> bool:
        return os.path.lexists(self.database)

    def inode(self) -> Inode | None:
        """Which file the database is just now; None when there is none."""
        return inode_of(self._database)

    def log(self) -> Log:
        """Which files SQLite's log and its index are just now. Others than we opened when somebody deleted ours."""
        return inode_of(self._wal), inode_of(self._shared_memory)

    def files(self) -> str:
        """Which database in which folder this is. A move keeps both, and every copy has others; the device is no part
        of it, since it may have another number each time it is mounted."""
        return f"{self.store.lstat().st_ino}/{self.database.lstat().st_ino}"

    def is_empty(self) -> bool:
        """True when there is no database, or nothing in it.

        Only looked at from outside: closing a file that SQLite has open in this process would drop its locks and let
        other processes corrupt it (sqlite.org/howtocorrupt.html, 2.2).
        """
        status = _status(self._database)
        return status is None or status.st_size == 0

    def check_not_lost(self) -> None:
        """Raise StoreDamaged when there is nothing although there was something, StoreUntrusted as `check` does."""
        was_founded = self.was_founded()
        if not self.is_empty():
            return
        self.check()
        if self.salvaged.exists() and not self.exists():
            raise Malformed(str(self.store), "its replacement was interrupted", None)
        if self.exists() and self.wal.exists() and self.wal.stat().st_size > 0 and self.is_empty():
            raise Malformed(str(self.store), "its database was emptied; its log still holds something", self.inode())
        if self.is_empty():  # nobody has replaced it meanwhile
            self.check_not_founded(was_founded)

    def was_founded(self) -> bool:
        """Whether this home has held a store. Ask before you look into it: a writer may found it while you look."""
        return self._was_there or self.sentinel.is_written()

    def check_not_founded(self, was_founded: bool) -> None:
        """Raise StoreDamaged when this home had held a store; for a database that turns out to hold nothing."""
        self._check_not_gone()
        if was_founded:
            problem = f"{self.name}/cache.db is missing or empty, although memories were kept here"
            to_do = "Restore the folder from a backup, or move it aside to begin with an empty one"
            if not self._was_there:
                to_do += (
                    f". If it came with a clone or an archive, nothing of yours is lost: remove {self.sentinel.path}"
                )
            raise StoreDamaged(str(self.home), problem, to_do)

    def check_complete(self, last_commit: int, acknowledged: int | None) -> None:
        """Raise Malformed when the database that was opened ends before what had been acknowledged by then."""
        self._was_there = True
        if acknowledged is not None and last_commit < acknowledged:
            lost = acknowledged - last_commit
            problem = f"without repair it opens as it was {counted(lost, 'commit')} earlier"
            raise Malformed(str(self.store), problem, self.inode())

    def _check_not_gone(self) -> None:
        if self._was_there and not self.home.exists():
            problem = "the folder was deleted or moved while it was open"
            raise StoreDamaged(str(self.home), problem, "Put it back, or restart to begin with an empty one")

    def make(self) -> None:
        """Create what is missing, readable by the owner alone. Raises StoreUnwritable, StoreUntrusted, and StoreDamaged
        when the home that we have read is gone."""
        self._check_not_gone()
        self.check()
        if self.exists():
            return
        with writing_to(self.home):
            make_folder(self.home)
            keep_out_of_git(self.home)
            self.store.mkdir(exist_ok=True, mode=0o700)

    def check(self) -> None:
        """Raise StoreUntrusted unless the folders and files are ours, no links, and nobody else can write to them."""
        if "$" in str(self.home) or str(self.home).startswith("~"):
            raise StoreUntrusted(str(self.home), "its path contains `$` or begins with `~`, which would be expanded")
        check_folder(self.home)
        files = (self.database, self.wal, self.shared_memory, self.journal, self.key_mark, self.sentinel.path)
        for path in (self.store, *files):
            status = _status(path)
            if status is None:
                continue
            is_folder = path is self.store
            if stat.S_IFMT(status.st_mode) != (stat.S_IFDIR if is_folder else stat.S_IFREG):
                check_no_link(path)
                raise StoreUntrusted(str(path), f"it is no {'folder' if is_folder else 'regular file'}")
            if not is_folder:
                check_one_name(status, path)
            check_ours(status, path)

    def hold(self) -> list[int]:
        """Keep the folder and the WAL in it locked, shared with other writers, until the descriptors are closed. Where
        the file system has no such locks, nobody is kept from anything."""
        held = []
        for path in (self.store, self.wal):
            with suppress(OSError):
                held.append(os.open(path, os.O_RDONLY | CAREFULLY))
                fcntl.flock(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        return held

    def has_lost_log(self) -> bool:
        """Whether some process writes to this store, and none of them to the WAL that lies in it: somebody deleted
        theirs, which they still have open. The caller holds the write lock, so that nobody opens the store meanwhile.
        """
        return _is_held(self.store) and not _is_held(self.wal)


class Sentinel:
    """Beside the database: the number of the last commit that was acknowledged, so that a database which lost its end
    is told from one that never had it.

    Written after the commit and before the receipt, without an fsync of its own: after a power cut it may be behind the
    database, which says nothing. It is ahead only where commits are missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def read(self) -> int | None:
        """None when there is none, when it cannot be opened, or when something else lies in its place. Raises OSError
        where it cannot be read: commits may be lost, and nobody could tell."""
        try:
            descriptor = opened(self.path, os.O_RDONLY)
        except (OSError, StoreUntrusted):
            return None
        with os.fdopen(descriptor, "rb", 0) as file:
            return self._number(file.read(_SENTINEL_BYTES))

    def is_written(self) -> bool:
        """Whether a commit was ever acknowledged here."""
        return os.path.lexists(self.path) and self.path.lstat().st_size > 0

    def before_commit(self) -> int | None:
        """The same for the writer, who keeps the file open, and makes it where there is none. Raises OSError."""
        if self._descriptor is None or os.fstat(self._descriptor).st_nlink == 0:
            self.close()
            self._descriptor = opened(self.path, os.O_RDWR | os.O_CREAT)
        return self._number(os.pread(self._descriptor, _SENTINEL_BYTES, 0))

    def write(self, number: int) -> None:
        """What is committed stays so where this cannot be written."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.pwrite(self._descriptor, _sealed(number), 0)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _number(self, found: bytes) -> int | None:
        try:
            number = int(found[:_DIGITS], 16)
        except ValueError:
            number = -1
        if found == _sealed(number) and number < _NUMBERS:
            return number
        if found:
            import logging  # loaded when there is something to say

            log = logging.getLogger("kingly_memory.store")
            log.warning("%s cannot be read, and is made anew with the next change", self.path)
        return None


_DIGITS, _SENTINEL_BYTES = 16, 16 + 1 + 8 + 1
_NUMBERS = 2**62
"""No home makes so many commits, and SQLite counts on from every number below."""


def _sealed(number: int) -> bytes:
    digits = b"%0*x" % (_DIGITS, max(number, 0))
    return b"%s %08x\n" % (digits, crc32(digits))


def _is_held(path: Path) -> bool:
    """Whether somebody has locked it. SQLite has no locks on either, which closing a file would drop."""
    try:
        descriptor = os.open(path, os.O_RDONLY | CAREFULLY)
    except OSError:
        return False
    try:
        return not lock(descriptor, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def inode_of(path: str) -> Inode | None:
    """Which file lies under that path just now. Asked before every read and commit, so a text: a Path costs more."""
    status = _status(path)
    return None if status is None else (status.st_dev, status.st_ino)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """None where nothing lies there. Raises StoreUnreadable where the home or a folder in it is closed to us."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        inner = Path(path).parent
        closed = inner if os.access(inner.parent, os.X_OK) else inner.parent
        raise StoreUnreadable(str(closed), "Permission denied", MAKE_READABLE) from None


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
            path = Path(self._path)
            with writing_to(path.parent):
                descriptor = self._descriptor = _opened_lock(path)
            self._inode = inode_of(self._path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not lock(descriptor, self._wait_s):
                self.close()
                raise StoreBusy(self._wait_s) from None
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
