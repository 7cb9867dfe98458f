"""A stretch of network on loopback that can be cut, slowed or made to swallow everything. It knows bytes only."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

_PIECE_BYTES = 65_536
_ABRUPT = struct.pack("ii", 1, 0)
_FILLERS = 8
"""More than a backlog of nought takes in; the kernel drops the attempts beyond it, as an overrun machine does."""


class Network:
    """Forwards one port of its own to another. `cut`, `refuse`, `swallow` and `ignore` break it, `mend` repairs it."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self._fillers: list[socket.socket] = []
        self._swallowing = False
        self._bytes_per_s: float | None = None
        self._budget: int | None = None
        self._delay_s = 0.0
        self.port = 0

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        for thread in self._threads:
            thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset every connection there is; new ones go through."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def cut_after(self, reply_bytes: int) -> None:
        """Reset the connection once so many bytes of replies have passed, each time it is opened anew."""
        self._budget = reply_bytes
        self.cut()

    def refuse(self) -> None:
        """Nobody listens any more."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        self._let_go_of_fillers()
        self.cut()

    def swallow(self) -> None:
        """Take connections and bytes and let nothing through."""
        self._swallowing = True
        self.cut()

    def ignore(self) -> None:
        """Take no connection, not even to refuse it: the kernel's queue is full and stays so."""
        self.refuse()
        listener = _listening(self.port, backlog=0)
        self._listener = listener
        for _ in range(_FILLERS):
            filler = socket.socket()
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(("127.0.0.1", self.port))
            self._fillers.append(filler)

    def slow(self, *, delay_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Hold each piece back for so long, or let only so many bytes a second through."""
        self._delay_s, self._bytes_per_s = delay_s, bytes_per_s

    def mend(self) -> None:
        """As a network should be. The port stays the same."""
        self.refuse()
        self._swallowing, self._bytes_per_s, self._budget, self._delay_s = False, None, None, 0.0
        listener = _listening(self.port, backlog=128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._start(self._accept, listener)

    def _let_go_of_fillers(self) -> None:
        fillers, self._fillers = self._fillers, []
        for filler in fillers:
            filler.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]  # one of ours
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for one in (near, far):  # else the second piece of a reply waits 40 ms for an acknowledgement
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {near, far}
            self._start(self._forward, near, far, None)
            self._start(self._forward, far, near, self._budget)

    def _forward(self, source: socket.socket, target: socket.socket, budget: int | None) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if self._swallowing:
                    continue
                time.sleep(self._delay_s)
                if budget is not None and len(piece) >= budget:
                    target.sendall(piece[:budget])
                    break
                budget = None if budget is None else budget - len(piece)
                self._send(target, piece)
        self._close(source, target, abrupt=budget is not None)

    def _send(self, target: socket.socket, piece: bytes) -> None:
        while piece:
            rate = self._bytes_per_s  # looked at each time: the network may be mended meanwhile
            step = len(piece) if rate is None else max(1, int(rate / 50))
            target.sendall(piece[:step])
            if rate is not None:
                time.sleep(step / rate)
            piece = piece[step:]

    def _close(self, *connections: socket.socket, abrupt: bool) -> None:
        with self._lock:
            ours = [one for one in connections if one in self._open]
            self._open -= set(ours)
        for one in ours:
            with contextlib.suppress(OSError):
                if abrupt:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _listening(port: int, *, backlog: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(backlog)
    return listener
