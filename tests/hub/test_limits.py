"""What callers can take of the hub and of the MCP server over HTTP: connections, time, chunks, memory, lines of log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from errno import EADDRNOTAVAIL
from pathlib import Path
from socket import create_connection, socket
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kingly_memory.hub import bodies as bodies_module
from kingly_memory.hub.access import Access, Gate, Refusal
from kingly_memory.hub.bodies import Bodies
from kingly_memory.hub.listening import Limits, listener, quiet_server
from kingly_memory.hub.logs import warnings_to_stderr
from tests.cli_runner import environment

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TOKEN = "t0ken-of-the-test"
LONG = b"x" * 50_000_000
"""Longer than what two sockets keep."""


class Caller:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def status(self) -> int:
        """That of the next answer, whose body is read too."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.said = (await self._reader.readexactly(length)).decode()
        return int(head.split()[1])

    async def take(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        with suppress(ConnectionResetError):
            return await self._reader.read()
        return b""

    def hang_up(self) -> None:
        self._writer.transport.abort()


class Served:
    """A server in this event loop, and connections to it."""

    def __init__(self, port: int, connections: Collection[Any]) -> None:
        self.connections = connections
        self._port = port
        self._callers: list[Caller] = []

    async def caller(self, machine: str = "127.0.0.1") -> Caller:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(machine, 0))
        except OSError as error:
            if error.errno != EADDRNOTAVAIL:
                raise
            pytest.skip(f"this system has no address {machine}")
        self._callers.append(Caller(reader, writer))
        return self._callers[-1]

    async def a_time_limit(self) -> None:
        """The time that a connection may be idle, as the server sees it: no clock but its own."""
        assert await (await self.caller()).rest() == b""

    def hang_up(self) -> None:
        for caller in self._callers:
            caller.hang_up()


@asynccontextmanager
async def serving(application: ASGIApp, *, connections: int = 100, head_s: float = 60.0) -> AsyncIterator[Served]:
    with listener("127.0.0.1", 0) as taken:
        server = quiet_server(application, limits=Limits(connections, head_s))
        running = asyncio.create_task(server.serve(sockets=[taken]))
        served = Served(taken.getsockname()[1], server.server_state.connections)
        try:
            yield served
        finally:
            served.hang_up()
            server.should_exit = True
            await running


