"""The bodies of calls: read whole within a limit and a time, and handed on to an application that would read them."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from kingly_memory.hub.access import Refusal

BODY_LIMIT_BYTES = 8 * 1024 * 1024
"""A memory of 1 MiB may grow sixfold when it is written as JSON inside JSON."""

_DRAINED_BYTES = 64 * 1024 * 1024
"""What is read of a body that is too long before the answer: a sender who is cut off mid-body may never see it."""
_BODY_S = 30.0
"""Seconds for a body to arrive."""


async def arrived(request: Request) -> bytes | Refusal:
    """The request's body, empty when the caller hung up; or why it was not taken."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= BODY_LIMIT_BYTES:
                    chunks.append(chunk)
                elif size > _DRAINED_BYTES:
                    break
    except ClientDisconnect:
        return b""
    except TimeoutError:
        return Refusal(408, f"the body did not arrive within {_BODY_S:.0f} s")
    if size > BODY_LIMIT_BYTES:
        return Refusal(413, f"the body is longer than {BODY_LIMIT_BYTES:,} bytes; store a text in several memories")
    return b"".join(chunks)


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
