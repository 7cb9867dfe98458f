"""MCP at `/mcp`: the same gate, limits and desk as the other dialect, in front of the SDK.

The SDK takes most of a second to load, so it is loaded in a thread when somebody first speaks MCP; a hub that nobody
speaks MCP to never loads it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.hub import json_rpc
from kingly_memory.hub.access import Access, Refusal
from kingly_memory.hub.bodies import Bodies, relayed
from kingly_memory.hub.desk import CALLER, Caller, Desk
from kingly_memory.observe import log

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_PATH = "/mcp"

_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}}


class McpFace:
    """An ASGI application for one path. Use it as `async with`; belongs to one event loop."""

    def __init__(self, desk: Desk, access: Access, bodies: Bodies, version: str) -> None:
        self._desk = desk
        self._access = access
        self._bodies = bodies
        self._version = version
        self._over = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._sdk: asyncio.Future[ASGIApp] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._serving is not None:
            await self._serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        namespace = self._access.admit(request.headers)
        if isinstance(namespace, Refusal):
            await _refused(namespace)(scope, receive, send)
            return
        if request.method != "POST":
            # There is no session, and so nothing that a stream opened with GET could ever bring.
            refusal = Refusal(405, "this hub answers to POST alone; it keeps no session and opens no stream")
            await _refused(refusal)(scope, receive, send)
            return
        async with self._bodies.arrived(request) as body:
            message = body if isinstance(body, Refusal) else await json_rpc.readable(body)
            if isinstance(message, Refusal):
                await _refused(message)(scope, receive, send)
                return
            sdk = await self._loaded()
            if isinstance(sdk, Refusal):
                await _refused(sdk)(scope, receive, send)
                return
            relayed_scope, replay = relayed(scope, message, receive)
            await sdk({**relayed_scope, CALLER: Caller.of(namespace, request.headers)}, replay, send)

    async def _loaded(self) -> ASGIApp | Refusal:
        """The SDK's application; the first who ask wait for it together, and what fails is tried again."""
        if find_spec("mcp") is None:
            return Refusal(501, "MCP needs the extra `mcp` of kingly-memory on this hub; POST /mcp/call answers")
        if self._over.is_set():
            return Refusal(503, "the hub is stopping")
        if self._sdk is None or (self._sdk.done() and self._sdk.exception() is not None):
            self._sdk = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._sdk), name="hub-mcp")
        try:
            return await asyncio.shield(self._sdk)
        except (ImportError, OSError) as error:
            log.error("HubMcpNotLoaded %s", type(error).__name__)
            return Refusal(503, "MCP cannot be loaded at the moment; POST /mcp/call answers")

    async def _serve(self, ready: asyncio.Future[ASGIApp]) -> None:
        """One task from beginning to end: the SDK's own tasks are ended where they were begun."""
        try:
            sdk = await to_thread.run_sync(self._load)
        except Exception as error:  # noqa: BLE001  # the top of a task: whoever waits is told
            ready.set_exception(error)
            return
        with _told_by_kind():
            async with sdk.run():
                ready.set_result(sdk.handle_request)
                await self._over.wait()

    def _load(self) -> StreamableHTTPSessionManager:
        from kingly_memory.hub.mcp_tools import sessions

        return sessions(self._desk, self._version)


class _Kinds(logging.Handler):
    """What the SDK has to say, by its kind: its texts may quote what was sent."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        log.warning("HubMcpTrouble %s %s", record.name, record.levelname if kind is None else kind.__name__)


@contextmanager
def _told_by_kind() -> Iterator[None]:
    library, handler = logging.getLogger("mcp"), _Kinds(logging.WARNING)
    library.addHandler(handler)
    library.propagate = False
    try:
        yield
    finally:
        library.propagate = True
        library.removeHandler(handler)


def _refused(refused: Refusal) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": json_rpc.INVALID_REQUEST, "message": refused.reason}}
    return Response(json.dumps(body), refused.status, _HEADERS.get(refused.status), "application/json")
