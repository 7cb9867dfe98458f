"""The server over Streamable HTTP, on one port, for callers with the token, under a name of this machine."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.adapters.local.folder import Folder
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.home.own_files import check_no_link, writing_to
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.access import Access, Gate, Refusal, check_token
from kingly_memory.hub.bodies import Bodies, Door, refused
from kingly_memory.hub.grants import Grant, digest
from kingly_memory.hub.listening import address, listener, quiet_server, stopped_by_signals
from kingly_memory.hub.traffic import Traffic
from kingly_memory.server.memory_server import LONGEST_MESSAGE_BYTES, MemoryServer

Run = Callable[[Coroutine[Any, Any, None]], object]

PATH = "/mcp"
HOST = "127.0.0.1"
TOKEN_FILE = "mcp-token"  # noqa: S105  # its name
_TOKEN_BYTES = 32


def application(server: MemoryServer, gate: Gate) -> ASGIApp:
    """The server as an ASGI application. Replies are plain JSON and no session is kept, so that a server that was
    started again goes on where it was."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=LONGEST_MESSAGE_BYTES,
        # The door decides who calls: a second list of names would be another opinion.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def sdk() -> ASGIApp:
        return inner

    door = Door(gate, Bodies(LONGEST_MESSAGE_BYTES), sdk)
    traffic = Traffic("kingly_mcp", server.tool_names)

    async def metrics(scope: Scope) -> Response:
        """The counts for Prometheus, and what the memory holds."""
        try:
            await gate.admit(Headers(scope=scope), scope)
            status = await server.status()
        except Refusal as refusal:
            return refused(refusal)
        except KinglyMemoryError as error:
            return refused(Refusal(503, str(error)))
        memories = ("Live memories of the project.", status["memories"]["total"])
        waiting = ("Deliveries that wait for a remote.", status["outbox"]["pending"])
        return Response(traffic.text(memories=memories, outbox=waiting), media_type="text/plain; version=0.0.4")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        answering: ASGIApp = door if scope["type"] == "http" else inner
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/metrics"):
            answering = await metrics(scope)
        await answering(scope, receive, send)

    return traffic.counting(answer)


def serve(server: MemoryServer, home: Path, port: int, *, token: str | None, run: Run) -> None:
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


# --- the token --------------------------------------------------------------------------------------------------------


def access_of(token: str) -> Access:
    """Lets in who brings the token, under a name of this machine. Raises InvalidSetting, which never repeats it."""
    check_token(token)
    return Access({digest(token): Grant("the token")}, is_local=True, remedy="call it by a name of its own machine")


def own_token(home: Path) -> tuple[str, Path]:
    """The home's own token, made at the first call, and the file it is in. Raises InvalidSetting or StoreError."""
    path = home / TOKEN_FILE
    Folder(home).make()
    check_no_link(path)
    if not path.exists():
        with writing_to(home):
            _write_once(path, secrets.token_urlsafe(_TOKEN_BYTES))
    return kept_token(path), path


def kept_token(path: Path) -> str:
    """The token in a home's file, which is never made here: a home that was moved away stays away. Raises
    InvalidSetting or StoreError."""
    check_no_link(path)
    return secret(path, TOKEN_FILE)


def _write_once(path: Path, token: str) -> None:
    """Complete from the first moment, and only where there is none yet: two servers may begin at the same time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink()
