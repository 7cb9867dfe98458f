"""Running the hub: one process, one home, one port, until it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.adapters.local.folder import try_lock
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidSetting, StoreUnwritable
from kingly_memory.hub.access import Access
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.server import application
from kingly_memory.settings import user_data_folder
from kingly_memory.version import __version__

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000

_GRACE_S = 1
"""Seconds that open calls may take after the hub was told to stop."""
_WAITING_CALLS = 512
_PORTS = range(65_536)


def run_hub(
    home: Path | None = None,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    token: str | None = None,
    tokens_file: Path | None = None,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 takes a free one; a line on standard output says which.

    `ready` is called with the port as soon as calls are accepted. Off loopback a token is required. Raises
    InvalidSetting before anything is opened, StoreError when the home cannot be used.
    """
    access = Access.of(token, tokens_file)
    access.check_bind(host)
    folder = default_home() if home is None else home
    with ExitStack() as stack:
        stack.enter_context(_alone_in(folder))
        store = DiskStore(folder)
        stack.callback(store.close)
        listener = stack.enter_context(_listener(host, port))
        engine = Engine(store, HashedEmbedder(), SystemClock(), __version__)
        server = _quiet_server(application(engine, access, __version__))
        stack.enter_context(_stopped_by_signals(server))
        _announce(host, listener.getsockname()[1], ready)
        server.run(sockets=[listener])


def default_home() -> Path:
    """The hub serves many projects, so it lives with the user and not in one of them."""
    return user_data_folder() / "hub"


def _quiet_server(hub: Starlette) -> uvicorn.Server:
    """Without an access log: what is called, and by whom, is nobody's business."""
    config = uvicorn.Config(
        hub,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
    )
    return uvicorn.Server(config)


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    """A second hub on one home would search vectors that it has not seen change."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = try_lock(home / "hub.lock")
    except OSError as error:
        raise StoreUnwritable(str(home), error.strerror or "error") from error
    if descriptor is None:
        raise InvalidSetting("home", f"{home} is being served by another hub; stop that one or name another home")
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _listener(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that already queues connections, so that `ready` never lies."""
    if port not in _PORTS:
        raise InvalidSetting("port", f"{port} is outside 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small replies at once (TCP_NODELAY) only on sockets that name their protocol.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise InvalidSetting("port", f"{host}:{port} cannot be listened on ({error.strerror})") from None
        listener.listen(_WAITING_CALLS)
        yield listener


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
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


def _announce(host: str, port: int, ready: Callable[[int], None] | None) -> None:
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"kingly-hub listening on http://{name}:{port}\n")
    sys.stdout.flush()
    if ready is not None:
        ready(port)
