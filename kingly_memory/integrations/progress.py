"""How far each session's transcript has been read, durably: so that nothing is read twice, and nothing left out."""

from __future__ import annotations

import json
import os
import time
from hashlib import sha256
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.local.folder import locked
from kingly_memory.own_files import check_folder, opened

MOST_SESSIONS = 500
"""The sessions read last are remembered. To read one again from its beginning would do no harm."""
_LOCK_WAIT_S = 2.0

_Ends = dict[str, tuple[int, float]]


class Progress:
    """A file beside the store, shared by every host that works on this home."""

    def __init__(self, home: Path) -> None:
        self._path = home / "captured.json"
        self._lock = home / "captured.lock"

    def end(self, session: str) -> int:
        """The byte at which reading goes on; 0 for a session that is not known."""
        return self._read().get(_digest(session), (0, 0.0))[0]

    def save(self, session: str, end: int) -> None:
        """Raises StoreBusy, StoreUnwritable or InvalidInput when that is not possible."""
        with locked(self._lock, _LOCK_WAIT_S):
            ends = self._read()
            ends[_digest(session)] = (end, time.time())
            latest = sorted(ends.items(), key=lambda item: item[1][1])[-MOST_SESSIONS:]
            with replacing(self._path) as file:
                json.dump({"sessions": dict(latest)}, file)

    def _read(self) -> _Ends:
        """Empty when there is no such file, or none that makes sense. Raises StoreUntrusted."""
        try:
            sessions = json.loads(self._content())["sessions"]
            return {str(name): (max(int(end), 0), float(at)) for name, (end, at) in sessions.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            return {}

    def _content(self) -> bytes:
        check_folder(self._path.parent)
        with os.fdopen(opened(self._path, os.O_RDONLY), "rb") as file:
            return file.read()


def _digest(session: str) -> str:
    """A host's words never become part of a file's structure or name."""
    return sha256(session.encode(errors="replace")).hexdigest()[:32]
