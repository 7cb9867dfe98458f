"""Reading one HTTP reply: the bytes as they came, never more than the limit, and nothing of them in an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx

from kingly_memory.adapters.remote.outcomes import needs_body, succeeded
from kingly_memory.errors import RemoteUnavailable

_CHUNKS_PER_TURN = 64
"""A reply of one-byte chunks would otherwise be read in one turn of the event loop."""


class Reply:
    """A reply whose head has arrived."""

    def __init__(self, response: httpx.Response, limit_bytes: int) -> None:
        self._response = response
        self._limit_bytes = limit_bytes

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def media(self) -> str:
        """The media type in lower case, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    async def body(self) -> bytes:
        """All of it; where the status already says what the reply means, a bad or unneeded body is none."""
        if succeeded(self.status):
            return await self._whole()
        if not needs_body(self.status):
            return b""
        try:
            return await self._whole()
        except RemoteUnavailable:
            return b""

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes, never decompressed. Raises RemoteUnavailable when it is longer than the limit."""
        if (self.header("content-encoding") or "identity").strip().lower() != "identity":
            raise RemoteUnavailable("the reply is compressed, which was not asked for", reached=True)
        if int(self.header("content-length") or 0) > self._limit_bytes:
            raise self._too_long()
        length = chunks = 0
        async for chunk in self._response.aiter_raw():
            length += len(chunk)
            chunks += 1
            if length > self._limit_bytes:
                raise self._too_long()
            yield chunk
            if chunks % _CHUNKS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _whole(self) -> bytes:
        body = bytearray()
        async for piece in self.pieces():
            body += piece
        return bytes(body)

    def _too_long(self) -> RemoteUnavailable:
        return RemoteUnavailable(f"the reply is longer than {self._limit_bytes:,} bytes", reached=True)
