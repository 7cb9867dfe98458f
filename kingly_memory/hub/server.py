"""The hub's HTTP face: `POST /mcp/call`, MCP at `/mcp`, and what its operator asks with GET. What blocks or takes long
runs in threads, so the loop stays free."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from kingly_memory.errors import InvalidInput
from kingly_memory.hub.access import CALLER, Caller, Gate, Refusal
from kingly_memory.hub.bodies import Bodies, Door
from kingly_memory.hub.engine import Engine, answered, refusal
from kingly_memory.hub.homes import Homes
from kingly_memory.hub.methods import METHODS
from kingly_memory.hub.traffic import METHOD, PAGE, Traffic
from kingly_memory.models import JsonObject
from kingly_memory.observe import log
from kingly_memory.ports import LocalStore

MCP_PATH = "/mcp"

_WATCHED_S = 60.0
_WATCHED = 3
"""Whoever asked `/ready` so often within this time asks again, as a proxy does; a person asks once or twice."""
_BAD_ANSWERS = 3
"""Proxies take a server out after one to three bad answers."""
_LONGEST_S = 10.0


class Overseen(NamedTuple):
    """A running hub, as the page for its operator is given it. `home` is its folder, and `where` says where its
    memories lie, without a password."""

    store: LocalStore
    where: str
    homes: Homes
    gate: Gate
    traffic: Traffic
    home: Path
    version: str


def application(
    engine: Engine,
    gate: Gate,
    version: str,
    *,
    traffic: Traffic | None = None,
    draining: Draining | None = None,
    page: Sequence[Route] = (),
) -> Starlette:
    """The hub as an ASGI application. `traffic` counts its calls, `draining` says when it is to stop, and `page` are
    the places of a page about the hub, which lets in whom it likes."""
    traffic = Traffic("kingly_hub", METHODS) if traffic is None else traffic
    draining = Draining() if draining is None else draining
    bodies = Bodies()
    door = Door(gate, bodies, _mcp(engine, version))

    async def health(request: Request) -> Response:
        gate.access.check_names(request.headers)
        said = {"status": "ok", "server": "kingly-hub", "version": version, "embedder": engine.embedder}
        return _reply(200, said)

    async def ready(request: Request) -> Response:
        gate.access.check_names(request.headers)
        if draining.asked(again="once" not in request.query_params):  # as `hub status` asks
            raise Refusal(503, "the hub is stopping; calls are answered until it closes its port")
        return await to_thread.run_sync(_ready, engine)

    async def metrics(request: Request) -> Response:
        await gate.admit(request.headers, request.scope)
        return Response(traffic.text(), media_type="text/plain; version=0.0.4")

    async def call(request: Request) -> Response:
        request.scope[CALLER] = caller = await gate.admit(request.headers, request.scope)
        async with bodies.arrived(request) as body:
            return await _answer(engine, caller, body, request.scope)

    routes = [
        Route("/mcp/call", call, methods=["POST"]),
        Route(MCP_PATH, door),
        Route(f"{MCP_PATH}/", door),
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        *page,
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _no_such_place, Refusal: _refused},
        middleware=[Middleware(traffic.counting)],
        lifespan=_quiet_sdk,
    )
    app.router.redirect_slashes = False  # a redirect would be an answer before the gate, to whatever name was called
    return app


# --- /mcp/call --------------------------------------------------------------------------------------------------------


def _ready(engine: Engine) -> Response:
    """Whether the store can be read, in a worker thread. No write: whoever asks needs no token. Raises Refusal."""
    try:
        engine.check_store()
    except Exception as error:  # noqa: BLE001  # the last stop before the network: no detail may leave
        raise refusal(error) from None
    return _reply(200, {"status": "ready"})


async def _answer(engine: Engine, caller: Caller, body: bytes, scope: Scope) -> Response:
    """The answer to a call. Whatever goes wrong is worded here: raises Refusal and nothing else."""
    try:
        payload = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not valid JSON") from None
    try:
        if not isinstance(payload, dict):
            raise InvalidInput("body", "expected a JSON object with method and params")
        scope[METHOD]["name"] = payload.get("method")
        method, params = payload.get("method"), payload.get("params")
        return await answered(engine, caller, method, params, size=len(body), worded=partial(_reply, 200))
    except Exception as error:  # noqa: BLE001  # the last stop before the network: no detail may leave
        raise refusal(error) from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


async def _no_such_place(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    places = f"POST /mcp/call, MCP at {MCP_PATH} and GET /health, /ready, /metrics and {PAGE}"
    return await _refused(request, Refusal(status, f"{HTTPStatus(status).phrase}; this hub answers {places}"))


def _reply(status: int, value: JsonObject, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type="application/json")


async def _refused(_: Request, refused: Any) -> Response:
    """A refusal in the words of json-call."""
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == HTTPStatus.UNAUTHORIZED else {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    facts = {} if refused.field is None else {"field": refused.field}
    return _reply(refused.status, {"success": False, "error": refused.reason, **facts}, headers)


# --- stopping ---------------------------------------------------------------------------------------------------------


class Draining:
    """When a hub that was told to stop closes its port. A proxy in front of several hubs is told first, by 503 at
    `/ready`, and calls are answered until it has heard: then none of them meets a closed port. A hub that nobody
    watches closes its port at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._asked_s = deque[float](maxlen=_WATCHED)
        self._since_s: float | None = None
        self._bad_answers = 0

    def asked(self, *, again: bool = True) -> bool:
        """Note that somebody asks whether the hub is ready, and does so `again`. True where it is to stop."""
        if again:
            self._asked_s.append(self._monotonic())
            self._bad_answers += self._since_s is not None
        return self._since_s is not None

    def is_over(self) -> bool:
        """Whether the port may be closed. The first question begins the draining."""
        now_s = self._monotonic()
        if self._since_s is None:
            self._since_s = now_s
        is_watched = len(self._asked_s) == _WATCHED and now_s - self._asked_s[0] < _WATCHED_S
        return not is_watched or self._bad_answers >= _BAD_ANSWERS or now_s - self._since_s >= _LONGEST_S


# --- MCP --------------------------------------------------------------------------------------------------------------


def _mcp(engine: Engine, version: str) -> Callable[[], Awaitable[ASGIApp]]:
    """What gives the SDK's application. It takes most of a second to load, so that is done in a thread when somebody
    first speaks MCP, and never where nobody does; what fails is tried again."""
    loaded: ASGIApp | None = None

    async def sdk() -> ASGIApp:
        nonlocal loaded
        if loaded is not None:
            return loaded
        if find_spec("mcp") is None:
            raise Refusal(501, "MCP needs the extra `mcp` of kingly-memory on this hub; POST /mcp/call answers")
        try:
            loaded = await to_thread.run_sync(load_mcp, engine, version)
        except (ImportError, OSError) as error:
            log.error("HubMcpNotLoaded %s", type(error).__name__)
            raise Refusal(503, "MCP cannot be loaded at the moment; POST /mcp/call answers") from None
        return loaded

    return sdk


def load_mcp(engine: Engine, version: str) -> ASGIApp:
    """Python loads a module once, however many ask for it at the same time."""
    from kingly_memory.hub.mcp_tools import application

    return application(engine, version)


class _Kinds(logging.Handler):
    """What the SDK has to say, by its kind: its texts may quote what was sent."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        log.warning("HubMcpTrouble %s %s", record.name, record.levelname if kind is None else kind.__name__)


@asynccontextmanager
async def _quiet_sdk(_: Starlette) -> AsyncIterator[None]:
    library, handler = logging.getLogger("mcp"), _Kinds(logging.WARNING)
    library.addHandler(handler)
    library.propagate = False
    try:
        yield
    finally:
        library.propagate = True
        library.removeHandler(handler)
