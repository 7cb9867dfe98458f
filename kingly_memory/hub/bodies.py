"""The bodies of calls: read whole within limits of length, time and room, mended, and handed on to an application that
would read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kingly_memory.hub.access import CALLER, Gate, Refusal
from kingly_memory.observe import log
from kingly_memory.validation import mended_tree

if TYPE_CHECKING:
    from mcp.types import JSONRPCMessage

SIZE = "kingly.body_bytes"

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
    async def arrived(self, request: Request) -> AsyncIterator[bytes]:
        """The request's body, which takes room until the block ends. Raises Refusal."""
        body = bytearray()
        try:
            await self._read(request, body)
            request.scope[SIZE] = len(body)
            yield bytes(body)
        finally:
            self._free_bytes += _room(len(body))

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read the request into `body`. What is not read is thrown away with the connection, or before the next
        request on it."""
        try:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.stream():
                    size = len(body) + len(chunk)
                    if size > self._limit_bytes:
                        reason = (
                            f"the body is longer than {self._limit_bytes:,} bytes; store a text in several memories"
                        )
                        raise Refusal(413, reason)
                    more = _room(size) - _room(len(body))
                    if more > self._free_bytes:
                        log.warning("BodyRefused 503: the bodies of other calls take all room")
                        raise Refusal(503, "the bodies of other calls take all room; try again in a moment")
                    self._free_bytes -= more
                    body += chunk
        except ClientDisconnect:
            raise Refusal(400, "the body ended early") from None
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {_BODY_S:.0f} s") from None


def _room(size: int) -> int:
    return max(0, size - _FREE_BYTES)


def _relayed(scope: Scope, body: bytes, receive: Receive) -> tuple[Scope, Receive]:
    """The same request with that body in one piece; then whatever comes: the end of the connection."""
    headers = [
        (b"content-length", str(len(body)).encode()) if name == b"content-length" else (name, value)
        for name, value in scope["headers"]
    ]
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return {**scope, "headers": headers}, replay


# --- JSON-RPC: what is mended and refused before the SDK reads it -----------------------------------------------------

INVALID_REQUEST = -32600
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}}
STRANGE_ID = "the id of a request has to be a text or a whole number"
NO_MESSAGE = "this is not a JSON-RPC message"

_THREAD_ABOVE_BYTES = 65_536
"""Reading more JSON than this takes long enough to be felt on the event loop."""


class Door:
    """An ASGI application in front of the SDK's: it lets in whom the gate admits, and hands on what the SDK can read.

    `sdk` gives that application, and raises Refusal where there is none.
    """

    def __init__(self, gate: Gate, bodies: Bodies, sdk: Callable[[], Awaitable[ASGIApp]]) -> None:
        self._gate = gate
        self._bodies = bodies
        self._sdk = sdk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            scope[CALLER] = await self._gate.admit(request.headers, scope)
            if request.method != "POST":
                # There is no session, and so nothing that a stream opened with GET could ever bring.
                raise Refusal(405, "this server answers to POST alone; it keeps no session and opens no stream")
            async with self._bodies.arrived(request) as body:
                sdk = await self._sdk()  # first, in its own thread: a message is read with a part of it
                is_short = len(body) <= _THREAD_ABOVE_BYTES
                message = _readable(body) if is_short else await to_thread.run_sync(_readable, body)
                await sdk(*_relayed(scope, message, receive), send)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)


def _readable(body: bytes) -> bytes:
    """A message that the SDK can read; what is no JSON at all it says itself. Raises Refusal for JSON that is no
    JSON-RPC: the SDK would answer with all that it holds."""
    from mcp.types import jsonrpc_message_adapter  # which few calls of a hub need
    from pydantic import ValidationError

    message = mended_body(body)
    try:
        read = jsonrpc_message_adapter.validate_json(message, by_name=False, extra="allow")
    except ValidationError as error:
        if all(one["type"] != "json_invalid" for one in error.errors(include_input=False, include_url=False)):
            raise Refusal(400, NO_MESSAGE) from None
    else:
        if has_strange_id(read):
            raise Refusal(400, STRANGE_ID)
    return message


def refused(refusal: Refusal) -> Response:
    """A refusal in the words of JSON-RPC over HTTP."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": refusal.reason}}
    return Response(json.dumps(body), refusal.status, _HEADERS.get(refusal.status), "application/json")


def has_strange_id(message: JSONRPCMessage) -> bool:
    """True for a request whose id is neither text nor a whole number: the SDK takes it for a notification, which nobody
    answers. The message was read with whatever else it holds."""
    return "id" in (message.model_extra or {})


def mended_body(body: bytes) -> bytes:
    """The same JSON without lone surrogates, which would be refused as unreadable; anything else as it came."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    try:
        return json.dumps(mended_tree(json.loads(body)), ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body
