"""Leaving no byte of what was erased in the files of a home: in text indexes, in the log, in stores put aside.

The writer overwrites what it deletes with zeros (`secure_delete`). A text index only notes that a text is gone, until
its parts are merged; and the log keeps older pages, until it is emptied.
"""

from __future__ import annotations

import mmap
import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from kingly_memory.adapters.local import safety, sql
from kingly_memory.adapters.local.folder import Folder, locked

PAGES = 500
"""Pages that a text index merges while the lock is held, so that others write in between."""
MERGED = 2
"""Rows that a merge changes at least: fewer say that there was nothing left to merge (sqlite.org/fts5.html, 6.7)."""


def scrub(folder: Folder, memory_ids: Collection[str], lock_wait_s: float) -> bool:
    """See `ports.LocalStore.scrub`."""
    needles = [one.encode() for one in memory_ids]
    for aside in [*folder.home.glob("store.corrupt-*"), *folder.home.glob("store.replaced-*")]:
        if any(_holds(path, needles) for path in aside.iterdir()):
            shutil.rmtree(aside)
    try:
        with closing(sqlite3.connect(folder.database, timeout=lock_wait_s, isolation_level=None)) as connection:
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
                return not is_busy
    except sqlite3.Error as error:
        raise safety.failure(error, str(folder.store), folder.inode(), lock_wait_s, writing=True) from None


def _holds(path: Path, needles: Collection[bytes]) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(needle) >= 0 for needle in needles)
