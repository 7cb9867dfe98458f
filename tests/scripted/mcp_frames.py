"""How a scripted remote speaks mcp: JSON-RPC 2.0 over Streamable HTTP, with sessions or without."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from kingly_memory.models import JsonObject
from tests.scripted.wire_faults import CANARY, Frame

STATELESS_VERSION = "2026-07-28"
SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_PAGE = 4
"""Tools on one page of a list, so that there is more than one."""
_META = "io.modelcontextprotocol"


@dataclass(frozen=True, slots=True)
class McpStyle:
    """What kind of mcp server is played.

    `sessions`: `initialize` issues a session id, which later calls must bring; `stateless`: it knows the protocol that
    needs neither. `events`: it replies with event streams. `lost`: how it turns away a session that it does not know,
    `400` as older servers do, `404`, or `terminated`, which is 404 in other words. `structured=False`: results are in
    texts alone.
    """

    sessions: bool = True
    stateless: bool = False
    events: bool = False
    lost: str = "404"
    path: str = "/mcp"
    name: str = "scripted"
    structured: bool = True


class Arrived(NamedTuple):
    """An HTTP request: header names in lower case."""

    verb: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """One response: status, body, its media type, and headers as lines."""

    status: int
    body: bytes = b""
    media: str = "application/json"
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A message that was understood. `number` is its id, None for a notification."""

    method: str
    params: JsonObject
    number: int | str | None


