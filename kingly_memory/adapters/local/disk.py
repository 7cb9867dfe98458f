"""diskcache's `Disk`, reduced to what is safe: text keys, text values, all of it inside the database.

The stock classes unpickle what they find in a row and open files that a row names (CVE-2025-69872); this one refuses
every other row mode, so opening a folder that somebody else wrote runs no code and touches no other file.
"""

from __future__ import annotations

from typing import Any

from diskcache import Disk

from kingly_memory.adapters.local.sql import MODE_RAW


class ForeignRow(Exception):
    """A row that this layer did not write."""


class TextDisk(Disk):  # type: ignore[misc]  # diskcache has no types
    """Keys and values are `str`, stored raw and inline."""

    def put(self, key: Any) -> tuple[str, bool]:
        return _text(key), True

    def get(self, key: Any, raw: Any) -> str:
        if not raw:
            raise ForeignRow("a key that is not plain text")
        return _text(key)

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, str]:
        return 0, MODE_RAW, None, _text(value)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> str:
        if mode != MODE_RAW or filename is not None:
            raise ForeignRow(f"a row of mode {mode}")
        return _text(value)

    def remove(self, file_path: str) -> None:
        """Rows never own files, so there is none to remove, whatever a row says."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ForeignRow(f"a {type(value).__name__} where text belongs")
    return value
