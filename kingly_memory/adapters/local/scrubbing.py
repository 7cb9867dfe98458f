"""Leaving no byte of what was erased in the files of a home: in text indexes, in the log, in stores put aside.

The writer overwrites what it deletes with zeros (`secure_delete`). A text index only notes that a text is gone, until
its parts are merged; and the log keeps older pages, until it is emptied.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

from kingly_memory.adapters.local import rows, safety, sql, sqlite
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.home.own_files import CAREFULLY, writing_to
from kingly_memory.models import Scope
from kingly_memory.ports import Scrubbed

PAGES = 500
"""Pages that a text index merges while the lock is held, so that others write in between."""
MERGED = 2
"""Rows that a merge changes at least: fewer say that there was nothing left to merge (sqlite.org/fts5.html, 6.7)."""


def scrub(folder: Folder, memory_ids: Collection[str], spaces: Sequence[str], lock_wait_s: float) -> Scrubbed:
    """See `ports.LocalStore.scrub`."""
    needles = [one.encode() for one in memory_ids]
    with writing_to(folder.home):
        for edited in folder.home.glob("edit-*-*.md"):  # see `cli.memories.edit`
            if edited.name.removeprefix("edit-").rpartition("-")[0] in memory_ids:
                edited.unlink(missing_ok=True)
        for damaged in _folders(folder.home, "store.corrupt-*"):
            if _holds(damaged, needles):
                shutil.rmtree(damaged)
        with locked(folder.write_lock, lock_wait_s):  # whoever restores or recovers fills these two under it
            for fresh in (folder.restored, folder.salvaged):
                for unfinished in _folders(folder.home, fresh.name):
                    if _holds(unfinished, needles):
                        shutil.rmtree(unfinished)
        left_in = [
            str(replaced)
            for replaced in _folders(folder.home, "store.replaced-*")
            if _holds(replaced, needles) or any(_holds_space(replaced, space) for space in spaces)
        ]
    try:
        with closing(sqlite.connect(folder.database, timeout=lock_wait_s)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            for (index,) in connection.execute(sql.TEXT_INDEXES).fetchall():
                pages, changed = -PAGES, MERGED  # a negative number begins with all parts of the index
                while changed >= MERGED:
                    with locked(folder.write_lock, lock_wait_s):
                        before = connection.total_changes
                        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', ?)", (pages,))
                        changed = connection.total_changes - before
                    pages = PAGES
            with locked(folder.write_lock, lock_wait_s):
                (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return Scrubbed(not is_busy, tuple(left_in))
    except sqlite.Error as error:
        raise safety.failure(error, str(folder.store), folder.inode(), lock_wait_s, writing=True) from None


def _folders(home: Path, pattern: str) -> list[Path]:
    """The folders of that name in the home. A link is none: what it leads to is not ours to read or remove."""
    return sorted(path for path in home.glob(pattern) if stat.S_ISDIR(path.lstat().st_mode))


def _holds(aside: Path, needles: Collection[bytes]) -> bool:
    """Whether one of them may lie in a store that was put aside. In an encrypted one nobody can look."""
    if needles and sqlite.key_name_of(aside) is not None:
        return True
    for path in aside.iterdir():
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            continue
        with (
            os.fdopen(os.open(path, os.O_RDONLY | CAREFULLY), "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            if any(content.find(needle) >= 0 for needle in needles):
                return True
    return False


def _holds_space(aside: Path, space: str) -> bool:
    """Whether it has a memory or a document of that space."""
    beginning = rows.dump(Scope.within(space).to_json())[1:].partition('"agent":')  # the space comes first in a record
    if _holds(aside, ["".join(beginning[:2]).encode()]):
        return True
    database = Folder(aside.parent, aside.name).database
    if not database.is_file() or database.is_symlink():
        return False
    with suppress(*sqlite.Error), closing(safety.connect_read_only(database)) as connection:
        return bool(connection.execute(sql.COUNT_DOCUMENTS, (space,)).fetchone()[0])
    return False
