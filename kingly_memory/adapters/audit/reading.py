"""Reading an audit, while others write to it: what is torn or foreign is passed over and counted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kingly_memory.adapters.audit import folder as places
from kingly_memory.adapters.audit.lines import LONGEST_BYTES, record_in
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import mended
from kingly_memory.models import JsonObject

ID_LETTERS = 12
LEAST_ID_LETTERS = 4
_BLOCK_BYTES = 65_536
_LOCK_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Noted:
    """A record with its kind, and an id that is made of its line: the same wherever the line has been moved to."""

    kind: str
    id: str
    record: JsonObject

    @property
    def at(self) -> str:
        """ISO 8601, or empty."""
        return _text(self.record.get("timestamp"))

    @property
    def agent_id(self) -> str:
        return _text(self.record.get("agent_id"))


class AuditReader:
    """The records in a folder. `damaged` counts the lines that were none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged = 0

    def kinds(self) -> list[str]:
        """The kinds that there are records of. Raises InvalidInput."""
        try:
            return places.kinds(self.folder)
        except FileNotFoundError:
            raise InvalidInput(
                "folder", f"there is no audit in {self.folder}; name another --folder, or write one (docs/audit.md)"
            ) from None
        except OSError as error:
            raise self._unreadable(error) from None

    def all(self, kinds: Sequence[str] | None = None) -> Iterator[Noted]:
        """Every record, oldest first within its kind. Raises InvalidInput."""
        for kind in self._chosen(kinds):
            with ExitStack() as files:
                for file in self.opened(kind, files):
                    yield from self._noted(kind, whole_lines(file))

    def latest(self, most: int, kinds: Sequence[str] | None = None, agent_id: str | None = None) -> list[Noted]:
        """So many of the latest records, of one agent if it is named, oldest first. Raises InvalidInput."""
        found: list[Noted] = []
        for kind in self._chosen(kinds):
            wanted = (one for one in self._backwards(kind) if agent_id is None or one.agent_id == agent_id)
            found += reversed(list(islice(wanted, most)))
        return sorted(found, key=lambda one: one.at)[-most:] if most else []

    def named(self, name: str) -> Noted:
        """The record with that id, or the beginning of one, the latest if there are several; or of FILE:LINE.

        Raises InvalidInput.
        """
        file, _, line = name.rpartition(":")
        if file:
            return self._at(file, line)
        if len(name) < LEAST_ID_LETTERS:
            raise InvalidInput(
                "record", f"{name!r} is too short; give {LEAST_ID_LETTERS} letters of an id, or FILE:LINE"
            )
        found = (one for kind in self._chosen(None) for one in self._backwards(kind) if one.id.startswith(name))
        one = next(found, None)
        if one is None:
            raise InvalidInput("record", f"there is none with the id {mended(name)[:40]!r} in {self.folder}")
        return one

    def _at(self, name: str, line: str) -> Noted:
        file = Path(name if name.endswith(".jsonl") else f"{name}.jsonl").name
        path = self.folder / file
        kind = file.partition(".")[0]
        if not line.isdecimal() or kind not in self.kinds() or path not in places.files_of(self.folder, kind):
            raise InvalidInput("record", f"{mended(name)[:60]}:{mended(line)[:20]} is no FILE:LINE of {self.folder}")
        with ExitStack() as files:
            try:
                lines = whole_lines(files.enter_context(self._open(path)))
            except OSError as error:
                raise self._unreadable(error) from None
            found = next(islice(lines, int(line[:12]) - 1, None), None) if int(line[:12]) else None
        one = None if found is None else noted(kind, found)
        if one is None:
            raise InvalidInput("record", f"{path} has no record in line {line[:12]}")
        return one

    def _chosen(self, kinds: Sequence[str] | None) -> list[str]:
        there = self.kinds()
        return there if kinds is None else [kind for kind in there if kind in kinds]

    def _backwards(self, kind: str) -> Iterator[Noted]:
        with ExitStack() as files:
            for file in reversed(self.opened(kind, files)):
                yield from self._noted(kind, _lines_backwards(file))

    def opened(self, kind: str, files: ExitStack) -> list[BinaryIO]:
        """All files of the kind, oldest first, opened while nobody renames them. Raises InvalidInput."""
        try:
            with places.steady(self.folder, _LOCK_WAIT_S):
                return [files.enter_context(self._open(path)) for path in places.files_of(self.folder, kind)]
        except OSError as error:
            raise self._unreadable(error) from None

    def _open(self, path: Path) -> BinaryIO:
        return os.fdopen(places.opened_to_read(path), "rb")

    def _noted(self, kind: str, lines: Iterator[bytes]) -> Iterator[Noted]:
        for line in lines:
            one = noted(kind, line)
            if one is None:
                self.damaged += 1
                continue
            yield one

    def _unreadable(self, error: OSError) -> InvalidInput:
        return InvalidInput("folder", f"the audit in {self.folder} cannot be read ({error.strerror or error})")


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines; a torn one at the end is none, and one that is too long is cut, which makes it none."""
    while line := file.readline(LONGEST_BYTES + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
            continue
        rest = line
        while len(rest) > LONGEST_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_BYTES + 1)
        if rest.endswith(b"\n"):
            yield line[:_BLOCK_BYTES]


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """The same lines, last one first."""
    end = file.seek(0, os.SEEK_END)
    rest: bytes | None = None
    """The beginning of a line whose own beginning lies further ahead; None as long as no line has ended."""
    while end > 0:
        start = max(end - _BLOCK_BYTES, 0)
        file.seek(start)
        pieces = file.read(end - start).split(b"\n")
        end = start
        if len(pieces) == 1:
            rest = None if rest is None else (pieces[0] + rest)[-LONGEST_BYTES - 1 :]
            continue
        if rest is not None:
            yield pieces[-1] + rest
        yield from reversed(pieces[1:-1])
        rest = pieces[0]
    if rest is not None:
        yield rest


def noted(kind: str, line: bytes) -> Noted | None:
    """None for a line that is no record."""
    record = record_in(line)
    return None if record is None else Noted(kind, sha256(line).hexdigest()[:ID_LETTERS], record)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
