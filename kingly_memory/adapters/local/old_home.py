"""The rows of a home that an earlier version wrote, for an import.

The store in it is never opened for writing. Only the table of rows is read, after it was compared with the one that we
make, so no trigger and no view of the file runs.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kingly_memory.adapters.local import safety, sqlite, upgrades
from kingly_memory.errors import InvalidInput, StoreError

DATABASE = Path("store", "cache.db")
_ROWS = "SELECT key, value, tag FROM Cache WHERE raw = 1 AND typeof(value) = 'text' ORDER BY rowid"


def is_home(path: Path) -> bool:
    """Whether a folder is a home of ours, of whatever version."""
    return (path / DATABASE).is_file()


def rows(path: Path) -> list[tuple[str, str, str]]:
    """(key, value, tag) of every row that is text, in the order in which they were stored first.

    Raises InvalidInput for a folder that is no home, or a home of this version.
    """
    database = path / DATABASE
    has_log = database.with_name(f"{database.name}-wal").is_file()
    try:
        with closing(safety.connect_read_only(database, immutable=not has_log)) as connection:
            if safety.layout_of(connection) >= upgrades.FIRST:
                raise InvalidInput("file", f"{path} is a home of this version; name it with --home")
            safety.check_table(connection, database)
            return [(str(key), str(value), str(tag)) for key, value, tag in connection.execute(_ROWS)]
    except (*sqlite.Error, StoreError) as error:
        raise InvalidInput("file", f"{database} cannot be read as a memory store ({error})") from None
