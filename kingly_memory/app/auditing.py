"""The audit of a simulation, composed: records, and files to keep them in."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.cognition.audit import AuditTrail
from kingly_memory.settings import beside


def audit_folder(home: Path) -> Path:
    """Where the audit of that home is kept: `.kingly/audit` for `.kingly/memory`, inside the home elsewhere."""
    return beside(home) / "audit"


class AuditWriter(AuditTrail):
    """Writes the audit of a simulation into a folder, a file of JSON lines for each kind of record.

    Several processes may write to one folder. With `fsync` each record survives a power cut. Records hold the texts of
    memories, which is what an audit is for.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, fsync: bool = False, now: Callable[[], datetime] | None = None
    ) -> None:
        self._files = AuditFiles(folder, fsync=fsync)
        super().__init__(self._files, now=now)

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def written(self) -> int:
        """Records that are on the disk."""
        return self._files.written

    @property
    def lost(self) -> int:
        """Records that the disk did not take, or that could not be made."""
        return self._files.lost + self.failures

    def __repr__(self) -> str:
        return f"<AuditWriter {self.folder} written={self.written} lost={self.lost}>"
