"""A real MCP server on the loopback interface with the tools and the oddities of an Ultimate MCP server.

In a test: `with UltimateServer() as server: ... server.url, server.effects`.
As a process: `python -m tests.ultimate.server --port-file F --effects-file F --older`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import socket
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult, TextContent

from kingly_memory.models import JsonObject
from tests.scripted.script import Fault, Script, Weather
from tests.ultimate.door import Door
from tests.ultimate.engine import Failed, Manners, UltimateEngine, method_of

MCP_PATH = "/mcp/mcp"
CURRENT_TOOLS = (
    "create_workflow",
    "store_memory",
    "update_memory",
    "get_memory_by_id",
    "hybrid_search_memories",
    "query_memories",
    "create_memory_link",
    "get_linked_memories",
    "echo",
)
OLDER_TOOLS = (
    *CURRENT_TOOLS,
    "search_semantic_memories",
    "initialize_memory_system",
)
_CHANGING = frozenset({"create_workflow", "store_memory", "update_memory", "create_memory_link"})


@dataclass(frozen=True, slots=True)
class UltimateCall:
    """One tool call that reached the server, and what came of it: `ok`, or the error code."""

    tool: str
    arguments: JsonObject
    outcome: str


class UltimateServer:
    """The server on a thread of its own. Its memories outlive `stop` and `start`; its sessions do not.

    `older` has the tools of 2025 and drops arguments that it does not know; `flat` replies without `data` around them;
    `structured=False` replies in text alone. `sessions_only` refuses whoever has not initialized, as a server of an
    older protocol does; `lost_session` is one of `LOST_SESSIONS`. With an effects file, every effect is a line of JSON
    there before its reply is sent, and those of an earlier process are taken up again. Without that file, what a server
    made before is gone, and none of its ids is ever given again.
    """

    def __init__(
        self,
        *,
        manners: Manners | None = None,
        older: bool = False,
        flat: bool = False,
        structured: bool = True,
        json_replies: bool = False,
        sessions_only: bool = True,
        lost_session: str = "older",
        without: Sequence[str] = (),
        weather: Weather | None = None,
        port: int = 0,
        effects_file: Path | None = None,
    ) -> None:
        self.port = port
        self.engine = UltimateEngine(manners)
        self.calls: list[UltimateCall] = []
        self.script = Script(Fault.of("ok"), weather or Weather())
        self._older = older
        self._flat = flat
        self._structured = structured
        self._json_replies = json_replies
        self._sessions_only = sessions_only
        self._lost_session = lost_session
        self._tools = tuple(tool for tool in (OLDER_TOOLS if older else CURRENT_TOOLS) if tool not in without)
        self._effects_file = effects_file
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._take_up_effects()

    def __repr__(self) -> str:
        return f"<UltimateServer {self.url} memories={len(self.engine.data.rows)} calls={len(self.calls)}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{MCP_PATH}"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def manners(self) -> Manners:
        return self.engine.manners

    @property
    def effects(self) -> list[UltimateCall]:
        """The calls that changed something, in order."""
        with self._changed:
            return [call for call in self.calls if call.outcome == "effect"]

    def named(self, tool: str) -> list[UltimateCall]:
        """The calls of one tool, in order."""
        with self._changed:
            return [call for call in self.calls if call.tool == tool]

    def begin_anew(self) -> None:
        """As if it had just been made, while it goes on listening."""
        self.engine.wipe()
        self.engine.ahead_s = 0.0
        self.engine.manners = Manners()
        self.script = Script(Fault.of("ok"), Weather())
        with self._changed:
            self.calls.clear()

    def start(self) -> None:
        """Listen; returns when connections are taken. The second start uses the first one's port."""
        listening: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()
        listening.result(timeout=30)

    def stop(self) -> None:
        """Stop listening and drop every connection, as a killed server does."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join()
            self._server = self._thread = None

    def wait_until(self, condition: Callable[[UltimateServer], bool], timeout_s: float = 10.0) -> None:
        """Block until the condition holds, looked at after each tool call. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout_s):
                raise TimeoutError(f"{self!r} did not get there within {timeout_s:g} s")

    async def serve(self, listening: Callable[[], None]) -> None:
        """Serve on this event loop until `stop` is called or the task is cancelled."""
        listener = _listener(self.port)
        self.port = listener.getsockname()[1]
        application = self._new_server().streamable_http_app(
            streamable_http_path=MCP_PATH, json_response=self._json_replies
        )
        door = Door(
            application,
            MCP_PATH,
            self._fault,
            sessions_only=self._sessions_only,
            lost_session=self._lost_session,
        )
        config = uvicorn.Config(
            door, log_level="critical", access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=0
        )
        self._server = _Started(config, listening)
        try:
            await self._server.serve(sockets=[listener])
        finally:
            listener.close()

    def _fault(self, tool: str) -> Fault:
        return self.script.next(tool)

    def _run(self, listening: Future[None]) -> None:
        try:
            asyncio.run(self.serve(lambda: listening.set_result(None)))
        except OSError as problem:
            listening.set_exception(problem)

    def _new_server(self) -> MCPServer[Any]:
        without = {"idempotency_key"} if self._older and not self.manners.honours_keys else set()
        tools = [
            _tool(self.engine, name, self._answer, structured=self._structured, without=without) for name in self._tools
        ]
        return _Strict(tools, drops_unknown=self._older)

    async def _answer(self, tool: str, arguments: JsonObject) -> JsonObject:
        try:
            reply, changed = await self.engine.call(tool, arguments)
        except Failed as failed:
            self._record(UltimateCall(tool, arguments, failed.code))
            return {"success": False, "error": str(failed), "error_code": failed.code}
        self._record(UltimateCall(tool, arguments, "effect" if changed else "ok"))
        return {"success": True, **reply} if self._flat else {"success": True, "data": reply}

    def _record(self, call: UltimateCall) -> None:
        with self._changed:
            if self._effects_file is not None and call.outcome == "effect":
                line = {"line": "effect", "tool": call.tool, "arguments": call.arguments}
                with self._effects_file.open("ab", buffering=0) as file:
                    file.write(json.dumps(line).encode() + b"\n")
            self.calls.append(call)
            self._changed.notify_all()

    def _take_up_effects(self) -> None:
        if self._effects_file is None:
            return
        if not self._effects_file.exists():
            self._effects_file.write_text(json.dumps({"line": "life", "id": token_hex(4)}) + "\n", encoding="utf-8")
        for text in self._effects_file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line["line"] == "life":
                self.engine.life = line["id"]
                continue
            self.engine.replay(line["tool"], line["arguments"])
            self.calls.append(UltimateCall(line["tool"], line["arguments"], "effect"))


