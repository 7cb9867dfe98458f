"""Reading what is added to an audit from now on, across rotation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kingly_memory.adapters.audit.reading import AuditReader, Noted, noted, whole_lines


class Mark(NamedTuple):
    """How far a kind has been read: a file, whatever it is called by now, and a place in it."""

    inode: int
    offset: int


class Follower:
    """The records that are added after this was made. An audit need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._reader = AuditReader(folder)
        self._marks: dict[str, Mark] = {}
        for kind in self._kinds():
            self._marks[kind] = self._end(kind)

    def added(self) -> list[Noted]:
        """What was added since the last time, in the order of time. Raises InvalidInput."""
        found = [one for kind in self._kinds() for one in self._more(kind)]
        return sorted(found, key=lambda one: one.at)

    def _kinds(self) -> list[str]:
        return self._reader.kinds() if self._reader.folder.is_dir() else []

    def _end(self, kind: str) -> Mark:
        with ExitStack() as files:
            newest = self._reader.opened(kind, files)[-1]
            offset = 0
            for _ in whole_lines(newest):
                offset = newest.tell()
            return Mark(_inode(newest), offset)

    def _more(self, kind: str) -> Iterator[Noted]:
        mark = self._marks.get(kind)
        with ExitStack() as files:
            opened = self._reader.opened(kind, files)
            inodes = [_inode(file) for file in opened]
            begin = inodes.index(mark.inode) if mark is not None and mark.inode in inodes else 0
            for inode, file in zip(inodes[begin:], opened[begin:], strict=True):
                offset = file.seek(mark.offset if mark is not None and inode == mark.inode else 0)
                for line in whole_lines(file):
                    offset = file.tell()
                    one = noted(kind, line)
                    if one is not None:
                        yield one
                self._marks[kind] = Mark(inode, offset)


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino
