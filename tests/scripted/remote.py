"""The scripted remote in full: both dialects, every fault of the wire, chance, and effects that outlive a process.

In a test: `with ScriptedRemote("status=503", "lost-reply") as server: ... server.url, server.effects`.
As a process: `python -m tests.scripted.remote --port-file F --effects-file F --script status=503 lost-reply`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from kingly_memory.models import JsonObject
from kingly_memory.testing.semantic import SemanticServer, Unable
from tests.scripted.mcp_frames import Answer, Arrived, McpDesk, McpStyle
from tests.scripted.script import FAULTS, Fault, Script, Weather
from tests.scripted.wire_faults import PLAYS, Line

CALL_PATH = "/mcp/call"
_BODY_LIMIT_BYTES = 64 * 1024 * 1024
_TURNS = 5
"""Of the event loop, until a connection that was just taken is one that can be cancelled and closed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived: header names in lower case, `fault` as it was played."""

    method: str
    params: JsonObject
    headers: Mapping[str, str]
    fault: str


class Refused(Exception):
    """The request is not one that a script may decide on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Misused(Exception):
    """A tool was given what it does not take. The text is the reply."""


class ScriptedRemote:
    """A server with scripted faults, on a thread of its own: for sync tests, async tests and processes.

    It speaks json-call or mcp (`mcp` says of which kind). In mcp, faults are played on calls of tools, and on whatever
    else is said only where they were scripted for that method: `script("hang", method="initialize")` (the end of a
    session is called `DELETE`); that is kept in `handshakes`, and calls of tools in `requests` as in json-call.

    Its memories outlive `stop` and `start`, as a server's database does. With an effects file, every request and every
    effect is a line of JSON there before the reply is sent, and the effects of an earlier process are taken up again.
    """

    def __init__(
        self,
        *script: str,
        dialect: Literal["json-call", "mcp"] = "json-call",
        mcp: McpStyle | None = None,
        always: str = "ok",
        weather: Weather | None = None,
        honours_keys: bool = True,
        without: Sequence[str] = (),
        token: str | None = None,
        port: int = 0,
        effects_file: Path | None = None,
    ) -> None:
        self.port = port
        self.requests: list[Call] = []
        self.handshakes: list[Call] = []
        self.effects: list[Call] = []
        self.semantic = SemanticServer(honours_keys=honours_keys, without=tuple(without))
        self._script = Script(Fault.of(always), weather or Weather())
        self._script.add(*script)
        self._token = token
        tools = tuple({"name": name, "inputSchema": {"type": "object"}} for name in self.semantic.names)
        self._desk = McpDesk(mcp or McpStyle(), tools) if mcp or dialect == "mcp" else None
        self._effects_file = effects_file
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._take_up_effects()

    def __repr__(self) -> str:
        return f"<ScriptedRemote {self.url} requests={len(self.requests)} effects={len(self.effects)}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *faults: str, method: str | None = None) -> None:
        """Queue faults, one per request, for every method or for one."""
        self._script.add(*faults, method=method)

    def forget_sessions(self) -> None:
        """As a restart does, without one."""
        if self._desk is not None:
            self._desk.sessions.clear()

    def always(self, fault: str) -> None:
        """What happens whenever nothing is queued."""
        self._script.always = Fault.of(fault)

    def start(self) -> None:
        """Listen; returns when connections are taken. The second start uses the first one's port."""
        listening: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()
        listening.result()

    def stop(self) -> None:
        """Stop listening and reset every connection, as a killed server does."""
        self.forget_sessions()
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = self._loop = self._stopping = None

    def wait_until(self, condition: Callable[[Self], bool], timeout_s: float = 10.0) -> None:
        """Block until the condition holds, looked at after each request. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout_s):
                raise TimeoutError(f"{self!r} did not get there within {timeout_s:g} s")

    async def serve(self, listening: Callable[[], None]) -> None:
        """Serve on this event loop until `stop` is called or the task is cancelled."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        listening()
        try:
            await self._stopping.wait()
        finally:
            self._stopping.set()
            await _accepting_no_more(server)
            server.close()
            for connection in list(self._connections):
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await server.wait_closed()
            await _some_turns()

    def _run(self, listening: Future[None]) -> None:
        try:
            asyncio.run(self.serve(lambda: listening.set_result(None)))
        except OSError as problem:
            listening.set_exception(problem)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping is None or self._stopping.is_set():
            writer.transport.abort()
            return
        connection = asyncio.ensure_future(self._converse(reader, writer))
        self._connections.add(connection)

        def over(_: asyncio.Task[None]) -> None:
            """Also of a conversation that was cancelled before its first step, which closes nothing."""
            self._connections.discard(connection)
            writer.transport.abort()

        connection.add_done_callback(over)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except asyncio.CancelledError:
            Line(reader, writer, {}).reset()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the other side went away, which is its right
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        verb, path, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        body = await reader.readexactly(min(int(headers.get("content-length", 0)), _BODY_LIMIT_BYTES))
        if self._desk is not None:
            return await self._answer_mcp(self._desk, Line(reader, writer, {}), Arrived(verb, path, headers, body))
        try:
            method, params = self._admitted(path, headers, body)
        except Refused as refused:
            return await _play(Line(reader, writer, {}), refused.fault)
        return await self._call(Line(reader, writer, {}), method, params, headers)

    async def _answer_mcp(self, desk: McpDesk, line: Line, arrived: Arrived) -> bool:
        headers = arrived.headers
        if arrived.verb == "DELETE" and (fault := self._said("DELETE", {}, headers)).kind != "ok":
            return await _play(line, fault)
        has_token = self._token is None or headers.get("authorization") == f"Bearer {self._token}"
        request = desk.admitted(arrived) if has_token else Answer(401)
        if isinstance(request, Answer):
            return await _send(line, request)
        line = replace(line, frame=desk.frame(request))
        if request.method == "tools/call":
            tool = request.params.get("name")
            return await self._call(line, str(tool), request.params.get("arguments") or {}, headers)
        fault = self._said(request.method, request.params, headers)
        if fault.kind == "ok":
            return await _send(line, desk.reply(request))
        return await _play(line, fault)

    def _said(self, method: str, params: JsonObject, headers: Mapping[str, str]) -> Fault:
        """Note what is no call of a tool, and what shall come of it."""
        fault = self._script.meant_for(method)
        self._record("handshake", Call(method, params, headers, str(fault)), self.handshakes)
        return fault

    async def _call(self, line: Line, method: str, params: JsonObject, headers: Mapping[str, str]) -> bool:
        fault = self._script.next(method)
        call = Call(method, params, headers, str(fault))
        self._record("request", call, self.requests)
        if fault.kind == "lost-session":
            self.forget_sessions()
        if not fault.takes_effect:
            return await _play(line, fault)
        if not self._knows(method):
            return await line.unknown(method)
        try:
            return await _play(replace(line, reply=await self._apply(call)), fault)
        except Misused as problem:
            return await _play(line, Fault("error", str(problem)))

    def _knows(self, method: str) -> bool:
        return self.semantic.knows(method)

    async def _done(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        """The reply, and whether anything changed. Raises Unable and Misused."""
        return self.semantic.call(method, params)

    def _admitted(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[str, JsonObject]:
        if not path.partition("?")[0].endswith(CALL_PATH):
            raise Refused(Fault("status", "404"))
        if self._token is not None and headers.get("authorization") != f"Bearer {self._token}":
            raise Refused(Fault("status", "401"))
        try:
            request = json.loads(body)
            return request["method"], request["params"]
        except (ValueError, KeyError, TypeError):
            raise Refused(Fault("status", "400")) from None

    async def _apply(self, call: Call) -> JsonObject:
        try:
            reply, changed = await self._done(call.method, call.params)
        except Unable as problem:
            return {"success": False, "error": str(problem), "error_code": problem.code}
        if changed:
            self._record("effect", call, self.effects)
        return reply

    def _record(self, line: str, call: Call, where: list[Call]) -> None:
        """Written before anything is answered, so that an audit never misses what a client was told."""
        if self._effects_file is not None:
            with self._effects_file.open("ab", buffering=0) as file:
                file.write(json.dumps({"line": line, **asdict(call)}).encode() + b"\n")
        with self._changed:
            where.append(call)
            self._changed.notify_all()

    def _take_up_effects(self) -> None:
        if self._effects_file is None or not self._effects_file.exists():
            return
        for text in self._effects_file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.pop("line") == "effect":
                self.effects.append(Call(**line))
                self.semantic.call(line["method"], line["params"])


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    verb, path, _ = request_line.split(" ", 2)
    return verb, path, {name.lower(): value.strip() for name, _, value in pairs}


async def _play(line: Line, fault: Fault) -> bool:
    return await PLAYS[fault.kind](replace(line, detail=fault.detail))


async def _send(line: Line, answer: Answer) -> bool:
    return await line.send(answer.status, answer.body, answer.headers, answer.media)


async def _accepting_no_more(server: asyncio.Server) -> None:
    """Before it is closed: a connection that was accepted and is not yet the server's would never be closed."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await _some_turns()


async def _some_turns() -> None:
    """For what was accepted or closed a moment ago."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    options = _options(arguments)
    weather = Weather(options.fail_500, options.fail_429, options.drop_reply, options.retry_after, options.seed)
    remote = ScriptedRemote(
        *options.script,
        always=options.always,
        weather=weather,
        dialect=options.dialect,
        mcp=McpStyle(options.sessions, options.stateless, options.events) if options.dialect == "mcp" else None,
        honours_keys=not options.no_keys,
        without=options.without,
        token=options.token,
        port=options.port,
        effects_file=options.effects_file,
    )

    def tell_port() -> None:
        if options.port_file is not None:
            unfinished = options.port_file.with_suffix(".unfinished")
            unfinished.write_text(str(remote.port), encoding="utf-8")
            unfinished.replace(options.port_file)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(remote.serve(tell_port))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    faults = "\n".join(f"  {kind:15} {meaning}" for kind, meaning in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.scripted.remote",
        description="A memory server that fails on command.",
        epilog=f"faults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--port-file", type=Path, help="the port is written there once connections are taken")
    parser.add_argument("--dialect", choices=["json-call", "mcp"], default="json-call")
    parser.add_argument("--stateless", action="store_true", help="in mcp: knows the protocol without sessions")
    parser.add_argument("--no-sessions", action="store_false", dest="sessions", help="in mcp: issues no session ids")
    parser.add_argument("--events", action="store_true", help="in mcp: replies with event streams")
    parser.add_argument("--effects-file", type=Path, help="one JSON line per request and per effect")
    parser.add_argument("--script", nargs="*", default=[], metavar="FAULT", help="one per request")
    parser.add_argument("--always", default="ok", metavar="FAULT", help="when the script is used up")
    parser.add_argument("--fail-500", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--fail-429", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--drop-reply", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--retry-after", default="1", help="what a 429 by chance asks for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-keys", action="store_true", help="ignore idempotency keys")
    parser.add_argument("--without", nargs="*", default=[], metavar="METHOD", help="methods it does not know")
    parser.add_argument("--token", help="the bearer token it wants (made-up ones only: arguments are public)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
