"""A real remote on the loopback interface that fails on command."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from kingly_memory.dataclass import dataclass
from kingly_memory.models import JsonObject
from kingly_memory.testing.semantic import SemanticServer, Unable

FAULTS = {
    "ok": "the effect and the reply",
    "status": "no effect; `status=503`, `status=429 7` (Retry-After)",
    "failure": "no effect; 200 with success false; `failure=INVALID_PARAMETER` (error_code)",
    "hang": "no effect and no reply",
    "reset": "no effect; the connection is reset",
    "lost-reply": "the effect, then the connection is reset",
    "late": "the effect, then no reply",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived: header names in lower case, `fault` as it was played."""

    method: str
    params: JsonObject
    headers: Mapping[str, str]
    fault: str


class ScriptedRemote:
    """A server of json-call with scripted faults (`FAULTS`), on threads of its own: for sync and async tests.

    `with ScriptedRemote("status=503", "lost-reply") as server: ... server.url, server.requests, server.effects`.
    Faults are used up one per request, then `always` holds. What it holds outlives `stop` and `start`, as a server's
    database does.
    """

    _faults: ClassVar[Mapping[str, str]] = FAULTS

    def __init__(
        self,
        *script: str,
        always: str = "ok",
        honours_keys: bool = True,
        without: Sequence[str] = (),
        token: str | None = None,
        port: int = 0,
    ) -> None:
        self.port = port
        self.requests: list[Call] = []
        self.effects: list[Call] = []
        self.semantic = SemanticServer(honours_keys=honours_keys, without=tuple(without))
        self._script: deque[tuple[str | None, str]] = deque()
        self._always = self._checked(always)
        self._token = token
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self.script(*script)

    def __repr__(self) -> str:
        return f"<ScriptedRemote {self.url} requests={len(self.requests)} effects={len(self.effects)}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *faults: str, method: str | None = None) -> None:
        """Queue faults, one per request, for every method or for one. Raises ValueError for one that is not known."""
        self._script.extend((method, self._checked(fault)) for fault in faults)

    def always(self, fault: str) -> None:
        """What happens whenever nothing is queued."""
        self._always = self._checked(fault)

    def start(self) -> None:
        """Listen; returns when connections are taken. The second start uses the first one's port."""
        remote, ended = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its head
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                remote._open.add(self.connection)

            def handle(self) -> None:
                with suppress(ConnectionError):  # the other side may go away, and `stop` resets everybody
                    super().handle()

            def finish(self) -> None:
                remote._open.discard(self.connection)
                super().finish()

            def do_POST(self) -> None:
                self.close_connection = ended.is_set() or not remote._answer(self)

            def do_DELETE(self) -> None:
                self.do_POST()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Tests read `requests` instead."""

        self._ended = ended
        self._server = _Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening and reset every connection, as a killed server does."""
        if self._server is not None:
            self._ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in list(self._open):
            reset(connection)

    def wait_until(self, condition: Callable[[Self], bool], timeout_s: float = 10.0) -> None:
        """Block until the condition holds, looked at after each request. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout_s):
                raise TimeoutError(f"{self!r} did not get there within {timeout_s:g} s")

    def _checked(self, fault: str) -> str:
        if fault.partition("=")[0] not in self._faults:
            raise ValueError(f"{fault!r} is not a fault; choose one of {', '.join(self._faults)}")
        return fault

    def _answer(self, request: BaseHTTPRequestHandler) -> bool:
        """Play what is scripted. True when the connection may go on."""
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        if self._token is not None and request.headers.get("authorization") != f"Bearer {self._token}":
            return _send(request, 401, {})
        if not request.path.partition("?")[0].endswith("/mcp/call"):
            return _send(request, 404, {})
        message = json.loads(body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        with self._changed:
            call = Call(message["method"], message["params"], headers, self._next(message["method"]))
            reply = self._played(call)
            self.requests.append(call)
            self._changed.notify_all()
        kind, _, detail = call.fault.partition("=")
        if kind in ("hang", "late"):
            self._ended.wait()
        if kind in ("hang", "late", "reset", "lost-reply"):
            reset(request.connection)
            return False
        if kind == "status":
            status, _, retry_after = detail.partition(" ")
            return _send(request, int(status), {}, retry_after)
        if kind == "failure":
            return _send(request, 200, {"success": False, "error": "it failed", "error_code": detail})
        return _send(request, 404 if "error" in reply and not self.semantic.knows(call.method) else 200, reply)

    def _next(self, method: str) -> str:
        return self._taken(None, method) or self._always

    def _taken(self, *wanted: str | None) -> str | None:
        """The first fault that was queued for one of those methods; None is for any."""
        with self._changed:
            for position, (method, fault) in enumerate(self._script):
                if method in wanted:
                    del self._script[position]
                    return fault
        return None

    def _played(self, call: Call) -> JsonObject:
        """The reply, after the effect if the fault lets it have one."""
        if call.fault not in ("ok", "lost-reply", "late"):
            return {}
        if not self.semantic.knows(call.method):
            return {"error": f"unknown method: {call.method}"}
        try:
            reply, changed = self.semantic.call(call.method, call.params)
        except Unable as problem:
            return {"success": False, "error": str(problem), "error_code": problem.code}
        if changed:
            self.effects.append(call)
        return reply


def _send(request: BaseHTTPRequestHandler, status: int, reply: JsonObject, retry_after: str = "") -> bool:
    body = json.dumps(reply).encode()
    head = [f"HTTP/1.1 {status} {responses.get(status, 'Unheard Of')}", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body)}", *([f"Retry-After: {retry_after}"] if retry_after else [])]
    request.wfile.write("\r\n".join([*head, "", ""]).encode() + body)
    return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def reset(connection: socket.socket) -> None:
    """Close with RST rather than FIN, as a crashed machine's router does."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
