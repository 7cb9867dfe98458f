"""The audit on disk: a file of JSON lines for each kind of record, which several processes append to.

Each record is one append, which the kernel keeps apart from those of others. What a crash or a full disk has torn is no
record, and the next one begins on a line of its own.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from kingly_memory.dataclass import fields, is_dataclass
from kingly_memory.errors import StoreUntrusted
from kingly_memory.home.own_files import check_folder, keep_out_of_git, make_folder, opened, writing_to
from kingly_memory.models import JsonObject
from kingly_memory.validation import mended

log = logging.getLogger("kingly_memory")


class AuditFiles:
    """Appends records to the files of a folder, from any thread.

    `fsync`: a record survives a power cut, and not only the death of this process. A disk that takes nothing is warned
    of once, `lost` counts, and work goes on.
    """

    def __init__(self, folder: str | os.PathLike[str], *, fsync: bool = False) -> None:
        """Whatever is wrong with the folder shows when writing."""
        self.folder = Path(folder)
        self._fsync = fsync
        self._is_failing = False
        self.written = 0
        self.lost = 0

    def append(self, kind: str, record: JsonObject) -> None:
        """Write one record of that kind. Raises nothing on account of the disk; see `lost`."""
        try:
            self._write(kind, line_of(record))
        except (ValueError, RecursionError):
            self._lose(f"a record of {kind} has more digits or levels than JSON can hold")
        except StoreUntrusted as error:
            self._lose(str(error))
        except OSError as error:
            problem = f"{self.folder} cannot be written ({error.strerror or error})"
            self._lose(f"{problem}; free some space or make it writable, no restart is needed")
        else:
            self.written += 1
            self._is_failing = False

    def _write(self, kind: str, line: bytes) -> None:
        check_folder(self.folder)
        if not self.folder.is_dir():  # the first record, or the folder was taken away
            make_folder(self.folder)
            keep_out_of_git(self.folder)
        descriptor = opened(self.folder / f"{kind}.jsonl", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lose(self, problem: str) -> None:
        self.lost += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning("audit: work goes on without a record: %s", problem)


def line_of(record: JsonObject) -> bytes:
    """A record as one line with its end. What JSON cannot hold is written as near as can be, for an audit must not
    depend on it. Raises ValueError and RecursionError where that cannot be done."""
    return mended(json.dumps(_plain(record), ensure_ascii=False, separators=(",", ":"))).encode() + b"\n"


def _plain(value: Any) -> Any:
    """A copy out of JSON's own types."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, date):
        return value.isoformat()
    try:  # of numpy and the like
        return int(value) if hasattr(value, "__index__") else _plain(float(value))
    except (TypeError, ValueError, OverflowError):
        return f"<{type(value).__name__}>"


def erase_records(folder: Path, texts: Sequence[str]) -> int:
    """Empty every record that says one of these texts, in whole words, where it stands, and count them: others may
    append meanwhile. Raises StoreUnwritable."""
    erased = 0
    with writing_to(folder):
        for path in folder.glob("*.jsonl") if texts else ():
            with os.fdopen(opened(path, os.O_RDWR), "r+b", 0) as file:
                place = 0
                for line in file.read().splitlines(keepends=True):
                    if _says(line, texts):
                        os.pwrite(file.fileno(), b"{}".ljust(len(line) - 1), place)
                        erased += 1
                    place += len(line)
                os.fsync(file.fileno())
    return erased


def _says(line: bytes, texts: Sequence[str]) -> bool:
    """Whether a record, or a line that is none, says one of the texts anywhere."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):  # torn by a crash, or somebody else's
        said = line.decode(errors="replace")
    waiting: list[object] = [said]
    for value in waiting:
        if isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            for text in texts:
                if text in value and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", value):
                    return True
    return False
