"""Writing a file so that a reader sees the old one or the new one, never half of it, and nobody else sees either."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kingly_memory.errors import InvalidInput


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Write text that takes the place of `path` when the block ends well, and leaves no trace when it does not.

    The file has mode 0600, is UTF-8 with plain line feeds, and is on the disk before it gets its name. Raises
    InvalidInput when the folder does not take it, and for a device or a pipe, which would be gone.
    """
    mode = stat.S_IFREG
    with suppress(OSError, ValueError):  # a link may lead to a device, as /dev/stdout does
        mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InvalidInput("file", f"{path} is {what}; name a file")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
