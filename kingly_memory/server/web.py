"""The server over Streamable HTTP: one door in front of the SDK's application, on one port."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.hub.access import Refusal
from kingly_memory.hub.bodies import Bodies, call_sdk, refused
from kingly_memory.hub.listening import address, listener, quiet_server, stopped_by_signals
from kingly_memory.server.gate import Gate, check_bind, own_token, token_in
from kingly_memory.server.memory_server import MemoryServer

Run = Callable[[Coroutine[Any, Any, None]], object]

PATH = "/mcp"
_THE_GATE_DECIDES = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""Behind the door the SDK does not ask again: a second list of names would be another opinion."""


class Door:
    """An ASGI application that lets in whom the gate admits and hands on what can be read."""

    def __init__(self, inner: ASGIApp, gate: Gate, limit_bytes: int) -> None:
        self._inner = inner
        self._gate = gate
        self._bodies = Bodies(limit_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        request = Request(scope, receive)
        refusal = self._gate.refusal(request.headers)
        if refusal is None and scope["path"] == PATH and request.method != "POST":
            # There is no session, and so nothing that a stream opened with GET could ever bring.
            refusal = Refusal(405, "this server answers to POST alone; it keeps no session and opens no stream")
        if refusal is not None:
            await refused(refusal)(scope, receive, send)
            return
        async with self._bodies.arrived(request) as body:
            if isinstance(body, Refusal):
                await refused(body)(scope, receive, send)
            else:
                await call_sdk(self._inner, scope, body, receive, send)


def application(server: MemoryServer, gate: Gate) -> ASGIApp:
    """The server as an ASGI application. Replies are plain JSON and no session is kept, so that a server that was
    started again goes on where it was."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=server.longest_message_bytes,
        transport_security=_THE_GATE_DECIDES,
    )
    return Door(inner, gate, server.longest_message_bytes)


def serve(
    server: MemoryServer,
    home: Path,
    host: str,
    port: int,
    *,
    token: str | None,
    token_file: Path | None,
    allowed_hosts: Collection[str],
    run: Run,
) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 takes a free one; a line on standard output says which. Without a token,
    given or in a file, callers need the home's own.

    Raises InvalidSetting before anything is opened, StoreError when the home cannot be used.
    """
    given = token or (None if token_file is None else token_in(token_file))
    check_bind(host, token_given=given is not None, hosts=allowed_hosts)
    with ExitStack() as stack:
        taken = stack.enter_context(listener(host, port))
        known, place = (given, None) if given is not None else own_token(home)
        web = quiet_server(application(server, Gate.of(known, allowed_hosts)), lifespan=True)
        stack.enter_context(stopped_by_signals(web))
        if place is not None:
            sys.stderr.write(f"kingly-memory: callers need the bearer token in {place}\n")
            sys.stderr.flush()
        sys.stdout.write(f"kingly-memory listening on {address(host, taken.getsockname()[1])}{PATH}\n")
        sys.stdout.flush()
        run(web.serve(sockets=[taken]))
