"""Listening on a port until a signal comes: what the hub and the MCP server over HTTP share."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from kingly_memory.errors import InvalidSetting
from kingly_memory.hub.limits import Connection, Connections, Limits

_GRACE_S = 1
"""Seconds that open calls may take after the server was told to stop."""
_WAITING_CALLS = 2_048
"""How many connections the system keeps until they are accepted. That takes 0.3 s; who finds no place tries again after
1 s."""
_PORTS = range(65_536)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.server_state = Connections(limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            # Uvicorn has one number for what the system keeps and for what the event loop accepts in one turn.
            listening.listen(_WAITING_CALLS)


def quiet_server(application: ASGIApp, *, limits: Limits | None = None, lifespan: bool = False) -> uvicorn.Server:
    """Without an access log: what is called, and by whom, is nobody's business."""
    limits = Limits.of_this_process() if limits is None else limits
    config = uvicorn.Config(
        application,
        http=Connection,
        backlog=limits.accepted_at_once,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on" if lifespan else "off",
        timeout_graceful_shutdown=_GRACE_S,
    )
    return _Server(config, limits)


@contextmanager
def listener(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that already queues connections, so that `ready` never lies."""
    if port not in _PORTS:
        raise InvalidSetting("port", f"{port} is outside 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small replies at once (TCP_NODELAY) only on sockets that name their protocol.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, port))
        except OSError as error:
            problem = f"{host}:{port} cannot be listened on ({error.strerror}); name another host or port"
            raise InvalidSetting("port", problem) from None
        taken.listen(_WAITING_CALLS)
        yield taken


@contextmanager
def stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Uvicorn raises the signals it caught once more when it has stopped; that must not end us before the store is
    closed, and one that comes before it listens must not be lost."""

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_with_input(server: uvicorn.Server) -> None:
    """Let the end of standard input stop the server: whoever started it holds the other end, and may be killed."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock a process that stops otherwise would wait for
            pass
        server.should_exit = True

    threading.Thread(target=wait, name="hub-input", daemon=True).start()


def address(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
