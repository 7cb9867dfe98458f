"""Listening on a port until a signal comes, and what one connection may take of the server meanwhile: what the hub and
the MCP server over HTTP share.

Uvicorn waits for ever for the end of a request's headers, and its `limit_concurrency` turns away those who ask while
those who only hold a connection stay. So its connections are extended here: each that has no request in progress has a
time limit, and where there are too many, one is closed for the newest: first of those that wait for a refusal, then of
those of a machine that has most of them, then the one that has had no request for longest.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidSetting
from kingly_memory.hub.access import REFUSED
from kingly_memory.observe import log

_GRACE_S = 10
"""Seconds that calls in progress may take once the port is closed."""
_WAITING_CALLS = 2_048
"""How many connections the system keeps until they are accepted. That takes 0.3 s; who finds no place tries again after
1 s."""
_PORTS = range(65_536)
_MOST_CONNECTIONS = 512
"""Agents keep one or two each. An idle one costs about 10 KB."""
_HEAD_S = 10.0
"""Headers are a few hundred bytes; whoever needs longer for them cannot send a body in its 30 s either."""
_FREE_CHUNKS = 256
_CHUNK_BYTES = 256
"""Reading a chunk takes the event loop 10 µs, however little is in it: 2.5 ms for those that are free, and 10 ms for as
many of this size as come in one read of 256 KiB. HTTP clients send chunks of 4 KiB and more."""

_CROWDED = "this server has as many calls in progress as it has room for; try again in a moment"
_SMALL_CHUNKS = "the body comes in too many small chunks; send it with its Content-Length, or in larger chunks"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, limits: Limits, may_close: Callable[[], bool] | None) -> None:
        super().__init__(config)
        self.server_state = Connections(limits)
        self._may_close = may_close

    async def on_tick(self, counter: int) -> bool:
        """Whether to close the port. A second Ctrl-C (`force_exit`) waits for nobody."""
        is_stopping = await super().on_tick(counter)
        return is_stopping and (self.force_exit or self._may_close is None or self._may_close())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            # Uvicorn has one number for what the system keeps and for what the event loop accepts in one turn.
            listening.listen(_WAITING_CALLS)


def quiet_server(
    application: ASGIApp,
    *,
    limits: Limits | None = None,
    lifespan: bool = False,
    may_close: Callable[[], bool] | None = None,
    tls: tuple[Path, Path] | None = None,
) -> uvicorn.Server:
    """Without uvicorn's access log, which repeats what callers wrote. A server that was told to stop goes on until
    `may_close` says True. `tls`: the files with certificate and key."""
    limits = Limits.of_this_process() if limits is None else limits
    config = uvicorn.Config(
        application,
        http=Connection,
        backlog=max(1, limits.connections // 4),  # accepted in one turn of the event loop, before any is closed
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on" if lifespan else "off",
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=tls and tls[0],
        ssl_keyfile=tls and tls[1],
    )
    return _Server(config, limits, may_close)


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


def address(host: str, port: int, scheme: str = "http") -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}"


# --- limits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """`connections`: the most at once. `head_s`: seconds from connecting, or from the last answer, to the end of the
    next request's headers; also for a caller to read on in an answer."""

    connections: int
    head_s: float = _HEAD_S

    @classmethod
    def of_this_process(cls) -> Limits:
        """Half of the files that the process may open at most: the store needs some, and so do connections that are
        accepted before the first of them is closed."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, files // 2)
        return cls(most)


class Connections(ServerState):
    """All connections of a server. `idle` are those without a request in progress, the longest so first."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits = limits
        self.idle: dict[Connection, None] = {}

    def make_room(self, newest: Connection) -> None:
        """Close connections that only wait for a refusal, and then those that have been idle for longest. When that is
        the newest, all others are at work, and it is refused. A machine that has more than half of all makes room
        first, and hangs up calls in progress for callers from elsewhere."""
        while len(self.connections) > self.limits.connections:
            there = [one for one in self.connections if isinstance(one, Connection)]
            waiting = (one for one in there if one.waits_for_refusal)
            machine, count = Counter(one.machine for one in there).most_common(1)[0]
            crowding = (one for one in (*self.idle, *there) if one.machine == machine)
            oldest = next(waiting, None) or next(crowding if count > len(there) / 2 else iter(self.idle))
            if oldest is newest:
                log.warning("CallRefused 503: %d calls are in progress", self.limits.connections)
                newest.refuse("503 Service Unavailable", _CROWDED)
                return
            log.warning("ConnectionClosed: more than %d connections are open", self.limits.connections)
            self.forget(oldest)
            oldest.transport.abort()

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.idle.pop(connection, None)


class _Reading(h11.Connection):
    """Reads requests, and ends one whose body comes in too many small chunks."""

    has_small_chunks = False
    _chunks = 0
    _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            if event.chunk_start and self._chunks >= _FREE_CHUNKS and self._bytes < self._chunks * _CHUNK_BYTES:
                self.has_small_chunks = True
                raise h11.RemoteProtocolError(_SMALL_CHUNKS)
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
        return event


class Connection(H11Protocol):
    """One connection, which is idle but from the end of a request's headers to the end of its answer."""

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = self._reading = _Reading(h11.SERVER)
        self._all = server_state
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._rest()
        self._all.make_room(self)

    @property
    def machine(self) -> str | None:
        """The address that it comes from."""
        return None if self.client is None else self.client[0]

    @property
    def waits_for_refusal(self) -> bool:
        """Whether the caller of its last request was not let in: with a wrong token one waits before one is told."""
        return REFUSED in (self.scope or ())

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._all.idle.pop(self, None)
            if not self.flow.write_paused:
                self._disarm()

    def on_response_complete(self) -> None:
        self._rest()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self not in self._all.idle:
            self._disarm()

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's own fails when the answer to this request has begun or is sent."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
        else:
            self.refuse("400 Bad Request", _SMALL_CHUNKS if self._reading.has_small_chunks else msg)

    def refuse(self, status: str, sentence: str) -> None:
        """Answer and hang up. What still comes is thrown away until the time limit: a sender who is cut off may never
        see the answer."""
        self._is_refused = True
        if self.cycle is not None:  # let nothing more be said to the caller
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = f"{sentence}\n".encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self._rest()

    def _rest(self) -> None:
        self._all.idle.pop(self, None)
        self._all.idle[self] = None
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(self._all.limits.head_s, self.overdue)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def overdue(self) -> None:
        """End the connection, unless the caller has read on in an answer since its time began."""
        if 0 < self.transport.get_write_buffer_size() < self._unsent_bytes:
            self._arm()
        else:
            self.transport.abort()
