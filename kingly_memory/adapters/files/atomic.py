"""Writing a file so that a reader sees the old one or the new one, never half of it, and nobody else sees either."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kingly_memory.errors import InvalidInput
from kingly_memory.home.own_files import unfinished


@contextmanager
def replacing(path: Path, *, sweeps: bool = False) -> Iterator[TextIO]:
    """Write text that takes the place of `path` when the block ends well, and leaves no trace when it does not. With
    `sweeps` what killed writers have left in the folder goes too.

    The file has mode 0600, is UTF-8 with plain line feeds, and is on the disk before it gets its name. Raises
    InvalidInput when the folder does not take it, and for a device or a pipe, which would be gone.
    """
    mode = stat.S_IFREG
    try:
        with suppress(OSError):
            mode = path.stat().st_mode  # a link may lead to a device, as /dev/stdout does
    except ValueError as error:  # a NUL, say
        raise _unwritable(path, error) from None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InvalidInput("file", f"{path} is {what}; name a file")
    try:
        with unfinished(path, sweeps=sweeps) as (descriptor, partial):
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def made_folder(folder: Path) -> Path:
    """The folder, made where there is none. Raises InvalidInput."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("folder", f"{folder} cannot be used ({error.strerror})") from None
    return folder


def _unwritable(path: Path, error: Exception) -> InvalidInput:
    cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidInput("file", f"{path} cannot be written ({cause})")
