"""A disk that keeps a log of every write and flush that reaches it, so that a test can say what its cache forgot.

The kernel sees one file, which this process serves over /dev/fuse. ext4 lies on that file by a loop device: what is in
the log is what ext4 told its disk. `python -m tests.faults.forgetful_disk IMAGE LOG` serves IMAGE in the place of
itself, writes nothing to the file below, and ends when it is unmounted.
"""

from __future__ import annotations

import ctypes
import os
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK_BYTES = 4096
"""What a disk writes whole or not at all. With less, ext4 may be lost itself: it writes its superblock in place."""

_HEADER = struct.Struct("<QI")
_FLUSH = 2**64 - 1
_INIT, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _FSYNC, _DESTROY = 26, 3, 4, 14, 15, 16, 20, 38
_NO_ANSWER = (2, 36, 42)
"""Forget, interrupt and batch forget."""
_DONE = (18, 25, _FSYNC, _DESTROY)
_MOST_BYTES = 1 << 17
_ENOSYS = 38


class Write(NamedTuple):
    offset: int
    data: bytes
    end: int
    """How long the log was after it."""


def read_log(log: Path) -> Iterator[Write | None]:
    """What reached the disk, in order; None is a flush."""
    content, at = log.read_bytes(), 0
    while at < len(content):
        offset, size = _HEADER.unpack_from(content, at)
        at += _HEADER.size + size
        yield None if offset == _FLUSH else Write(offset, content[at - size : at], at)


def survivors(writes: list[Write], chance: random.Random) -> Iterator[tuple[int, bytes]]:
    """Some blocks of what was in the disk's cache when the power failed, in any order."""
    share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    for write in chance.sample(writes, len(writes)):
        for at in range(-write.offset % BLOCK_BYTES - BLOCK_BYTES, len(write.data), BLOCK_BYTES):
            block = write.data[max(at, 0) : at + BLOCK_BYTES]
            if block and chance.random() < share:
                yield write.offset + max(at, 0), block


def serve(image: Path, log: Path) -> None:
    content = bytearray(image.read_bytes())
    attributes = struct.pack("<16xQQQ36xII12xII", 1, len(content), len(content) // 512, 0o100600, 1, BLOCK_BYTES, 0)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=100000,user_id=0,group_id=0".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"disk", os.fsencode(image), b"fuse", 0, options) != 0:
        sys.exit(f"the disk over /dev/fuse was refused ({os.strerror(ctypes.get_errno())})")
    os.write(sys.stdout.fileno(), b"served\n")
    kept = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    opcode = 0
    while opcode != _DESTROY:
        try:
            asked = os.read(device, _MOST_BYTES + 4096)
        except OSError:  # unmounted
            return
        _, opcode, unique = struct.unpack_from("<IIQ", asked)
        if opcode in _NO_ANSWER:
            continue
        error, answer = 0, b""
        if opcode == _INIT:
            answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, _MOST_BYTES, 1 << 5, 16, 12, _MOST_BYTES, 1, 0, 0, 0)
        elif opcode in (_GETATTR, _SETATTR):
            answer = attributes
        elif opcode == _OPEN:
            answer = bytes(16)
        elif opcode == _READ:
            offset, size = struct.unpack_from("<QI", asked, 48)
            answer = bytes(content[offset : offset + size])
        elif opcode == _WRITE:
            offset, size = struct.unpack_from("<QI", asked, 48)
            data = asked[80 : 80 + size]
            os.write(kept, _HEADER.pack(offset, size) + data)
            content[offset : offset + size] = data
            answer = struct.pack("<II", size, 0)
        elif opcode == _FSYNC:
            os.write(kept, _HEADER.pack(_FLUSH, 0))
        elif opcode not in _DONE:
            error = -_ENOSYS
        os.write(device, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
