"""The stdio transport: lines in, lines out, and an orderly end.

The SDK's own leaves a line that it cannot read without a reply, takes lines of any length, ends the process over an
answer that cannot be encoded, drops what is under way when input ends, and cannot be stopped while it waits for input.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from kingly_memory.server import frames

FINISH_S = 1.2
"""How long what is under way may go on when input ends or the process is told to stop."""
WRITE_S = 0.3
"""How long the last answers may wait for somebody to read them."""
MOST_WAITING = 64
"""Requests that may wait for their answers. The next one is taken when one of them has been answered, so that a host
which asks without reading fills its pipe and not our memory."""

_LOOK_S = 0.1
"""How often it is looked whether the host has gone, while nothing is read from it."""
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_CHUNK_BYTES = 65_536

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class TooLong(NamedTuple):
    """The ends of a line that is longer than it may be."""

    head: bytes
    tail: bytes


@asynccontextmanager
async def stdio_streams(limit_bytes: int) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Messages from standard input and to standard output, until input ends or SIGTERM comes.

    Meanwhile descriptor 0 is empty and descriptor 1 is standard error, so that nothing else gets into the protocol.
    """
    with _wire() as (source, sink):
        conversation = _Conversation(sink, limit_bytes)
        async with conversation.running(source):
            yield conversation.incoming, conversation.outgoing


class _Conversation:
    """Both directions of one connection, and which requests still wait for their answer."""

    def __init__(self, sink: int, limit_bytes: int) -> None:
        self._sink = sink
        self._limit_bytes = limit_bytes
        self._loop = asyncio.get_running_loop()
        self._arrived, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._answers = anyio.create_memory_object_stream[SessionMessage](0)
        self._refusals = self.outgoing.clone()
        self._waiting: Counter[object] = Counter()  # an id that is used again waits again
        self._changed = asyncio.Event()
        self._ended = False
        self._unread = False
        self._over = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="kingly-stdout")

    @asynccontextmanager
    async def running(self, source: int) -> AsyncIterator[None]:
        threading.Thread(target=self._read, args=(source,), name="kingly-stdin", daemon=True).start()
        ending = asyncio.create_task(self._end(), name="kingly-stdio-end")
        writing = asyncio.create_task(self._write(), name="kingly-stdio-write")
        try:
            with self._stopped_by_sigterm():
                yield
        finally:
            self._ended = True
            self._changed.set()
            ending.cancel()
            self._refusals.close()
            self.outgoing.close()
            await asyncio.wait([writing], timeout=WRITE_S)
            writing.cancel()
            await asyncio.gather(ending, writing, return_exceptions=True)
            for stream in (self._arrived, self.incoming, self.outgoing, self._answers):
                stream.close()
            self._writer.shutdown(wait=False)

    def _read(self, source: int) -> None:
        """The reading thread: hands over one line at a time, so that a flood waits in the pipe and not in memory."""
        with suppress(CancelledError, RuntimeError):  # the loop has ended, and nobody is left to hear
            try:
                for line in lines(source, self._limit_bytes):
                    self._hand_over(line, source)
            finally:
                self._loop.call_soon_threadsafe(self._hang_up, False)

    def _hand_over(self, line: bytes | TooLong, source: int) -> None:
        """While a line has to wait, the end of input behind it would not be seen; the operating system tells of it."""
        taking = asyncio.run_coroutine_threadsafe(self._take(line), self._loop)
        while not wait([taking], _LOOK_S).done:
            watching = select.poll()
            watching.register(source, _GONE)
            if any(happened & _GONE for _, happened in watching.poll(0)):
                self._loop.call_soon_threadsafe(self._hang_up, True)
                break
        taking.result()

    def _hang_up(self, unread: bool) -> None:
        """Input is over, or will be once what is still unread has been taken."""
        self._unread = unread
        self._over.set()
        self._changed.set()

    async def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            await self._refuse(frames.too_long(line.head, line.tail, self._limit_bytes))
            return
        try:
            message = frames.message(line)
        except frames.Unreadable as unreadable:
            await self._refuse(unreadable.reply)
            return
        if isinstance(message, JSONRPCRequest):
            await self._room()
        self._note(message)
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._arrived.send(SessionMessage(message))

    async def _room(self) -> None:
        while self._waiting.total() >= MOST_WAITING and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    async def _refuse(self, reply: JSONRPCError) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._refusals.send(SessionMessage(reply))

    def _note(self, message: JSONRPCMessage) -> None:
        """A request waits for its answer, until it is cancelled."""
        if isinstance(message, JSONRPCRequest):
            self._waiting[message.id] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answered((message.params or {}).get("requestId"))

    def _answered(self, request_id: object) -> None:
        if isinstance(request_id, str | int) and self._waiting[request_id] > 1:
            self._waiting[request_id] -= 1
        elif isinstance(request_id, str | int):
            del self._waiting[request_id]
        self._changed.set()

    async def _end(self) -> None:
        """When input is over, let what is under way come to its end; then the server is told."""
        await self._over.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                while self._waiting or self._unread:
                    self._changed.clear()
                    await self._changed.wait()
        self._arrived.close()

    async def _write(self) -> None:
        """Answers in their order; once nobody reads them any more they are dropped, and the connection ends."""
        heard = True
        async for answer in self._answers:
            heard = heard and await self._written(answer.message)
            if not heard:
                self._over.set()
            if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
                self._answered(answer.message.id)

    async def _written(self, message: JSONRPCMessage) -> bool:
        """False when nobody reads any more."""
        try:
            await self._loop.run_in_executor(self._writer, _write_all, self._sink, frames.line(message))
        except OSError:
            return False
        return True

    @contextmanager
    def _stopped_by_sigterm(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._loop.add_signal_handler(signal.SIGTERM, self._over.set)
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGTERM)


def lines(source: int, limit_bytes: int) -> Iterator[bytes | TooLong]:
    """The lines of a descriptor without their ends, blank ones left out; of one beyond the limit only its ends."""
    line = _Line(limit_bytes)
    while True:
        try:
            chunk = os.read(source, _CHUNK_BYTES)
        except OSError:  # the other side is gone
            chunk = b""
        if not chunk:
            break
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line.add(part)
            yield from line.taken()
        line.add(rest)
    yield from line.taken()


class _Line:
    """A line as it comes in, never longer in memory than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self._head: bytes | None = None

    def add(self, part: bytes) -> None:
        self._kept += part
        if len(self._kept) > self._limit_bytes or self._head is not None:
            self._head = self._head or bytes(self._kept[: frames.ENDS_BYTES])
            del self._kept[: -frames.ENDS_BYTES]

    def taken(self) -> Iterator[bytes | TooLong]:
        kept, head = bytes(self._kept), self._head
        self._kept.clear()
        self._head = None
        if head is not None:
            yield TooLong(head, kept)
        elif kept.strip():
            yield kept


def _write_all(sink: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(sink, rest) :]


@contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """Descriptors of our own for standard input and output, which are diverted meanwhile."""
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(empty, 1)
    os.close(empty)
    try:
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
