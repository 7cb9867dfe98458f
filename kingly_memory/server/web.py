"""The server over Streamable HTTP, on one port."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hub.access import Gate, Refusal
from kingly_memory.hub.bodies import Bodies, Door, refused
from kingly_memory.hub.listening import address, listener, quiet_server, stopped_by_signals
from kingly_memory.hub.traffic import Traffic
from kingly_memory.server.gate import TOKEN_FILE, access_of, kept_token, own_token
from kingly_memory.server.memory_server import MemoryServer

Run = Callable[[Coroutine[Any, Any, None]], object]

PATH = "/mcp"
HOST = "127.0.0.1"


def application(server: MemoryServer, gate: Gate) -> ASGIApp:
    """The server as an ASGI application. Replies are plain JSON and no session is kept, so that a server that was
    started again goes on where it was."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=server.longest_message_bytes,
        # The door decides who calls: a second list of names would be another opinion.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def sdk() -> ASGIApp:
        return inner

    door = Door(gate, Bodies(server.longest_message_bytes), sdk)
    traffic = Traffic("kingly_mcp", server.tool_names)

    async def metrics(headers: Headers) -> Response:
        """The counts for Prometheus, and what the memory holds."""
        caller = await gate.admit(headers)
        if isinstance(caller, Refusal):
            return refused(caller)
        try:
            status = await server.status()
        except KinglyMemoryError as error:
            return refused(Refusal(503, str(error)))
        memories = ("Live memories of the project.", status["memories"]["total"])
        waiting = ("Deliveries that wait for a remote.", status["outbox"]["pending"])
        return Response(traffic.text(memories=memories, outbox=waiting), media_type="text/plain; version=0.0.4")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        answering: ASGIApp = door if scope["type"] == "http" else inner
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/metrics"):
            answering = await metrics(Headers(scope=scope))
        await answering(scope, receive, send)

    return traffic.counting(answer)


def serve(
    server: MemoryServer,
    home: Path,
    port: int,
    *,
    token: str | None,
    run: Run,
) -> None:
    """Serve this machine until SIGTERM or SIGINT. Port 0 takes a free one; a line on standard output says which.
    Without a token callers need the home's own.

    Raises InvalidSetting before anything is opened, StoreError when the home cannot be used.
    """
    with ExitStack() as stack:
        taken = stack.enter_context(listener(HOST, port))
        place = None if token else own_token(home)[1]
        gate = Gate(lambda: access_of(token or kept_token(home / TOKEN_FILE)), [] if place is None else [place])
        web = quiet_server(application(server, gate), lifespan=True)
        stack.enter_context(stopped_by_signals(web))
        if place is not None:
            sys.stderr.write(f"kingly-memory: callers need the bearer token in {place}\n")
            sys.stderr.flush()
        sys.stdout.write(f"kingly-memory listening on {address(HOST, taken.getsockname()[1])}{PATH}\n")
        sys.stdout.flush()
        run(web.serve(sockets=[taken]))
