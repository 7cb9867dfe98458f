"""Server-sent events (WHATWG HTML, section 9.2): the data of one message after the other. Callers bound the bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable

_PIECE_BYTES = 4_096
"""How much is parsed in one turn of the event loop: a stream of empty lines is slow to read."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the end of what has arrived is not cut yet: an LF may follow in the next piece."""


async def messages(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The data of each whole event of type `message` or of no type, in order. Comments, other events, events without
    data and an event that the stream breaks off in are left out. Bytes are passed on as they came, bad UTF-8 too."""
    event = b""
    data: list[bytes] = []
    async for line in _lines(pieces):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            event = value
        elif not line:
            text = b"\n".join(data)
            if text and event in (b"", b"message"):
                yield text
            event, data = b"", []


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        for part in _parts(piece):
            rest += part
            if b"\n" in part or b"\r" in rest:
                *lines, last = _LINE_END.split(bytes(rest))
                rest = bytearray(last)
                for line in lines:
                    yield line
            await asyncio.sleep(0)
    if rest.endswith(b"\r"):
        yield bytes(rest[:-1])


def _parts(piece: bytes) -> Iterable[bytes]:
    return (piece[start : start + _PIECE_BYTES] for start in range(0, len(piece), _PIECE_BYTES))
