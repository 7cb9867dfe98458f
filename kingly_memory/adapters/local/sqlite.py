"""Which SQLite opens a database: Python's own, or SQLCipher for a store that is encrypted.

The folder of an encrypted store holds the file `encrypted`: the key's name and a digest of it. A damaged file counts as
missing, and recovery writes it again. This file is looked at, and never the database: to open a database with a second
library, or to read it as a file, would drop the locks of the connections that this process has to it
(sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from kingly_memory.home.own_files import CAREFULLY, opened

MARK = "encrypted"
_KEY_NAME_DIGITS = 16
_MARK_BYTES = 34

# SQLCipher raises classes of its own, which take the second places when it is loaded.
Error = sqlite3.Error, sqlite3.Error
DatabaseError = sqlite3.DatabaseError, sqlite3.DatabaseError
OperationalError = sqlite3.OperationalError, sqlite3.OperationalError


def connect(database: Path, how: str = "", key_name: str | None = None, **options: Any) -> sqlite3.Connection:
    """A raw connection, without implicit transactions. `how`: parameters of SQLite's URI, such as `mode=ro`.

    `key_name` is of the key of a database that is no store; without it the store's folder says which one it needs.
    Raises sqlite.Error, StoreLocked where the key is not here, ExtraMissing.
    """
    target = str(database)
    if how:  # urllib would take longer to load than this whole connection to open
        escaped = target.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        target = f"file:{escaped}?{how}"
    options |= {"isolation_level": None, "uri": bool(how)}
    name = key_name or key_name_of(database.parent)
    if name is None:
        connection: sqlite3.Connection = sqlite3.connect(target, **options)
        return connection
    from kingly_memory.adapters.local import keys

    key, _ = keys.find(name, database if key_name else database.parent)
    cipher = keys.cipher()
    global Error, DatabaseError, OperationalError  # noqa: PLW0603  # read when an error is caught
    Error = sqlite3.Error, cipher.Error
    DatabaseError = sqlite3.DatabaseError, cipher.DatabaseError
    OperationalError = sqlite3.OperationalError, cipher.OperationalError
    connection = cipher.connect(target, **options)
    connection.execute("PRAGMA cipher_log_level = NONE")  # it would write to standard error
    connection.execute(f"PRAGMA key = \"x'{key}{keys.salt(name)}'\"")  # whether it is right shows at the first read
    return connection


def key_name_of(store: Path) -> str | None:
    """The name of the key that the store in that folder is encrypted with; None when it is not."""
    try:
        descriptor = os.open(f"{store}/{MARK}", os.O_RDONLY | CAREFULLY)
    except OSError:
        return None
    try:
        found = os.read(descriptor, _MARK_BYTES)
    finally:
        os.close(descriptor)  # `os.fdopen` would leave it open where a folder lies there
    name = found[:_KEY_NAME_DIGITS]
    return name.decode() if not name.strip(b"0123456789abcdef") and found == _marked(name) else None


def mark(store: Path, key_name: str | None) -> None:
    """Say which key the store in that folder is encrypted with. Raises OSError."""
    with suppress(FileNotFoundError):
        (store / MARK).unlink()
    if key_name is not None:
        with os.fdopen(opened(store / MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(_marked(key_name.encode()))


def _marked(key_name: bytes) -> bytes:
    from kingly_memory.digests import sha256

    return b"%s %s\n" % (key_name, sha256(key_name).hexdigest()[:_KEY_NAME_DIGITS].encode())
