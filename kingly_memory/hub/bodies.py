"""The bodies of calls: read whole within limits of length, time and room, and handed on to an application that would
read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from kingly_memory.hub.access import Refusal
from kingly_memory.observe import log

BODY_LIMIT_BYTES = 8 * 1024 * 1024
"""A memory of 1 MiB may grow sixfold when it is written as JSON inside JSON."""

_ROOM_BYTES = 32 * 1024 * 1024
"""Four of the longest at once; a body costs a few times its length until it is answered."""
_FREE_BYTES = 64 * 1024
"""What of each body takes no room, so that large ones do not keep out the small ones: nearly all are shorter. Uvicorn
reads that much ahead in any case."""
_BODY_S = 30.0
"""Seconds for a body to arrive."""


class Bodies:
    """The bodies that a server holds at the moment. Ask who calls before one is read."""

    def __init__(self, limit_bytes: int = BODY_LIMIT_BYTES, room_bytes: int = _ROOM_BYTES) -> None:
        """`limit_bytes`: the longest; `room_bytes`: all together, at least one of the longest."""
        self._limit_bytes = limit_bytes
        self._free_bytes = max(limit_bytes, room_bytes)

    @asynccontextmanager
    async def arrived(self, request: Request) -> AsyncIterator[bytes | Refusal]:
        """The request's body, or why it was not taken. It takes room until the block ends."""
        body = bytearray()
        try:
            yield await self._refused(request, body) or bytes(body)
        finally:
            self._free_bytes += _room(len(body))

    async def _refused(self, request: Request, body: bytearray) -> Refusal | None:
        """Read the request into `body`. What is not read is thrown away with the connection, or before the next
        request on it."""
        try:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.stream():
                    size = len(body) + len(chunk)
                    if size > self._limit_bytes:
                        said = f"the body is longer than {self._limit_bytes:,} bytes; store a text in several memories"
                        return Refusal(413, said)
                    more = _room(size) - _room(len(body))
                    if more > self._free_bytes:
                        log.warning("BodyRefused 503: the bodies of other calls take all room")
                        return Refusal(503, "the bodies of other calls take all room; try again in a moment")
                    self._free_bytes -= more
                    body += chunk
        except ClientDisconnect:
            return Refusal(400, "the body ended early")
        except TimeoutError:
            return Refusal(408, f"the body did not arrive within {_BODY_S:.0f} s")
        return None


def _room(size: int) -> int:
    return max(0, size - _FREE_BYTES)


def relayed(scope: Scope, body: bytes, receive: Receive) -> tuple[Scope, Receive]:
    """The same request with that body in one piece; then whatever comes: the end of the connection."""
    headers = [
        (b"content-length", str(len(body)).encode()) if name == b"content-length" else (name, value)
        for name, value in scope["headers"]
    ]
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return {**scope, "headers": headers}, replay