class McpFrame(Frame):
    """How the result of one tools/call lies on the wire."""

    def __init__(self, number: int | str | None, style: McpStyle, session: str | None = None) -> None:
        self._number = number
        self._style = style
        self.media = "text/event-stream" if style.events else "application/json"
        self.headers = () if session is None else (f"Mcp-Session-Id: {session}",)

    def result(self, reply: JsonObject) -> bytes:
        return self._framed(self._called(json.dumps(reply), structured=reply))

    def noisy(self, reply: JsonObject) -> bytes:
        if not self._style.events:
            return self.result(reply)
        progress: JsonObject = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": CANARY}}
        asked: JsonObject = {"jsonrpc": "2.0", "id": self._number, "method": "ping"}
        other: JsonObject = {"jsonrpc": "2.0", "id": "another", "result": {}}
        noise = b": a comment\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: endpoint\r\ndata: {}\r\n\r\n"
        return noise + b"".join(map(_event, (progress, asked, other))) + self.result(reply)

    def failure(self, text: str) -> bytes:
        return self._framed(self._called(text, failed=True))

    def text(self, text: str) -> bytes:
        return self._framed(self._called(text))

    def error(self, code: int) -> bytes:
        return self._framed({"error": {"code": code, "message": CANARY}})

    def astray(self) -> bytes:
        message = {"jsonrpc": "2.0", "id": "another", "result": {"content": []}}
        return _event(message) if self._style.events else json.dumps(message).encode()

    def lost_session(self) -> tuple[int, bytes]:
        answer = lost_session(self._style)
        return answer.status, answer.body

    def unknown(self, method: str) -> tuple[int, bytes]:
        return 200, self.failure(f"Unknown tool: {method}")

    def plain(self, result: JsonObject) -> bytes:
        """The result of something else than a tool."""
        return self._framed({"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}})

    def _framed(self, outcome: JsonObject) -> bytes:
        message = {"jsonrpc": "2.0", "id": self._number, **outcome}
        return _event(message) if self._style.events else json.dumps(message).encode()

    def _called(self, text: str, *, structured: JsonObject | None = None, failed: bool = False) -> JsonObject:
        result: JsonObject = {"content": [{"type": "text", "text": text}], "isError": failed, "resultType": "complete"}
        if structured is not None and self._style.structured:
            result["structuredContent"] = structured
        return {"result": result}


@dataclass(slots=True)
class McpDesk:
    """What a scripted mcp server does besides calling tools: who may enter, and what is said on the way."""

    style: McpStyle
    tools: tuple[JsonObject, ...]
    sessions: set[str] = field(default_factory=set)
    _numbers: Iterable[int] = field(default_factory=count)
    _used: set[tuple[str, int | str]] = field(default_factory=set)
    """What has been asked in each session, by its number."""

    def admitted(self, arrived: Arrived) -> Request | Answer:
        """The request, or how it is turned away."""
        verb, path, headers, body = arrived
        if path == "/mcp" != self.style.path:  # as a server does that is mounted below it; nothing is there either
            return Answer(307, headers=("Location: /mcp/",))
        if path.partition("?")[0] != self.style.path:
            return Answer(404, b"Not Found", "text/plain")
        if verb == "DELETE":
            self.sessions.discard(headers.get("mcp-session-id", ""))
            return Answer(200)
        if verb != "POST":
            return Answer(405)
        accepted = headers.get("accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            return Answer(406)
        request = _request(body)
        if request is None:
            return Answer(400, _error(None, -32700, "Parse error"))
        return self._refused(request, headers) or request

    def reply(self, request: Request) -> Answer:
        """What anything but a tool's call is answered with."""
        if request.number is None:
            return Answer(202)
        session: str | None = None
        if request.method == "initialize" and self.style.sessions:
            session = f"session-{next(iter(self._numbers))}"
            self.sessions.add(session)
        frame = McpFrame(request.number, self.style, session)
        result = self._said(request)
        if result is None:
            return Answer(404, _error(request.number, -32601, "Method not found"))
        return Answer(200, frame.plain(result), frame.media, frame.headers)

    def frame(self, request: Request) -> McpFrame:
        return McpFrame(request.number, self.style)

    def _refused(self, request: Request, headers: Mapping[str, str]) -> Answer | None:
        if headers.get("mcp-protocol-version") == STATELESS_VERSION:
            return self._refused_stateless(request, headers)
        if request.method in ("initialize", "server/discover") or not self.style.sessions:
            return None
        session = headers.get("mcp-session-id", "")
        return self._refused_repeated(session, request) if session in self.sessions else lost_session(self.style)

    def _refused_repeated(self, session: str, request: Request) -> Answer | None:
        """The protocol forbids using a number twice in a session."""
        if request.number is None:
            return None
        if (session, request.number) in self._used:
            return Answer(400, _error(request.number, -32600, "The request id was used before"))
        self._used.add((session, request.number))
        return None

    def _refused_stateless(self, request: Request, headers: Mapping[str, str]) -> Answer | None:
        if not self.style.stateless:
            message = "Bad Request: Unsupported protocol version"
            return Answer(400, _error("server-error", -32600, message))
        meta = request.params.get("_meta", {})
        said = (headers.get("mcp-method"), headers.get("mcp-name"), meta.get(f"{_META}/protocolVersion"))
        if said != (request.method, request.params.get("name"), STATELESS_VERSION):
            return Answer(400, _error(request.number, -32020, "Header mismatch"))
        if f"{_META}/clientCapabilities" not in meta:
            return Answer(400, _error(request.number, -32602, "params._meta is missing a required key"))
        return None

    def _said(self, request: Request) -> JsonObject | None:
        params = request.params
        if request.method == "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in SESSION_VERSIONS else SESSION_VERSIONS[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": self.style.name, "version": "1"},
            }
        if request.method == "server/discover" and self.style.stateless:
            return {"supportedVersions": [*SESSION_VERSIONS, STATELESS_VERSION], "capabilities": {"tools": {}}}
        if request.method == "tools/list":
            return self._page(int(params.get("cursor") or 0))
        return {} if request.method == "ping" else None

    def _page(self, start: int) -> JsonObject:
        page: JsonObject = {"tools": self.tools[start : start + _PAGE]}
        return {**page, "nextCursor": str(start + _PAGE)} if start + _PAGE < len(self.tools) else page


def lost_session(style: McpStyle) -> Answer:
    """How a session that is not known is turned away."""
    if style.lost == "400":
        return Answer(400, b"Bad Request: No valid session ID provided", "text/plain")
    said = "Not Found: Session has been terminated" if style.lost == "terminated" else "Session not found"
    return Answer(404, _error("server-error", -32600, said))


def _request(body: bytes) -> Request | None:
    try:
        message: Any = json.loads(body)
        return Request(message["method"], message.get("params") or {}, message.get("id"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _event(message: JsonObject) -> bytes:
    return f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()


def _error(number: int | str | None, code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}).encode()
