"""Which memories were put into which session's prompts: a file per session, since hooks do not write to the store.

A line is `{"session", "at", "ids"}`, `"account"` with why and what it cost, and `"cleared"` where the session has lost
what was put in before; never a prompt or a memory's text. Lines are appended in one write each, so that hosts may do so
at once; what makes no sense is skipped. Purging writes over an id in its place, so that no line is lost meanwhile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kingly_memory.dataclass import NamedTuple
from kingly_memory.digests import sha256
from kingly_memory.errors import StoreUntrusted
from kingly_memory.home.own_files import CAREFULLY, check_folder, opened
from kingly_memory.models import JsonObject
from kingly_memory.ports import InjectedPrompt

FOLDER = "injected"
MOST_SESSIONS = 500
"""Of all projects of a home; beyond them, those that were noted last stay."""
MOST_LINES = 2_000
"""Of one session, the last ones."""
LIMIT_BYTES = 512 * 1024
"""So much of a file's end is read; one that has become longer is begun anew."""
_LINE_BYTES = 8 * 1024
_MOST_IDS = 100
_ID_LENGTH = 64
_QUOTED = re.compile(rb'(?<=")[^"\\]{1,64}(?=")')
_LATEST_SESSIONS = 50
"""Of a space: among them lie the prompts that came last."""
_LATEST_S = 1e11
"""No later moment is believed: the year 5138."""
_LEFT_ALONE = (OSError, StoreUntrusted)
"""What is wrong with the folder or a file keeps no hook from its work: `doctor` says it."""


class _Entry(NamedTuple):
    session: str
    at_s: float
    ids: tuple[str, ...]
    cleared: bool
    account: JsonObject


