"""Changing a host's file: read, merge or take out, keep a backup, replace in one step."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.errors import InvalidInput
from kingly_memory.hosts.config import Snippet
from kingly_memory.hosts.config_text import Unmergeable, merged, stripped

LIMIT_BYTES = 16 * 1024 * 1024
NEW_MODE = 0o644


class Written(NamedTuple):
    """What became of a file. `backup` is what it was before; None when it is new, gone or was right already."""

    path: Path
    changed: bool
    backup: Path | None = None
    deleted: bool = False


class _Change(NamedTuple):
    """What the file says (None: there is none), and what it is to say (None: it is to go)."""

    path: Path
    before: str | None
    after: str | None


def write(snippets: Sequence[Snippet], *, host: str, project: Path, now: datetime) -> list[Written]:
    """Merge each into its file, when all of them can be merged. Raises InvalidInput, for a link that leads out of the
    folder of the project too; what was not written then is as it was."""
    to_do = f"Add by hand what `kingly-memory config {host}` prints"
    changes = [
        _change(snippet.path, project, partial(merged, content=snippet.content, format=snippet.format), to_do)
        for snippet in snippets
    ]
    return [_written(one, now) for one in changes]


def remove(snippets: Sequence[Snippet], *, project: Path, now: datetime) -> list[Written]:
    """Take out of each file what `write` has put into it, and delete a file that holds nothing else, with the folders
    around it that are empty then, below the project or the user's home. Raises InvalidInput as `write` does."""
    to_do = "Take out by hand what is called kingly-memory"
    changes = [_change(one.path, project, partial(stripped, format=one.format), to_do) for one in snippets]
    taken = [
        _written(change._replace(after=change.after or None if change.before else change.before), now)
        for change in changes
    ]
    roots = [project.resolve(), Path.home().resolve()]
    for path in [one.path for one in taken if one.deleted]:
        with suppress(OSError):  # up to a folder that holds something else
            for folder in path.parents:
                if folder in roots or not any(folder.is_relative_to(root) for root in roots):
                    break
                folder.rmdir()
    return taken


def _change(path: Path, project: Path, changed: Callable[[str], str], to_do: str) -> _Change:
    path = _resolved(path, project)
    before = _read(path)
    try:
        return _Change(path, before, changed(before or ""))
    except Unmergeable as error:
        raise InvalidInput("path", f"{path} is left as it is: {error}. {to_do}") from None


def _resolved(path: Path, project: Path) -> Path:
    """Where the file is: a link stays one, and what it leads to is changed, unless a cloned repository may have brought
    the link along to have a file of somewhere else changed."""
    try:
        named = path.expanduser().absolute()
        target = named.resolve()
        is_inside = Path(os.path.normpath(named)).is_relative_to(project)
        is_led_out = is_inside and not target.is_relative_to(project.resolve())
    except (OSError, RuntimeError, ValueError):
        problem = f"{path} cannot be found: its links lead in a circle, or nobody has that home"
        raise InvalidInput("path", problem) from None
    if is_led_out:
        problem = f"{named} leads out of the project, to {target}, through a link"
        raise InvalidInput("path", f"{problem}. Remove the link, or name the file that is meant with --path")
    return target


def _read(path: Path) -> str | None:
    """The file's text; None when there is none."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InvalidInput("path", f"{path} is a folder; name the file in it")
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput("path", f"{path} is no file that can be changed, but a pipe or a device")
        if status.st_size > LIMIT_BYTES:
            raise InvalidInput("path", f"{path} has more than {LIMIT_BYTES:,} bytes, so it is no host's configuration")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput("path", f"{path} cannot be read ({cause})") from None


def _written(change: _Change, now: datetime) -> Written:
    path, before, after = change
    if after == before:
        return Written(path, changed=False)
    if after is None:
        _check_unchanged(change)
        path.unlink()
        return Written(path, changed=True, deleted=True)
    backup = None if before is None else _backed_up(path, before, now)
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_MODE
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
            file.flush()
            _check_unchanged(change)
    except (InvalidInput, OSError) as error:
        if backup is not None:
            backup.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InvalidInput("path", f"{path.parent} cannot be made ({error.strerror})") from None
        raise
    return Written(path, changed=True, backup=backup)


def _backed_up(path: Path, text: str, now: datetime) -> Path:
    """A copy beside the file, under a name that is not taken, and never open to more people than the file."""
    named = path.with_name(f"{path.name}.{now.astimezone(UTC):%Y%m%dT%H%M%S}.bak")
    backup, number = named, 1
    while backup.exists():
        number += 1
        backup = named.with_name(f"{named.stem}-{number}.bak")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        with os.fdopen(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), mode)
    except OSError as error:
        raise InvalidInput("path", f"{backup} cannot be written ({error.strerror}), so nothing was changed") from None
    return backup


def _check_unchanged(change: _Change) -> None:
    if _read(change.path) != change.before:
        raise InvalidInput("path", f"{change.path} was changed by somebody else meanwhile and is left so; try again")
