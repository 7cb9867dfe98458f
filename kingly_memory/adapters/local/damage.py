"""Telling a broken store from one that is busy, full or out of reach."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from kingly_memory.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable

Inode = tuple[int, int]
"""Device and number: which file lies under a path."""

_BROKEN_FILE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BROKEN_ROW = {"malformed JSON": "a row is no JSON", "Could not decode to UTF-8": "a row is no UTF-8"}
"""Said by a statement that meets such a row; the rest of SQLite's message may quote what the row says."""


class Malformed(StoreDamaged):
    """SQLite cannot make sense of the database, or its recovery was interrupted: what still reads can be saved.

    `inode` is the file in question, None when it is not in its place; another one there means that it is mended.
    """

    def __init__(self, path: str, problem: str, inode: Inode | None) -> None:
        super().__init__(path, problem)
        self.problem = problem
        self.inode = inode


Recovery = Callable[[Malformed], None]
"""Puts a whole store in the place of the damaged one, or raises StoreError."""


def damage(error: BaseException) -> str | None:
    """What is broken, when the error means that the file itself is."""
    if not isinstance(error, sqlite3.Error):
        return None
    if primary_code(error) in _BROKEN_FILE:
        return str(error)
    return next((problem for text, problem in _BROKEN_ROW.items() if text in str(error)), None)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 when sqlite3 itself complains."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def read_failure(error: sqlite3.Error, path: str, inode: Inode | None, waited_s: float) -> StoreError:
    """The error of a read, in our words."""
    problem = damage(error)
    if problem is not None:
        return Malformed(path, problem, inode)
    if primary_code(error) in _LOCKED:
        return StoreBusy(waited_s)
    return StoreDamaged(path, f"it cannot be read ({error})")


def write_failure(error: BaseException, path: str, inode: Inode | None, waited_s: float) -> StoreError:
    """The error of a commit, in our words."""
    if isinstance(error, StoreError):
        return error
    problem = damage(error)
    if problem is not None:
        return Malformed(path, problem, inode)
    if isinstance(error, sqlite3.Error) and primary_code(error) in _LOCKED:
        return StoreBusy(waited_s)
    return StoreUnwritable(path, str(error) or type(error).__name__)