class InjectionFiles:
    """The log of one project: see `ports.InjectionLog`. Makes no home."""

    def __init__(self, home: Path, space: str) -> None:
        self._path = home / FOLDER
        self._space = space
        self._mark = f"{_digest(space)[:16]}-"

    def note(self, session: str, memory_ids: Sequence[str], at_s: float, account: JsonObject | None = None) -> None:
        fields = {} if account is None else {"account": account}
        for first in range(0, max(len(memory_ids), bool(fields)), _MOST_IDS):
            self._append(session, at_s, ids=[*memory_ids[first : first + _MOST_IDS]], **fields)
            fields = {}

    def clear(self, session: str, at_s: float) -> None:
        """Nothing is written where nothing was put in."""
        if self.of(session):
            self._append(session, at_s, cleared=True)

    def of(self, session: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for entry in self._entries(session):
            found = {} if entry.cleared else found
            found.update(dict.fromkeys(entry.ids, entry.at_s))
        return found

    def ever(self, session: str) -> dict[str, float]:
        return {one: entry.at_s for entry in self._entries(session) for one in entry.ids}

    def latest(self, most: int) -> Sequence[InjectedPrompt]:
        found: list[InjectedPrompt] = []
        with suppress(*_LEFT_ALONE), self._opened() as folder:
            for name in _by_time(folder, self._mark)[-_LATEST_SESSIONS:]:
                with suppress(*_LEFT_ALONE), _file(name, os.O_RDONLY, folder) as file:
                    entries = [entry for entry in _read(file, LIMIT_BYTES // 8) if entry.account or entry.ids]
                    found += [
                        InjectedPrompt(entry.session, entry.at_s, entry.ids, entry.account) for entry in entries[-most:]
                    ]
        return sorted(found, key=lambda prompt: prompt.at_s, reverse=True)[:most]

    def purge(self, memory_ids: Collection[str], contexts: Collection[str], *, whole: bool) -> None:
        gone = {self._name(one) for one in contexts}
        ids = {one.encode() for one in memory_ids}
        with suppress(*_LEFT_ALONE), self._opened() as folder:
            for name in _names(folder):
                with suppress(*_LEFT_ALONE):
                    if name in gone or (whole and name.startswith(self._mark)):
                        os.unlink(name, dir_fd=folder)
                        continue
                    with _file(name, os.O_RDWR, folder) as file:
                        for match in _QUOTED.finditer(os.pread(file, os.fstat(file).st_size, 0)) if ids else ():
                            if match[0] in ids:
                                os.pwrite(file, b"-" * len(match[0]), match.start())

    def _entries(self, session: str) -> list[_Entry]:
        with suppress(*_LEFT_ALONE), self._opened() as folder, _file(self._name(session), os.O_RDONLY, folder) as file:
            return [one for one in _read(file, LIMIT_BYTES) if one.session == session]
        return []

    def _append(self, session: str, at_s: float, **fields: object) -> None:
        line = json.dumps({"session": session, "at": at_s, "ids": [], **fields}).encode() + b"\n"
        how = os.O_RDWR | os.O_APPEND | os.O_CREAT
        with suppress(*_LEFT_ALONE):
            check_folder(self._path.parent)
            with suppress(FileExistsError):
                self._path.mkdir(mode=0o700)
            with self._opened() as folder:
                with _file(self._name(session), how, folder) as file:
                    size = os.fstat(file).st_size
                    if size > LIMIT_BYTES:
                        os.ftruncate(file, 0)
                    elif size and os.pread(file, 1, size - 1) != b"\n":
                        line = b"\n" + line  # the one before was torn, and must not take this one along
                    os.write(file, line)
                if not size:
                    _tidy(folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The folder, if it is ours and closed to others. Raises OSError, StoreUntrusted."""
        check_folder(self._path.parent)
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | CAREFULLY)
        try:
            _check_ours(descriptor, 0o077)
            yield descriptor
        finally:
            os.close(descriptor)

    def _name(self, session: str) -> str:
        """A host's words never become part of a name."""
        return f"{self._mark}{_digest(self._space, session)[:32]}.jsonl"


@contextmanager
def _file(name: str, how: int, folder: int) -> Iterator[int]:
    """A file of the folder, if it is one and ours. Raises OSError, StoreUntrusted."""
    descriptor = opened(name, how, folder)
    try:
        _check_ours(descriptor, 0o022)
        yield descriptor
    finally:
        os.close(descriptor)


def _check_ours(descriptor: int, forbidden: int) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & forbidden:
        raise PermissionError("it is not ours alone")


def _read(file: int, most: int) -> list[_Entry]:
    """What the end of the file says, oldest first. A line that has lost its beginning or its end says nothing."""
    size = os.fstat(file).st_size
    found: list[_Entry] = []
    for line in os.pread(file, most, max(size - most, 0)).splitlines()[-MOST_LINES:]:
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            given = json.loads(line) if len(line) <= _LINE_BYTES else {}
            session, at_s, ids = given["session"], given["at"], given["ids"]
            is_sound = isinstance(session, str) and type(at_s) in (int, float) and isinstance(ids, list)
            if is_sound and 0 <= at_s < _LATEST_S:
                memory_ids = tuple(
                    memory_id
                    for memory_id in ids[:_MOST_IDS]
                    if isinstance(memory_id, str) and len(memory_id) <= _ID_LENGTH
                )
                account = given.get("account")
                costs = account if isinstance(account, dict) else {}
                found.append(_Entry(session, at_s, memory_ids, given.get("cleared") is True, costs))
    return found


def _tidy(folder: int) -> None:
    """Drop the sessions noted longest ago when there are too many; a few more, so that this is seldom done."""
    names = _names(folder)
    if len(names) <= MOST_SESSIONS:
        return
    for name in _by_time(folder)[: len(names) - MOST_SESSIONS * 9 // 10]:
        with suppress(OSError):  # another process was quicker, or it is no file
            os.unlink(name, dir_fd=folder)


def _by_time(folder: int, begins: str = "") -> list[str]:
    """The names that begin so, those that were written to last at the end."""
    found: list[tuple[float, str]] = []
    for name in _names(folder):
        if name.startswith(begins):
            with suppress(OSError):  # another process was quicker
                found.append((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime, name))
    return [name for _, name in sorted(found)]


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode(errors="replace")).hexdigest()


def _names(folder: int) -> list[str]:
    return os.listdir(folder)  # of a descriptor: it stays the folder that was looked at
