"""Ids of memories: made here, derived from one another, and read."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime
from typing import NewType

from kingly_memory.digests import sha256

MemoryId = NewType("MemoryId", str)

_id_lock = threading.Lock()
_last_id = 0


def _begin_anew() -> None:
    global _last_id
    _last_id = 0  # a forked child would go on counting where its parent does
    _id_lock.release()


os.register_at_fork(before=_id_lock.acquire, after_in_parent=_id_lock.release, after_in_child=_begin_anew)


def new_id(now: datetime) -> MemoryId:
    """A UUIDv7 (RFC 9562): ordered by time, and random; within a millisecond of one process each is the next number."""
    global _last_id
    milliseconds = max(int(now.timestamp() * 1000), 0) & ((1 << 48) - 1)
    with _id_lock:
        candidate = _last_id + 1
        if candidate >> 74 != milliseconds:
            candidate = (milliseconds << 74) | (int.from_bytes(os.urandom(10), "big") & ((1 << 74) - 1))
        _last_id = candidate
    time_part, rest = candidate >> 74, candidate & ((1 << 74) - 1)
    value = (time_part << 80) | (0x7 << 76) | ((rest >> 62) << 64) | (0b10 << 62) | (rest & ((1 << 62) - 1))
    text = f"{value:032x}"
    return MemoryId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def derived_id(memory_id: str, where: str) -> MemoryId:
    """Another id of the same time: what that memory is called in another space or context, whenever it is asked."""
    digest = sha256(f"{memory_id}:{where}".encode()).hexdigest()
    return MemoryId(f"{memory_id[:15]}{digest[:3]}-8{digest[3:6]}-{digest[6:18]}")


def named_id(*names: str | int) -> MemoryId:
    """The id of what has those names elsewhere, as what only a remote holds or a message of a file: the same in every
    process and on every import, and of no time."""
    digest = sha256(json.dumps(names).encode()).hexdigest()
    return MemoryId(f"{digest[:8]}-{digest[8:12]}-8{digest[12:15]}-8{digest[15:18]}-{digest[18:30]}")


def made_s(memory_id: str, unknown_s: float) -> float:
    """When the memory got its id, a UUIDv7, in Unix seconds. Ids from elsewhere do not say that."""
    return int(memory_id[:8] + memory_id[9:13], 16) / 1000 if memory_id[14:15] == "7" else unknown_s
