"""Changing a host's file: read, merge, keep a backup, replace in one step."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.hosts import Format, Snippet
from kingly_memory.integrations.merging import Unmergeable, json_text, merged_json, merged_toml, toml_text

LIMIT_BYTES = 16 * 1024 * 1024
NEW_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a file. `backup` is what it was before; None when it is new or was right already."""

    path: Path
    changed: bool
    backup: Path | None = None


def printed(snippet: Snippet) -> str:
    """What belongs into the file, as it would stand there by itself."""
    return toml_text(snippet.content) if snippet.format is Format.TOML else json_text(snippet.content)


def write(snippet: Snippet, *, host: str, now: datetime) -> Written:
    """Merge it into its file. Raises InvalidInput, and then nothing has changed."""
    path = snippet.path.expanduser().resolve()  # a link stays one: what it leads to is changed
    before = _read(path)
    merge = merged_toml if snippet.format is Format.TOML else merged_json
    try:
        after = merge(before or "", snippet.content)
    except Unmergeable as error:
        raise InvalidInput(
            "path", f"{path} is left as it is: {error}. Add by hand what `kingly-memory config {host}` prints"
        ) from None
    if after == before:
        return Written(path, changed=False)
    backup = None if before is None else _backed_up(path, now)
    _replace(path, after)
    return Written(path, changed=True, backup=backup)


def _read(path: Path) -> str | None:
    """The file's text; None when there is none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT_BYTES:
            raise InvalidInput("path", f"{path} is no file, or one of more than {LIMIT_BYTES:,} bytes")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput("path", f"{path} cannot be read ({cause})") from None


def _backed_up(path: Path, now: datetime) -> Path:
    """A copy beside the file, under a name that is not taken."""
    named = path.with_name(f"{path.name}.{now.astimezone(UTC):%Y%m%dT%H%M%S}.bak")
    backup, number = named, 1
    while backup.exists():
        number += 1
        backup = named.with_name(f"{named.stem}-{number}.bak")
    try:
        shutil.copy2(path, backup)
    except OSError as error:
        raise InvalidInput("path", f"{backup} cannot be written ({error.strerror}), so nothing was changed") from None
    return backup


def _replace(path: Path, text: str) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_MODE
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("path", f"{path.parent} cannot be made ({error.strerror})") from None
    with replacing(path) as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
