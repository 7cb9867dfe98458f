"""What went wrong in hooks, which must not say so where it happens: one line each in the user's data folder, and one
when the same hook has worked again.

The lines hold names, times and our own sentences; never a memory's text, a prompt or a secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kingly_memory.dataclass import NamedTuple
from kingly_memory.errors import InvalidSetting, StoreError, StoreUntrusted
from kingly_memory.home.own_files import opened
from kingly_memory.home.place import user_data_folder
from kingly_memory.hosts.hooks import LOG, TranscriptUnreadable, UnusableInput

LOOKED_BACK = timedelta(days=1)
LIMIT_BYTES = 256 * 1024
"""A longer file is put aside as `hooks.jsonl.1`, in the place of the one before."""
_PROBLEM_LIMIT = 300
_TELLING = (StoreError, InvalidSetting, UnusableInput, TranscriptUnreadable)
"""Errors whose sentence says nothing that anybody has said to an agent."""


class Failure(NamedTuple):
    """A hook that failed. `home` is None when it did not get so far; `problem` is empty where it has worked again."""

    at: datetime
    event: str
    problem: str
    home: str | None


def path() -> Path:
    return user_data_folder() / LOG


def note(event: str, problem: str, home: Path | None = None) -> None:
    """Write a line; where that is not possible, whatever the reason, there is nobody left to tell."""
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": event[:40],
        "problem": problem[:_PROBLEM_LIMIT],
        "home": None if home is None else str(home),
    }
    with suppress(Exception):  # a hook that cannot say what went wrong must still end well
        file = path()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = opened(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, (json.dumps(entry) + "\n").encode())
            too_long = os.fstat(descriptor).st_size > LIMIT_BYTES
        finally:
            os.close(descriptor)
        if too_long:  # two at once may put aside a short file: some lines are lost, and nothing else
            file.replace(file.with_name(f"{file.name}.1"))


def note_success(event: str, home: Path, now: datetime) -> None:
    """Write a line if there is a failure that is over with this success."""
    if any(one.event == event and one.home in (None, str(home)) for one in failures(now)):
        note(event, "", home)


def failures(now: datetime) -> list[Failure]:
    """The failures of the last day, oldest first, but for those after which the same hook has worked."""
    try:
        log = path()
    except RuntimeError:  # the user's home cannot be determined, so nothing was noted either
        return []
    kept: list[Failure] = []
    for entry in (*_read(log.with_name(f"{LOG}.1")), *_read(log)):
        if not entry.problem:
            kept = [other for other in kept if other.event != entry.event or other.home not in (None, entry.home)]
        elif entry.at >= now - LOOKED_BACK:
            kept.append(entry)
    return kept


def worded(error: BaseException) -> str:
    """An error without anything that was said: its sentence if that is ours, else its kind and where it arose."""
    if isinstance(error, _TELLING):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:  # the last line of ours on the way to the error
        _, ours, module = trace.tb_frame.f_code.co_filename.rpartition("kingly_memory/")
        place = f" in {module}:{trace.tb_lineno}" if ours else place
        trace = trace.tb_next
    return type(error).__name__ + place


def _read(file: Path) -> Iterator[Failure]:
    try:
        with os.fdopen(opened(file, os.O_RDONLY), "rb") as log:
            log.seek(max(os.fstat(log.fileno()).st_size - 2 * LIMIT_BYTES, 0))
            lines = log.read(2 * LIMIT_BYTES).splitlines()
    except (OSError, StoreUntrusted):
        return
    for line in lines:
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            entry = json.loads(line)
            at = datetime.fromisoformat(entry["at"]).astimezone(UTC)
            yield Failure(at, str(entry["event"]), str(entry["problem"]), entry["home"])
