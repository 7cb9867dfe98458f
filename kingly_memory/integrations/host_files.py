"""Changing a host's file: read, merge or take out, keep a backup, replace in one step."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.hosts import Format, Snippet
from kingly_memory.integrations.merging import (
    Unmergeable,
    json_text,
    merged_json,
    merged_toml,
    stripped_json,
    stripped_toml,
    toml_text,
)

LIMIT_BYTES = 16 * 1024 * 1024
NEW_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a file. `backup` is what it was before; None when it is new, gone or was right already."""

    path: Path
    changed: bool
    backup: Path | None = None
    deleted: bool = False


def printed(snippet: Snippet) -> str:
    """What belongs into the file, as it would stand there by itself."""
    return toml_text(snippet.content) if snippet.format is Format.TOML else json_text(snippet.content)


@dataclass(frozen=True, slots=True)
class _Merge:
    path: Path
    format: Format
    before: str | None
    after: str


def write(snippets: Sequence[Snippet], *, host: str, project: Path, now: datetime) -> list[Written]:
    """Merge each into its file, when all of them can be merged. Raises InvalidInput, for a link that leads out of the
    folder of the project too; what was not written then is as it was."""
    return [_written(one, now) for one in [_merge(snippet, host, project) for snippet in snippets]]


def remove(snippets: Sequence[Snippet], *, project: Path, now: datetime) -> list[Written]:
    """Take out of each file what `write` has put into it, and delete a file that `write` has made when it holds nothing
    else. Raises InvalidInput as `write` does."""
    return [_removed(one, now) for one in [_removal(snippet, project) for snippet in snippets]]


def _removal(snippet: Snippet, project: Path) -> _Merge:
    path = _resolved(snippet.path, project)
    before = _read(path)
    try:
        return _Merge(path, snippet.format, before, _stripped(before or "", snippet.format))
    except Unmergeable as error:
        raise InvalidInput(
            "path", f"{path} is left as it is: {error}. Take out by hand what is called kingly-memory"
        ) from None


def _stripped(text: str, written_as: Format) -> str:
    return stripped_toml(text) if written_as is Format.TOML else stripped_json(text)


def _removed(merge: _Merge, now: datetime) -> Written:
    if merge.before is None:
        return Written(merge.path, changed=False)
    if merge.after or not merge.before:
        return _written(merge, now)
    if _is_made_by_us(merge):
        _check_unchanged(merge)
        merge.path.unlink()
        return Written(merge.path, changed=True, deleted=True)
    return _written(replace(merge, after="" if merge.format is Format.TOML else "{}\n"), now)


def _is_made_by_us(merge: _Merge) -> bool:
    """True unless a backup says something else than we do: the file was there before us, perhaps empty."""
    for backup in merge.path.parent.glob(f"{glob.escape(merge.path.name)}.*.bak"):
        try:
            text = _read(backup)
            if not text or _stripped(text, merge.format):
                return False
        except (InvalidInput, Unmergeable):
            return False
    return True


def _merge(snippet: Snippet, host: str, project: Path) -> _Merge:
    path = _resolved(snippet.path, project)
    before = _read(path)
    merge = merged_toml if snippet.format is Format.TOML else merged_json
    try:
        after = merge(before or "", snippet.content)
    except Unmergeable as error:
        raise InvalidInput(
            "path", f"{path} is left as it is: {error}. Add by hand what `kingly-memory config {host}` prints"
        ) from None
    return _Merge(path, snippet.format, before, after)


def _written(merge: _Merge, now: datetime) -> Written:
    if merge.after == merge.before:
        return Written(merge.path, changed=False)
    backup = None if merge.before is None else _backed_up(merge.path, merge.before, now)
    try:
        _replace(merge)
    except InvalidInput:
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise
    return Written(merge.path, changed=True, backup=backup)


def _resolved(path: Path, project: Path) -> Path:
    """Where the file is: a link stays one, and what it leads to is changed, unless a cloned repository may have brought
    the link along to have a file of somewhere else changed."""
    try:
        named = path.expanduser().absolute()
        found = named.resolve()
        is_led_out = Path(os.path.normpath(named)).is_relative_to(project) and not found.is_relative_to(
            project.resolve()
        )
    except (OSError, RuntimeError, ValueError):
        raise InvalidInput(
            "path", f"{path} cannot be found: its links lead in a circle, or nobody has that home"
        ) from None
    if is_led_out:
        raise InvalidInput(
            "path",
            f"{named} leads out of the project, to {found}, through a link. Remove the link, or name the file that "
            "is meant with --path",
        )
    return found


def _read(path: Path) -> str | None:
    """The file's text; None when there is none."""
    try:
        _check_is_file(path, path.stat())
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput("path", f"{path} cannot be read ({cause})") from None


def _check_is_file(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput("path", f"{path} is a folder; name the file in it")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput("path", f"{path} is no file that can be changed, but a pipe or a device")
    if status.st_size > LIMIT_BYTES:
        raise InvalidInput("path", f"{path} has more than {LIMIT_BYTES:,} bytes, so it is no host's configuration")


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


def _replace(merge: _Merge) -> None:
    path = merge.path
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_MODE
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("path", f"{path.parent} cannot be made ({error.strerror})") from None
    with replacing(path) as file:
        os.fchmod(file.fileno(), mode)
        file.write(merge.after)
        file.flush()
        _check_unchanged(merge)


def _check_unchanged(merge: _Merge) -> None:
    if _read(merge.path) != merge.before:
        raise InvalidInput("path", f"{merge.path} was changed by somebody else meanwhile and is left so; try again")
