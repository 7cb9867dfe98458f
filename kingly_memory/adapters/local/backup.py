"""Backups: the whole store of a home as one file, made while the store is in use, and put back in the place of one.

SQLite copies the pages of one moment, whatever is written meanwhile. A backup is a database of our own layout without a
log beside it; it is looked at as strictly as a store before it is put anywhere. Behind the last page, where SQLite does
not look, stands a digest of the file: SQLite finds no changed byte in a vector, a document or a free page.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from kingly_memory.adapters.local import keys, rows, safety, sql, sqlite
from kingly_memory.adapters.local.engine import name_incarnation
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.trusted import take
from kingly_memory.digests import blake2b
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.home.own_files import on_the_disk, unfinished, writing_to
from kingly_memory.models import Backup, project_and_user

_FIRST_BYTES = b"SQLite format 3\x00"
_VERSIONS = slice(18, 20)
_WAL = b"\x02\x02"
"""What stands there of a database with a log beside it (sqlite.org/fileformat.html, 1.3.3)."""
_MARK = b"kingly-memory backup, BLAKE2b "
"""What stands before the digest."""
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_MARK) + _DIGEST_BYTES
_READ_AT_ONCE = 2**20
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP)


def create(home: Path, file: Path) -> Backup:
    """Write a backup of the home's store under a new name; it is on the disk when this returns.

    Raises InvalidInput when there is nothing to back up or the file cannot be written, StoreDamaged, StoreUntrusted.
    """
    folder = Folder(home)
    if os.path.lexists(file):
        raise InvalidInput("file", f"{file} is there already; name a new file")
    if folder.is_empty():
        folder.check_not_lost()
        raise InvalidInput("home", f"nothing was stored in {home} yet, so there is nothing to back up")
    folder.check()
    key_name = sqlite.key_name_of(folder.store)
    try:
        with unfinished(file, sweeps=True) as (descriptor, partial):
            os.close(descriptor)
            with (
                closing(safety.connect_read_only(folder.database)) as store,
                closing(sqlite.connect(partial, key_name=key_name)) as copy,
            ):
                safety.check_objects(store, folder.store)
                try:
                    store.backup(copy)
                    copy.execute("PRAGMA journal_mode = DELETE")
                except sqlite.Error as error:
                    if safety.primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                        raise InvalidInput("file", f"{file} cannot be written ({error})") from error
                    raise
            with partial.open("r+b") as written:
                written.write(_MARK + _digest(written, partial.stat().st_size))
            made = check(partial, force=True)
            on_the_disk(partial)
            _name(partial, file)
            on_the_disk(file)
            on_the_disk(file.absolute().parent)
    except sqlite.Error as error:
        raise safety.failure(error, str(folder.store), folder.inode(), safety.READ_WAIT_S, writing=False) from error
    except FileExistsError:
        raise InvalidInput("file", f"{file} is there already; name a new file") from None
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be written ({error.strerror or 'error'})") from None
    return made._replace(file=str(file))


def _name(partial: Path, file: Path) -> None:
    """Give what is written its name, and never replace what somebody has put there meanwhile, as a rename would."""
    try:
        os.link(partial, file)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as copy, partial.open("rb") as whole:
                shutil.copyfileobj(whole, copy)
        except OSError:
            file.unlink()
            raise


def check(file: Path, *, force: bool = False) -> Backup:
    """Read a backup whole. Raises InvalidInput when it is none, is not whole, or was made by a newer version; and when
    records in it are damaged or any byte is another than was written, unless it is taken by `force`."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as begun:
            is_file = stat.S_ISREG(os.fstat(begun.fileno()).st_mode)
            header = begun.read(_VERSIONS.stop) if is_file else b""
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read ({error.strerror or 'error'})") from None
    key_name = keys.name_in(file)
    if (header[_VERSIONS] == _WAL and key_name is None) or os.path.lexists(f"{file}-wal"):
        raise InvalidInput(
            "file", f"{file} is a store in use and no backup; make one with `kingly-memory backup create FILE`"
        )
    if not header.startswith(_FIRST_BYTES) and key_name is None:
        raise InvalidInput("file", f"{file} is no backup; make one with `kingly-memory backup create FILE`")
    try:
        with closing(safety.connect_read_only(file, immutable=True, key_name=key_name)) as connection:
            layout = safety.layout_of(connection)
            if layout > sql.LAYOUT:
                raise InvalidInput(
                    "file", f"{file} has layout {layout}, this version knows {sql.LAYOUT}; upgrade kingly-memory"
                )
            safety.check_objects(connection, file)
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if layout == 0 or problem != "ok":
                raise InvalidInput("file", f"{file} is not whole ({problem}); use another backup")
            counted = dict(connection.execute(sql.COUNTED_SPACES))
            rows.teach(connection)
            damaged = connection.execute(
                f"SELECT count(*) FROM ({sql.DAMAGED_ROWS['memory']})", (0, sql.SHARES)
            ).fetchone()[0]
    except sqlite.Error as error:
        raise InvalidInput(
            "file", f"{file} is not whole ({safety.damage_in(error) or error}); use another backup"
        ) from None
    except StoreError as error:
        raise InvalidInput("file", f"{file} is not used: {error}") from None
    projects = {project_and_user(space)[0] for space in counted}
    if damaged and not force:
        problem = f"{damaged:,} {'memory in it is' if damaged == 1 else 'memories in it are'} damaged"
        raise InvalidInput("file", f"{problem}; use another backup, or --force takes {file} all the same")
    if not force and not _is_as_written(file):
        raise InvalidInput(
            "file", f"{file} is not as it was written; use another backup, or --force takes it all the same"
        )
    return Backup(str(file), file.stat().st_size, sum(counted.values()), len(projects - {None}), damaged)