class _Strict(MCPServer[Any]):
    """Refuses a call with an argument it does not know, unless it is an older one, which drops that silently."""

    def __init__(self, tools: list[Tool], *, drops_unknown: bool) -> None:
        super().__init__("Ultimate MCP Server", tools=tools, log_level="CRITICAL")
        self._drops_unknown = drops_unknown
        self._arguments = {tool.name: frozenset(tool.parameters["properties"]) for tool in tools}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        known = self._arguments.get(name)
        if known is None:
            return _failed(f"Unknown tool: {name}")
        strange = sorted(arguments.keys() - known)
        if strange and not self._drops_unknown:
            return _failed(
                f"{len(strange)} validation error for call[{name}]\n{strange[0]}\n  Unexpected keyword argument"
            )
        return await super().call_tool(name, {one: arguments[one] for one in arguments if one in known}, context)


class _Started(uvicorn.Server):
    """Says when it listens; leaves the signals alone."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def _tool(
    engine: UltimateEngine,
    name: str,
    answer: Callable[[str, JsonObject], Any],
    *,
    structured: bool,
    without: Collection[str] = (),
) -> Tool:
    """A tool with the signature of the method behind it."""
    whole = inspect.signature(method_of(engine, name), eval_str=True)
    signature = whole.replace(parameters=[one for one in whole.parameters.values() if one.name not in without])

    async def run(**arguments: Any) -> dict[str, Any]:
        given: dict[str, Any] = await answer(
            name, {one: value for one, value in arguments.items() if value is not None}
        )
        return given

    run.__signature__ = signature.replace(return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    run.__annotations__ = {one: parameter.annotation for one, parameter in signature.parameters.items()}
    run.__annotations__["return"] = dict[str, Any]
    return Tool.from_function(run, name=name, description=name, structured_output=structured)


def _listener(port: int) -> socket.socket:
    """A socket that says it is TCP: without, asyncio leaves small packets to wait for each other, 40 ms each."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    options = _options(arguments)
    manners = Manners(
        honours_keys=not options.no_keys,
        embedder=not options.no_embedder,
        locked_search=options.locked_search,
        slow_s=options.slow,
    )
    server = UltimateServer(
        manners=manners,
        older=options.older,
        flat=options.flat,
        without=options.without,
        weather=Weather(fail_500=options.fail_500, drop_reply=options.drop_reply, seed=options.seed),
        port=options.port,
        effects_file=options.effects_file,
    )

    def tell_port() -> None:
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        if options.port_file is not None:
            unfinished = options.port_file.with_suffix(".unfinished")
            unfinished.write_text(str(server.port), encoding="utf-8")
            unfinished.replace(options.port_file)

    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(server.serve(tell_port))
        except OSError as error:
            sys.exit(f"port {options.port} cannot be listened on ({error.strerror}); name another --port")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ultimate.server",
        description="An MCP server with the tools and the oddities of an Ultimate MCP server, at /mcp/mcp.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--port-file", type=Path, help="the port is written there once connections are taken")
    parser.add_argument("--effects-file", type=Path, help="one JSON line per effect; taken up by the next process")
    parser.add_argument("--older", action="store_true", help="the tools of 2025; unknown arguments are dropped")
    parser.add_argument("--flat", action="store_true", help="replies without `data`")
    parser.add_argument("--no-keys", action="store_true", help="ignore idempotency keys")
    parser.add_argument("--no-embedder", action="store_true", help="its embedder is down")
    parser.add_argument("--locked-search", action="store_true", help="semantic search fails when it finds something")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="how long a store takes")
    parser.add_argument("--without", nargs="*", default=[], metavar="TOOL", help="tools it does not have")
    parser.add_argument("--fail-500", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--drop-reply", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
