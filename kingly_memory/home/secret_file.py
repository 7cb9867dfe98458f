"""Secrets in files: read only where their owner alone can, and never shown."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kingly_memory.errors import InvalidInput, InvalidSetting

LIMIT_BYTES = 1_048_576

_CAREFULLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe in the file's place is not waited for."""


def secret(path: Path, name: str, refusal: type[InvalidInput] | type[InvalidSetting] = InvalidSetting) -> str:
    """The text of a file that belongs to this user and that nobody else may read or change, without blanks around it.

    `name` is what the file was given as. Raises `refusal`, which names the file and never what is in it.
    """
    try:
        descriptor = os.open(path.expanduser(), _CAREFULLY)
    except (OSError, ValueError, RuntimeError) as error:  # a name may hold a NUL, or a user that is not there
        raise refusal(name, f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        problem = _problem(os.fstat(descriptor), path)
        if problem is not None:
            raise refusal(name, problem)
        content = b""
        while len(content) <= LIMIT_BYTES and (more := os.read(descriptor, LIMIT_BYTES)):
            content += more
    except OSError as error:
        raise refusal(name, f"{path} cannot be read ({error.strerror})") from None
    finally:
        os.close(descriptor)
    if len(content) > LIMIT_BYTES:
        raise refusal(name, f"{path} is longer than {LIMIT_BYTES:,} bytes, so it is something else; name another file")
    try:
        text = content.decode().strip()
    except UnicodeDecodeError:
        raise refusal(name, f"{path} is not text") from None
    if not text:
        raise refusal(name, f"{path} is empty; write the token or the key into it")
    return text


def _problem(status: os.stat_result, path: Path) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return f"{path} cannot be read (it is no regular file)"
    if status.st_uid != os.geteuid():
        return f"{path} belongs to another user, who could change it; keep the token in a file of your own"
    if status.st_mode & 0o077:
        return f"other users may read {path}; run `chmod 600` on it"
    return None
