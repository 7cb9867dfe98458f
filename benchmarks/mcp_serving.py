"""What a host waits for: the handshake of a fresh server process, and tool calls over its standard input and output."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.hanging import HUNG_SEARCHES, UNNOTICED_S, hung_server
from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, by_words, figure, timed
from benchmarks.processes import COMMAND, as_installed
from benchmarks.searching import load
from benchmarks.texts import Note
from kingly_memory import MemoryRouter
from kingly_memory.api.tools import MOST_KEYS

MOST_STARTS = 30
MOST_CALLS = 500
LONGEST_LINE_BYTES = 16 * 1024 * 1024

BARE = """
from mcp.server import MCPServer
server = MCPServer("bare")
@server.tool()
def echo(text: str) -> str:
    return text
server.run("stdio")
"""
"""The least that a server on this SDK can be."""

AT_ONCE = (Goal("p95", 10.0),)


async def measure(plan: Plan) -> list[Figure]:
    async with hung_server() as endpoint:
        return [*await _starts(plan), *await _calls(plan, endpoint)]


class Host:
    """One server process, spoken to line by line: a client's own work is not to be measured."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = 0

    async def shake_hands(self) -> None:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        await self.ask("initialize", about)
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The structured answer. Raises RuntimeError when the call fails."""
        result = (await self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]
        if result["isError"]:
            raise RuntimeError(f"{tool}: {result['content']}")
        return result["structuredContent"]

    async def ask(self, method: str, parameters: Any) -> Any:
        self._last_id += 1
        await self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": parameters})
        if self._process.stdout is None:
            raise RuntimeError("the server has no standard output")
        return json.loads(await self._process.stdout.readline())

    async def hang_up(self) -> None:
        """Close the server's input and wait for its exit."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def _send(self, message: Any) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()


