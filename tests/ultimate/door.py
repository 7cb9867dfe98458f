"""What stands before the fake Ultimate server: its paths, its sessions, and faults on command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tests.scripted.script import Fault

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_SESSION = b"mcp-session-id"
_JSON = b"application/json"


def _rpc_error(text: str) -> bytes:
    error = {"code": -32600, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": error}).encode()


LOST_SESSIONS = {
    "older": (400, b"Bad Request: No valid session ID provided", [(b"content-type", b"text/plain")]),
    "newer": (404, _rpc_error("Session not found"), [(b"content-type", _JSON)]),
    "terminated": (404, _rpc_error("Not Found: Session has been terminated"), [(b"content-type", _JSON)]),
}
"""How a server says that it does not know a session, by its age."""


class Door:
    """An ASGI application around the server's own.

    Faults strike tool calls, by the tool's name: `ok`, `status=503`, `hang`, `html`, and after the effect `lost-reply`
    and `late`.
    """

    def __init__(
        self,
        application: Application,
        path: str,
        faults: Callable[[str], Fault],
        *,
        sessions_only: bool,
        lost_session: str,
    ) -> None:
        self._application = application
        self._path = path
        self._faults = faults
        self._sessions_only = sessions_only
        self._lost_session = lost_session
        self._issued: set[bytes] = set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._application(scope, receive, send)
        if scope["path"] == "/mcp":
            return await _say(send, 307, b"", [(b"location", b"/mcp/")])
        if scope["path"] != self._path:
            return await _say(send, 404, b"Not Found")
        if scope["method"] != "POST":
            return await self._application(scope, receive, self._noting(send))
        body = await _read(receive)
        return await self._posted(scope, body, receive, send)

    async def _posted(self, scope: MutableMapping[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        message = _json(body)
        session = dict(scope["headers"]).get(_SESSION)
        if session is not None and session not in self._issued:
            return await _say(send, *LOST_SESSIONS[self._lost_session])
        if self._sessions_only and session is None and message.get("method") != "initialize":
            return await _say(send, 400, _rpc_error("Bad Request: Missing session ID"), [(b"content-type", _JSON)])
        again = _replayed(body, receive)
        if message.get("method") != "tools/call":
            return await self._application(scope, again, self._noting(send))
        return await self._called(scope, str(message.get("params", {}).get("name")), again, send)

    async def _called(self, scope: MutableMapping[str, Any], tool: str, receive: Receive, send: Send) -> None:
        fault = self._faults(tool)
        if fault.kind == "status":
            return await _say(send, int(fault.detail.split(" ")[0]), b"something at /opt/ultimate went wrong")
        if fault.kind == "html":
            return await _say(send, 200, b"<html>please log in</html>", [(b"content-type", b"text/html")])
        if fault.kind in ("lost-reply", "late", "hang"):
            if fault.kind != "hang":
                await self._application(scope, receive, _nowhere)
            if fault.kind == "lost-reply":
                return await _break_off(send)
            await asyncio.Event().wait()
        return await self._application(scope, receive, self._noting(send))

    def _noting(self, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._issued.update(value for name, value in message["headers"] if name.lower() == _SESSION)
            await send(message)

        return noted


async def _nowhere(_message: Message) -> None:
    return None


async def _break_off(send: Send) -> None:
    """A reply of which only the head arrives: the connection ends before the body it promised."""
    headers = [(b"content-type", _JSON), (b"content-length", b"1000")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{", "more_body": False})


async def _say(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    told = [(b"content-length", str(len(body)).encode()), *(headers or [(b"content-type", b"text/plain")])]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def _read(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        piece: bytes = message.get("body", b"")
        body += piece
        if not message.get("more_body"):
            return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The request's body once more, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
