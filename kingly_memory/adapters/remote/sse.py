"""Event streams as replies: the data of one message after the other, from bytes that somebody else bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
from httpx_sse import EventSource

_PIECE_BYTES = 4_096
"""What is taken apart in one turn of the event loop: a stream of empty lines is slow to read."""


async def messages(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The data of each whole event that is called `message` or nothing, in order. Comments, other events and events
    without data are left out, and so is one that the stream breaks off in."""
    # The library reads text; by way of Latin-1 every byte survives, and bad UTF-8 is for the reader of the JSON to see.
    head = {"Content-Type": "text/event-stream; charset=latin-1"}
    source = EventSource(httpx.Response(200, headers=head, content=_small(pieces)))
    async for event in source.aiter_sse():
        if event.event == "message" and event.data:
            yield event.data.encode("latin-1")


async def _small(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        for start in range(0, len(piece), _PIECE_BYTES):
            yield piece[start : start + _PIECE_BYTES]
            await asyncio.sleep(0)
