"""The hub's HTTP face: `POST /mcp/call` and `GET /health`. Blocking work runs in threads, so the loop stays free."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import unquote

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kingly_memory import intake
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.hub.access import Access, Refusal
from kingly_memory.hub.engine import Engine, UnknownMemory, scope_name
from kingly_memory.hub.requests import UnknownMethod, parsed
from kingly_memory.models import JsonObject
from kingly_memory.observe import log

BODY_LIMIT_BYTES = 8 * 1024 * 1024
"""A memory of 1 MiB may grow sixfold when it is written as JSON inside JSON."""
DEFAULT_PROJECT = "default"

_DRAINED_BYTES = 64 * 1024 * 1024
"""What is read of a body that is too long before the answer: a sender who is cut off mid-body may never see it."""
_BODY_S = 30.0
"""Seconds for a body to arrive."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it came in, before anything of it is believed."""

    namespace: str
    headers: Mapping[str, str]
    body: bytes


class Door:
    """Lets callers in, hands their calls to the engine and words the answers."""

    def __init__(self, engine: Engine, access: Access, version: str) -> None:
        self._engine = engine
        self._access = access
        self._version = version

    async def health(self, request: Request) -> Response:
        refusal = self._access.refused(request.headers)
        if refusal is not None:
            return _refused(refusal)
        return _reply(200, {"status": "ok", "server": "kingly-hub", "version": self._version})

    async def call(self, request: Request) -> Response:
        namespace = self._access.admit(request.headers)
        if isinstance(namespace, Refusal):
            return _refused(namespace)
        try:
            body = await _body(request)
        except TimeoutError:
            return _refused(Refusal(408, f"the body did not arrive within {_BODY_S:.0f} s"))
        if body is None:
            return _refused(Refusal(413, f"the body is longer than {BODY_LIMIT_BYTES:,} bytes"))
        call = Call(namespace, request.headers, body)
        return await to_thread.run_sync(self._answer, call)

    def _answer(self, call: Call) -> Response:
        """The answer to a call, in a worker thread. Whatever goes wrong is worded here and nothing of it escapes."""
        try:
            return _reply(200, self._answered(call))
        except NotJson:
            return _refused(Refusal(400, "the body is not valid JSON"))
        except UnknownMethod as error:
            return _refused(Refusal(404, str(error)))
        except UnknownMemory as error:
            return _refused(Refusal(404, str(error)))
        except InvalidInput as error:
            return _refused(Refusal(422, str(error)), field=error.field)
        except StoreError as error:
            log.error("HubStoreFailed %s", type(error).__name__)
            return _refused(Refusal(503, "the hub's store cannot be used at the moment; nothing was changed"))
        except Exception as error:  # noqa: BLE001  # the last stop before the network: no detail may leave
            log.error("HubCallFailed %s", type(error).__name__)
            return _refused(Refusal(500, "internal error"))

    def _answered(self, call: Call) -> JsonObject:
        payload = _json(call.body)
        if not isinstance(payload, dict):
            raise InvalidInput("body", "expected a JSON object with method and params")
        key = call.headers.get("idempotency-key")
        request = parsed(payload.get("method"), payload.get("params"), None if key is None else unquote(key))
        return self._engine.answer(scope_name(call.namespace, _project(call.headers)), request)


class NotJson(ValueError):
    """The body is no JSON that can be read."""


def application(engine: Engine, access: Access, version: str) -> Starlette:
    """The hub as an ASGI application."""
    door = Door(engine, access, version)
    routes = [Route("/mcp/call", door.call, methods=["POST"]), Route("/health", door.health, methods=["GET"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_place})


async def _no_such_place(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _refused(Refusal(status, f"{HTTPStatus(status).phrase}; this hub answers POST /mcp/call and GET /health"))


async def _body(request: Request) -> bytes | None:
    """The request's body, or None when it is too long. Raises TimeoutError."""
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
    return b"".join(chunks) if size <= BODY_LIMIT_BYTES else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise NotJson from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _project(headers: Mapping[str, str]) -> str:
    named = headers.get("kingly-project")
    return DEFAULT_PROJECT if named is None else intake.label("Kingly-Project", unquote(named)) or DEFAULT_PROJECT


def _reply(status: int, value: JsonObject, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type="application/json")


def _refused(refusal: Refusal, **facts: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == HTTPStatus.UNAUTHORIZED else None
    return _reply(refusal.status, {"success": False, "error": refusal.reason, **facts}, headers)