def answering(answer: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await (await answer(Request(scope, receive)))(scope, receive, send)

    return application


@answering
async def at_once(_: Request) -> Response:
    return Response(b"here")


class Slow:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.release()
        await self.go_on.wait()
        await Response(b"done")(scope, receive, send)


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A4")
@pytest.mark.parametrize("sent", [b"", b"G", GET[:-2], b"POST / HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_a_connection_whose_request_does_not_come_is_closed(sent: bytes) -> None:
    async with serving(at_once, head_s=0.05) as served:
        caller = await served.caller()
        await caller.send(sent)
        assert await caller.rest() == b""


@pytest.mark.requirement("A4")
@pytest.mark.parametrize("sent", [b"", b"G"])
async def test_a_connection_whose_next_request_does_not_come_is_closed(sent: bytes) -> None:
    async with serving(at_once, head_s=0.05) as served:
        caller = await served.caller()
        await caller.send(GET)
        assert await caller.status() == 200
        await caller.send(sent)
        assert await caller.rest() == b""


async def test_a_call_in_progress_has_all_the_time_it_needs() -> None:
    slow = Slow()
    async with serving(slow, head_s=0.05) as served:
        caller = await served.caller()
        await caller.send(GET)
        await slow.begun.acquire()
        await served.a_time_limit()
        slow.go_on.set()
        assert await caller.status() == 200


async def test_a_caller_who_does_not_read_the_answer_is_left_after_the_time_limit() -> None:
    async with serving(Response(LONG), head_s=0.05) as served:
        caller = await served.caller()
        await caller.send(GET)
        await caller.take(1)
        for _ in range(3):
            await served.a_time_limit()
        assert len(await caller.rest()) < len(LONG)


async def test_a_caller_who_reads_a_long_answer_slowly_gets_all_of_it() -> None:
    async with serving(Response(LONG)) as served:
        caller = await served.caller()
        await caller.send(GET)
        for _ in range(4):
            await caller.take(10_000_000)
            for connection in served.connections:
                connection.overdue()
        assert (await caller.take(len(LONG) - 40_000_000)).strip(LONG[:1]) == b""


@pytest.mark.requirement("A15")
async def test_a_body_that_does_not_arrive_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "_BODY_S", 0.05)
    async with serving(reading(Bodies())) as served:
        caller = await served.caller()
        await caller.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhalf")
        assert await caller.status() == 408


# --- a crowd ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A4")
async def test_where_too_many_connections_are_open_the_longest_idle_one_is_closed_for_the_newest() -> None:
    slow = Slow()
    async with serving(slow, connections=4) as served:
        working = await served.caller()
        await working.send(GET)
        await slow.begun.acquire()
        first, second, third, newest = [await served.caller() for _ in range(4)]
        assert await first.rest() == b""
        slow.go_on.set()
        for caller in (second, third, newest):
            await caller.send(GET)
            assert await caller.status() == 200
        assert await working.status() == 200


@pytest.mark.requirement("A19")
async def test_callers_who_wait_for_a_refusal_keep_nobody_out_who_is_let_in() -> None:
    at_the_gate, never = asyncio.Semaphore(0), asyncio.Event()

    async def sleep(_: float) -> None:
        at_the_gate.release()
        await never.wait()

    gate = Gate(lambda: Access.of(TOKEN, None), sleep=sleep)

    @answering
    async def guarded(request: Request) -> Response:
        await gate.admit(request.headers, request.scope)
        return Response(b"here")

    right = GET[:-2] + b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    async with serving(guarded, connections=3) as served:
        known = await served.caller()
        await known.send(right)
        assert await known.status() == 200
        guessing = [await served.caller() for _ in range(2)]
        for caller in guessing:
            await caller.send(GET)
            await at_the_gate.acquire()
        for _ in range(2):
            new = await served.caller()
            await new.send(right)
            assert await new.status() == 200
        await known.send(right)
        assert await known.status() == 200
        for caller in guessing:
            assert await caller.rest() == b""
        never.set()


@pytest.mark.requirement("A4")
async def test_a_machine_that_has_most_connections_keeps_nobody_else_out() -> None:
    slow = Slow()

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        await (at_once if scope["path"] == "/quick" else slow)(scope, receive, send)

    quick = GET.replace(b"/ ", b"/quick ")
    async with serving(both, connections=4) as served:
        known = await served.caller()
        await known.send(quick)
        assert await known.status() == 200
        crowd = [await served.caller("127.0.0.2") for _ in range(4)]
        for caller in crowd[1:]:
            await caller.send(GET)
            await slow.begun.acquire()
        for caller in (known, await served.caller()):
            await caller.send(quick)
            assert await caller.status() == 200
        slow.go_on.set()
        said = await asyncio.gather(*(caller.status() for caller in crowd), return_exceptions=True)
        assert said.count(200) == 2  # one that was idle and one at work made room


async def test_a_connection_that_has_just_been_used_is_not_the_longest_idle_one() -> None:
    async with serving(at_once, connections=2) as served:
        used, unused = await served.caller(), await served.caller()
        for caller in (unused, used):
            await caller.send(GET)
            assert await caller.status() == 200
        await served.caller()
        assert await unused.rest() == b""
        await used.send(GET)
        assert await used.status() == 200


@pytest.mark.requirement("A4")
async def test_where_every_connection_is_at_work_a_new_one_is_told_so_at_once() -> None:
    slow = Slow()
    async with serving(slow, connections=2) as served:
        working = [await served.caller() for _ in range(2)]
        for caller in working:
            await caller.send(GET)
            await slow.begun.acquire()
        for _ in range(5):
            refused = await served.caller()
            assert (await refused.status(), await refused.rest()) == (503, b"")
            assert "try again" in refused.said
        slow.go_on.set()
        assert [await caller.status() for caller in working] == [200, 200]


def command(face: str, home: Path) -> list[str]:
    verb = ["hub"] if face == "hub" else ["mcp", "--http"]
    limited = ["sh", "-c", 'ulimit -n 128; exec "$@"', "sh"]  # files that the server may open
    return [*limited, sys.executable, "-m", "kingly_memory", *verb, "--port", "0", "--home", str(home)]


@contextmanager
def unread_pipe() -> Iterator[int]:
    """The writing end of a pipe that is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    try:
        yield writing
    finally:
        os.close(writing)
        os.close(reading)


@contextmanager
def crowd(port: int) -> Iterator[list[socket]]:
    """Many more idle connections than the server may open files."""
    with ExitStack() as stack:
        yield [stack.enter_context(create_connection(("127.0.0.1", port), timeout=60)) for _ in range(400)]


@contextmanager
def limited(face: str, home: Path, stderr: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    changes = {"KINGLY_HUB_TOKEN": TOKEN, "KINGLY_MCP_TOKEN": TOKEN}
    with subprocess.Popen(
        command(face, home), stdout=subprocess.PIPE, stderr=stderr, text=True, env=dict(environment(**changes))
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.kill()


def call(face: str, url: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(trust_env=False, headers=headers, timeout=60) as web:
        if face == "hub":
            return web.post(f"{url}/mcp/call", json={"method": "search_semantic_memories", "params": {"query": "tea"}})
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}}
        return web.post(url, json=message)


@pytest.mark.requirement("A4")
@pytest.mark.parametrize("face", ["hub", "mcp"])
def test_a_crowd_of_idle_connections_keeps_nobody_out_though_nobody_reads_the_log(face: str, tmp_path: Path) -> None:
    with unread_pipe() as stderr, limited(face, tmp_path / "home", stderr) as (_, url):
        with crowd(httpx.URL(url).port or 0):
            assert call(face, url).status_code == 200
        assert call(face, url).status_code == 200


@pytest.mark.requirement("A4")
@pytest.mark.parametrize("face", ["hub", "mcp"])
def test_a_crowd_of_idle_connections_is_two_lines_of_log(face: str, tmp_path: Path) -> None:
    with limited(face, tmp_path / "home", subprocess.PIPE) as (process, url):
        with crowd(httpx.URL(url).port or 0):
            assert call(face, url).status_code == 200
        process.terminate()
        lines = process.communicate(timeout=60)[1].splitlines()
    assert len(lines) == 2
    assert lines[0] == "kingly-memory: ConnectionClosed: more than 64 connections are open"
    assert lines[1].startswith(f"{lines[0]} (")
    assert lines[1].endswith(" more since)")


@pytest.mark.requirement("A4")
def test_a_warning_is_told_once_a_minute_with_how_often_it_was_not(capfd: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    log = logging.getLogger("some.library")
    with warnings_to_stderr(lambda: now_s):
        for _ in range(1_000):
            log.error("It went wrong\nsocket: <object at %s>", object(), exc_info=OSError("canary"))
        log.warning("Another thing")
        now_s = 61.0
        log.error("It went wrong", exc_info=OSError())
    assert capfd.readouterr().err.splitlines() == [
        "kingly-memory: It went wrong (OSError)",
        "kingly-memory: Another thing",
        "kingly-memory: It went wrong (OSError) (999 more since)",
    ]


# --- bodies -----------------------------------------------------------------------------------------------------------


def reading(bodies: Bodies, held: Slow | None = None) -> ASGIApp:
    """Says how many bytes a body has, when it is let go."""

    @answering
    async def application(request: Request) -> Response:
        try:
            async with bodies.arrived(request) as body:
                if held is not None and request.url.path == "/held":
                    held.begun.release()
                    await held.go_on.wait()
                return Response(str(len(body)))
        except Refusal as refusal:
            return Response(refusal.reason, refusal.status)

    return application


def post(body: bytes, path: str = "/") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def chunked(*chunks: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest.mark.requirement("A15")
async def test_bodies_that_are_worked_on_share_one_room_in_which_small_ones_always_find_a_place() -> None:
    held = Slow()
    large = b"x" * 200_000
    async with serving(reading(Bodies(limit_bytes=200_000, room_bytes=300_000), held)) as served:
        first, second, third = [await served.caller() for _ in range(3)]
        for caller in (first, second):
            await caller.send(post(large, "/held"))
            await held.begun.acquire()
        await third.send(post(large))
        assert (await third.status(), "try again" in third.said) == (503, True)
        await third.send(post(b"x" * 60_000))
        assert (await third.status(), third.said) == (200, "60000")
        first.hang_up()
        held.go_on.set()
        assert await second.status() == 200
        for _ in range(3):
            await third.send(post(large))
            assert (await third.status(), third.said) == (200, "200000")


@pytest.mark.requirement("A14")
async def test_a_body_in_many_small_chunks_is_refused_as_soon_as_they_are_seen() -> None:
    async with serving(reading(Bodies())) as served:
        caller, other = await served.caller(), await served.caller()
        await caller.send(chunked(*[b"x"] * 100_000))
        assert (await caller.status(), "small chunks" in caller.said) == (400, True)
        await other.send(GET)
        assert await other.status() == 200


@pytest.mark.requirement("A14")
async def test_small_chunks_after_the_answer_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(at_once) as served:
        caller = await served.caller()
        whole = chunked(*[b"x"] * 1_000)
        await caller.send(whole[:200])
        assert await caller.status() == 200
        await caller.send(whole[200:])
        assert await caller.rest() == b""
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("chunks", [[b"x"] * 256, [b"x" * 256] * 10_000, [b"x" * 65_536] * 100])
async def test_a_body_in_few_or_larger_chunks_is_read(chunks: list[bytes]) -> None:
    async with serving(reading(Bodies())) as served:
        caller = await served.caller()
        await caller.send(chunked(*chunks))
        assert (await caller.status(), json.loads(caller.said)) == (200, sum(map(len, chunks)))
