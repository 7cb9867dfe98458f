"""Speaking MCP to the server: in this process over the SDK's client, and to a process line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from kingly_memory.home.place import Place
from kingly_memory.home.remote_names import Addresses
from kingly_memory.models import JsonObject
from kingly_memory.server.memory_server import MemoryServer, server_of
from kingly_memory.server.tools import TOOLSETS
from kingly_memory.settings import Pace, Settings
from tests.cli_runner import environment

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))
ERAS = ("legacy", "auto")
"""The handshake of 2025 and the protocol of 2026, which has none."""


class Session:
    """A connected client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ok(self, tool: str, **arguments: Any) -> JsonObject:
        """The structured answer of a call that has to succeed; its text says the same."""
        result = await self.client.call_tool(tool, arguments)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert not result.is_error, content.text
        assert json.loads(content.text) == result.structured_content
        answer: JsonObject = result.structured_content or {}
        return answer

    async def error(self, tool: str, **arguments: Any) -> str:
        """The sentence of a call that has to fail as a tool error."""
        result = await self.client.call_tool(tool, arguments)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert result.is_error, content.text
        return content.text


def server(
    home: Path,
    *,
    remote: Addresses = None,
    toolsets: Collection[str] = TOOLSETS,
    settings: Settings = QUICK,
    shared: bool = False,
    **place: Any,
) -> MemoryServer:
    known = {"project": "app", "environment": {}, **place}
    return server_of(Place.resolve(home, remote, **known), settings, toolsets, shared=shared)


@asynccontextmanager
async def session(home: Path, *, mode: str = "auto", **about: Any) -> AsyncIterator[Session]:
    """A client of a server in this process."""
    async with Client(server(home, **about), mode=mode) as client:
        yield Session(client)


@asynccontextmanager
async def process_session(home: Path, *arguments: str, mode: str = "auto", **changes: str) -> AsyncIterator[Session]:
    """The SDK's client of a server in a process of its own."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kingly_memory", "mcp", "--tools", "all", "--home", str(home), "--project", "app", *arguments],
        env=dict(environment(**changes)),
    )
    async with Client(parameters, mode=mode) as client:
        yield Session(client)


class Wire:
    """A server process at the level of lines: what no proper client would send."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.shaken: JsonObject = {}
        self._last_id = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> JsonObject:
        assert self.process.stdout is not None
        answer: JsonObject = json.loads(self.process.stdout.readline())
        return answer

    def exchange(self, line: bytes) -> JsonObject:
        self.send(line)
        return self.receive()

    def shake_hands(self) -> JsonObject:
        parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters}
        answer = self.shaken = self.exchange(json.dumps(request).encode())
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def ask(self, method: str, **params: Any) -> JsonObject:
        """The result of a request."""
        answer = self.exchange(
            json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).encode()
        )
        assert answer["id"] == method
        result: JsonObject = answer["result"]
        return result

    def call(self, tool: str, arguments: str) -> JsonObject:
        """The result of a tool call; `arguments` are JSON as it is to go over the wire."""
        self._last_id += 1
        line = f'{{"jsonrpc":"2.0","id":{self._last_id},"method":"tools/call","params":{{"name":"{tool}","arguments":'
        answer = self.exchange(f"{line}{arguments}}}}}".encode())
        assert answer["id"] == self._last_id
        result: JsonObject = answer["result"]
        return result

    def hang_up(self) -> int:
        """Close standard input; the exit code of the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=30)


@contextmanager
def wire(home: Path, *arguments: str, tools: str | None = "all", **changes: str) -> Iterator[Wire]:
    """A server process that has shaken hands; it has every tool unless `tools` says which, or None: the default."""
    chosen = [] if tools is None else ["--tools", tools]
    served = ["mcp", "--home", str(home), "--project", "app", *chosen, *arguments]
    command = [sys.executable, "-m", "kingly_memory", *served]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment(**changes)),
    ) as process:
        try:
            speaking = Wire(process)
            speaking.shake_hands()
            yield speaking
        finally:
            process.kill()