def _is_as_written(file: Path) -> bool:
    with file.open("rb") as whole:
        size = file.stat().st_size - _SEAL_BYTES
        return _MARK + _digest(whole, size) == whole.read()


def _digest(file: BinaryIO, size: int) -> bytes:
    """Of that many bytes; the file stands behind them then."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    while size > 0 and (some := file.read(min(size, _READ_AT_ONCE))):
        digest.update(some)
        size -= len(some)
    return digest.digest()


def restore(home: Path, file: Path, *, replace: bool, lock_wait_s: float, force: bool = False) -> Backup:
    """Put a backup in the place of the home's store, under a new incarnation, so that what is changed from now on is
    told apart from what was changed after the backup. A store that is there is put aside with `replace`, and refused
    without. `force` takes damaged records too. Raises InvalidInput, StoreBusy, StoreUnwritable, StoreUntrusted."""
    found = check(file, force=force)
    folder, key_name = Folder(home), keys.name_in(file)
    fresh = folder.restored
    with writing_to(home):
        folder.make()
        with locked(folder.write_lock, lock_wait_s):
            finished = folder.salvaged
            if finished.exists() and not folder.exists():  # the last step of another replacement was interrupted
                finished.store.rename(folder.store)
            if key_name is None and sqlite.key_name_of(folder.store) is not None:
                to_do = "restore it into another --home, or run `kingly-memory decrypt` before and `encrypt` afterwards"
                raise InvalidInput("file", f"{file} is not encrypted and {home} is; {to_do}")
            if not folder.is_empty() and not replace:
                raise InvalidInput(
                    "home", f"{home} holds memories; --replace puts them aside and begins from the backup"
                )
            fresh.begin(key_name)
            shutil.copyfile(file, fresh.database)
            with fresh.database.open("r+b") as copy:
                end = copy.seek(-_SEAL_BYTES, os.SEEK_END)
                if copy.read(len(_MARK)) == _MARK:
                    copy.truncate(end)
            with closing(sqlite.connect(fresh.database)) as connection:
                name_incarnation(connection, fresh, restored=True)
                connection.execute("PRAGMA journal_mode = WAL")
            purged = _purged(folder)
            shutil.rmtree(finished.store, ignore_errors=True)  # of an attempt that was interrupted
            fresh.store.rename(finished.store)  # who finds no store from here on takes this one, or waits for us
            aside = take(folder, finished, "replaced", was_trusted=True)
    return found if aside is None else found._replace(put_aside=str(aside), purged=purged)


def _purged(folder: Folder) -> tuple[tuple[str, str], ...]:
    """The ids of what was purged from a store, with their spaces, as far as it can be read."""
    try:
        with closing(safety.connect_read_only(folder.database)) as connection:
            found = [
                (memory_id, space, rows.read_record(record))
                for memory_id, space, record in connection.execute(sql.FORGOTTEN)
            ]
    except (*sqlite.Error, StoreError):
        return ()
    return tuple((memory_id, space) for memory_id, space, memory in found if memory is not None and not memory.content)