async def started(*arguments: str, **changes: str) -> Host:
    """A Python process as an installed program would be run."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=as_installed(KINGLY_EMBEDDER="none", **changes),
        limit=LONGEST_LINE_BYTES,
    )
    return Host(process)


async def _starts(plan: Plan) -> list[Figure]:
    """From the start of the process to its answer to `initialize`, and from the end of its input to its exit.

    The first round, which compiles, does not count.
    """
    ours = (COMMAND, "mcp", "--home", str(plan.folder / "mcp-start"), "--project", "bench")
    commands = {"bare": (BARE,), "control": (BARE,), "ours": ours}
    orders = itertools.cycle(itertools.permutations(commands))
    answered: dict[str, list[float]] = {name: [] for name in commands}
    ended: list[float] = []
    for number, order in zip(range(max(1, min(plan.samples // 4, MOST_STARTS)) + 1), orders, strict=False):
        for name in order:
            host, took = await _answered(commands[name])
            if name == "ours":
                await host.call("memory_intelligent_store", key=f"k{number}", content="x")
            gone = await timed(host.hang_up())
            if number:
                answered[name].append(took)
                ended += [gone] if name == "ours" else []
    floor, against = answered["bare"], "bare server"
    return [
        figure("MCP initialize, bare one-tool server", floor),
        figure("the same again (A/A), MCP", answered["control"], floor=floor, against=against),
        figure("MCP initialize", answered["ours"], floor=floor, against=against, goals=(Goal("ratio", 1.3),)),
        figure("MCP, end of input to exit", ended, goals=(Goal("max", 2_000),)),
    ]


async def _answered(command: Sequence[str]) -> tuple[Host, float]:
    began = time.perf_counter()
    host = await started(*command)
    await host.shake_hands()
    return host, time.perf_counter() - began


async def _calls(plan: Plan, endpoint: str) -> list[Figure]:
    """Stores and searches without a remote, with one that hangs, and once that is known to be offline."""
    notes = plan.writer.notes(min(plan.sizes))
    count = min(plan.samples, MOST_CALLS)
    questions = [one.text for one in plan.writer.questions(notes, count + 3)]
    texts = [note.content for note in plan.writer.notes(count + 3)]
    unaware = {"KINGLY_CALL_TIMEOUT_S": str(UNNOTICED_S)}
    aware = {"KINGLY_CALL_TIMEOUT_S": "0.2"}
    async with (
        _host(plan, notes, "mcp-alone", None) as alone,
        _host(plan, notes, "mcp-hung", endpoint, **unaware) as hung,
        _host(plan, notes, "mcp-offline", endpoint, **aware) as offline,
    ):
        while (await offline.call("memory_status"))["link"]["state"] != "offline":
            await offline.call("memory_hybrid_search", query=questions[0])
        arms = {"alone": _storing(alone, texts), "hung": _storing(hung, texts)}
        stored = await alternate(arms, count)
        arms = {"alone": _searching(alone, questions), "offline": _searching(offline, questions)}
        found = await alternate(arms, count)
        others = await _other_tools(alone, count, texts)
        waited = await alternate({"hung": _searching(hung, questions)}, min(count, HUNG_SEARCHES))
    floor, against = found["alone"], "MCP search"
    return [
        figure("MCP store", stored["alone"], goals=AT_ONCE),
        *others,
        figure(
            "MCP store, remote hangs",
            stored["hung"],
            floor=stored["alone"],
            against="MCP store",
            goals=(Goal("max", 50),),
        ),
        figure(against, floor, goals=AT_ONCE),
        figure(
            "MCP search, link known offline", found["offline"], floor=floor, against=against, goals=(Goal("p99", 50),)
        ),
        figure("MCP search, remote hangs", waited["hung"], floor=floor, against=against, goals=(Goal("max", 200),)),
    ]


async def _other_tools(host: Host, count: int, texts: Sequence[str]) -> list[Figure]:
    """The tools besides store and search, over the same memories and what has been stored meanwhile, and with as many
    keys as a list holds. How similar tasks ended is weighed against every outcome, so that no bound is set for it."""
    await host.call("memory_intelligent_store", key="at hand", content=texts[0], context_id="bench")
    for number in range(MOST_KEYS):
        await host.call("remember", key=f"key-{number}", value="x")
    asked: dict[str, Callable[[int], Mapping[str, Any]]] = {
        "memory_get": lambda number: {"key_or_id": f"key-{number % MOST_KEYS}"},
        "memory_get_working_context": lambda number: {"context_id": "bench"},
        "list": lambda number: {},
        "memory_status": lambda number: {},
        "record_task_outcome": lambda number: {"task": texts[number], "context_id": "bench"},
        "assess_task_confidence": lambda number: {"task_description": texts[number]},
    }
    arms = {tool: _calling(host, tool, arguments) for tool, arguments in asked.items()}
    took = await alternate(arms, count)
    return [
        figure(f"MCP {tool}", took[tool], goals=() if tool == "assess_task_confidence" else AT_ONCE) for tool in asked
    ]


def _calling(host: Host, tool: str, arguments: Callable[[int], Mapping[str, Any]]) -> Arm:
    async def call(number: int) -> object:
        return await host.call(tool, **arguments(number))

    return call


@asynccontextmanager
async def _host(
    plan: Plan, notes: Sequence[Note], name: str, endpoint: str | None, **changes: str
) -> AsyncIterator[Host]:
    """A server over a home of its own with the notes in it."""
    home = plan.folder / name
    async with MemoryRouter.open(home, remote=False, project="bench", settings=by_words()) as memory:
        await load(memory, notes)
    remote = [] if endpoint is None else ["--remote", endpoint]
    host = await started(
        COMMAND, "mcp", "--tools", "all", "--home", str(home), "--project", "bench", *remote, **changes
    )
    await host.shake_hands()
    try:
        yield host
    finally:
        await host.hang_up()


def _storing(host: Host, texts: Sequence[str]) -> Arm:
    async def store(number: int) -> object:
        return await host.call("memory_intelligent_store", key=f"new-{number}", content=texts[number])

    return store


def _searching(host: Host, questions: Sequence[str]) -> Arm:
    async def search(number: int) -> object:
        return await host.call("memory_hybrid_search", query=questions[number])

    return search
