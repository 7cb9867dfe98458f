"""The hub's HTTP face: `POST /mcp/call`, MCP at `/mcp`, and `GET /health`. Blocking work runs in threads, so the loop
stays free."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NoReturn

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kingly_memory.errors import InvalidInput
from kingly_memory.hub.access import Access, Refusal
from kingly_memory.hub.bodies import Bodies
from kingly_memory.hub.desk import Caller, Desk, refusal
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.mcp_face import MCP_PATH, McpFace
from kingly_memory.models import JsonObject


class Door:
    """Lets callers in, hands their calls to the desk and puts the answers on the wire: the json-call dialect."""

    def __init__(self, desk: Desk, access: Access, bodies: Bodies, version: str) -> None:
        self._desk = desk
        self._access = access
        self._bodies = bodies
        self._version = version

    async def health(self, request: Request) -> Response:
        refused = self._access.refused(request.headers)
        if refused is not None:
            return _refused(refused)
        return _reply(200, {"status": "ok", "server": "kingly-hub", "version": self._version})

    async def call(self, request: Request) -> Response:
        namespace = self._access.admit(request.headers)
        if isinstance(namespace, Refusal):
            return _refused(namespace)
        async with self._bodies.arrived(request) as body:
            if isinstance(body, Refusal):
                return _refused(body)
            return await to_thread.run_sync(self._answer, Caller.of(namespace, request.headers), body)

    def _answer(self, caller: Caller, body: bytes) -> Response:
        """The answer to a call, in a worker thread. Whatever goes wrong is worded here and nothing of it escapes."""
        try:
            payload = _json(body)
            if not isinstance(payload, dict):
                raise InvalidInput("body", "expected a JSON object with method and params")
            return _reply(200, self._desk.answer(caller, payload.get("method"), payload.get("params")))
        except NotJson:
            return _refused(Refusal(400, "the body is not valid JSON"))
        except Exception as error:  # noqa: BLE001  # the last stop before the network: no detail may leave
            return _refused(refusal(error))


class NotJson(ValueError):
    """The body is no JSON that can be read."""


def application(engine: Engine, access: Access, version: str) -> Starlette:
    """The hub as an ASGI application. MCP is spoken while its lifespan lasts."""
    desk, bodies = Desk(engine), Bodies()
    door, face = Door(desk, access, bodies, version), McpFace(desk, access, bodies, version)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with face:
            yield

    routes = [
        Route("/mcp/call", door.call, methods=["POST"]),
        Route(MCP_PATH, face),
        Route(f"{MCP_PATH}/", face),
        Route("/health", door.health, methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_place}, lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would be an answer before the gate, to whatever name was called
    return app


async def _no_such_place(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    places = f"POST /mcp/call, MCP at {MCP_PATH} and GET /health"
    return _refused(Refusal(status, f"{HTTPStatus(status).phrase}; this hub answers {places}"))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise NotJson from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _reply(status: int, value: JsonObject, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type="application/json")


def _refused(refused: Refusal) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == HTTPStatus.UNAUTHORIZED else None
    facts = {} if refused.field is None else {"field": refused.field}
    return _reply(refused.status, {"success": False, "error": refused.reason, **facts}, headers)
