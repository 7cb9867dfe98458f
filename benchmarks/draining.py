"""The remote is back: how fast does the backlog reach it, against a client that just posts the same bodies?"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.measure import Figure, Goal, Plan, by_words, figure, percentile
from kingly_memory import MemoryRouter
from kingly_memory.adapters.remote import wire
from kingly_memory.hub.process import HubProcess
from kingly_memory.ids import new_id
from kingly_memory.models import JsonObject
from kingly_memory.observe import Event, MemoryDelivered
from kingly_memory.validation import draft

BACKLOG, POSTED = 1_000, 200
"""Memories that wait, and those that the bare client posts, one by one."""
TURNS = 3
SYNC_S = 300.0
MOST_SYNCS = 5
START_S = 60.0
A_DAY_OFFLINE = 5_000
"""Memories that wait for a hub, whose first calls are few at once like everybody's."""
A_LONG_BACKLOG = 2_500
"""Where answers get lost the last memory may wait alone, for one or two pauses: that is no matter of speed."""
AT_LEAST_150_A_SECOND = (Goal("p50", 1_000 / 150),)
AT_LEAST_2_000_A_SECOND = (Goal("p50", 1_000 / 2_000),)
AT_LEAST_60_PERCENT = (Goal("ratio", 1 / 0.6),)
PROTOCOL = "2025-06-18"


class Took(NamedTuple):
    """Seconds: by the clock, and of this process's processor time."""

    wall_s: float
    processor_s: float

    def since(self, began: Took, count: int) -> Took:
        """What it has taken since then for each of so many memories."""
        return Took((self.wall_s - began.wall_s) / count, (self.processor_s - began.processor_s) / count)


class Spawned:
    """A Python module that serves the port which is its last argument."""

    _process: subprocess.Popen[bytes]

    def __init__(self, *module: str) -> None:
        self._module = module
        self._port = _free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Spawned:
        command = [sys.executable, "-m", *self._module, str(self._port)]
        self._process = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + START_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self._module[0]} did not start")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


Server = Spawned | HubProcess
"""A remote in a process of its own, which keeps its port."""


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of server, and how it is spoken to."""

    name: str
    server: Callable[[Path], Server]
    by_mcp: bool = False
    bare: Callable[[Path], Server] | None = None
    """The server that the bare client posts to instead, since it mends no lost answers."""
    backlog: int = BACKLOG
    goals: tuple[Goal, ...] = AT_LEAST_150_A_SECOND
    against: str = ""
    """An earlier place, whose backlog this one's is compared with, instead of with the bare client."""

    def address(self, server: Server) -> str:
        return f"{server.url}/mcp" if self.by_mcp else server.url


SCRIPTED = ("tests.scripted.remote", "--port")
FAR = ("tests.scripted.remote", "--delay", "0.05", "--port")
FAR_IN_BAD_WEATHER = (*FAR[:-1], "--fail-500", "0.065", "--drop-reply", "0.065", "--port")
PLACES = (
    Place(
        "the hub, json-call",
        lambda folder: HubProcess(folder, port=_free_port()),
        backlog=A_DAY_OFFLINE,
        goals=AT_LEAST_2_000_A_SECOND,
    ),
    Place("the hub, mcp", lambda folder: HubProcess(folder, port=_free_port()), by_mcp=True, backlog=A_DAY_OFFLINE),
    Place("a dictionary, json-call", lambda _: Spawned(*SCRIPTED)),
    Place("the SDK's server, mcp", lambda _: Spawned("benchmarks.sdk_memory"), by_mcp=True),
    Place("a dictionary, 50 ms away", lambda _: Spawned(*FAR), backlog=A_LONG_BACKLOG),
    Place(
        "the same in bad weather",
        lambda _: Spawned(*FAR_IN_BAD_WEATHER),
        bare=lambda _: Spawned(*FAR),
        backlog=A_LONG_BACKLOG,
        goals=AT_LEAST_60_PERCENT,
        against="a dictionary, 50 ms away",
    ),
)


async def measure(plan: Plan) -> list[Figure]:
    figures: list[Figure] = []
    known: dict[str, list[float]] = {}
    for number, place in enumerate(PLACES):
        folder = plan.folder / f"drain-{number}"
        folder.mkdir()
        figures += await _drained(plan, place, folder, known)
    return figures


async def _drained(plan: Plan, place: Place, folder: Path, known: dict[str, list[float]]) -> list[Figure]:
    """By turns: bare httpx (twice, A and A), and the router. Seconds per memory; every turn has fresh servers and
    homes. `known` has what the router took elsewhere."""
    bare: list[Took] = []
    control: list[Took] = []
    drained: list[Took] = []
    for turn in range(1 if plan.is_quick else TURNS):
        texts = [note.content for note in plan.writer.notes(min(plan.samples, BACKLOG) * place.backlog // BACKLOG)]
        posted = [bare, control] if turn % 2 else [control, bare]
        for took, seconds in zip(posted, await _posted(place, folder / f"bare-{turn}", texts[:POSTED]), strict=True):
            took.append(seconds)
        drained.append(await _caught_up(place, folder / f"router-{turn}", texts))
    floor, against = [took.wall_s for took in bare], "httpx, one by one"
    walls = known[place.name] = [took.wall_s for took in drained]
    return [
        figure(f"{against}, to {place.name}", floor, remark=_processor(bare)),
        figure("the same again (A/A)", [took.wall_s for took in control], floor=floor, against=against),
        figure(
            f"backlog to {place.name}",
            walls,
            floor=known.get(place.against, floor),
            against=f"backlog to {place.against}" if place.against else against,
            goals=place.goals,
            remark=f"{1 / percentile(walls, 50):.0f} a second; {_processor(drained)}",
        ),
    ]


def _processor(took: Sequence[Took]) -> str:
    """What it cost this process, which says more than the time on a machine that others use too."""
    return f"{percentile([one.processor_s for one in took], 50) * 1000:.2f} ms of processor each"


async def _caught_up(place: Place, folder: Path, texts: Sequence[str]) -> Took:
    """Until everything that was stored while the server was down has been acknowledged by it. A sync goes on to read
    what is new there."""
    server = place.server(folder / "server")
    last = Took(0.0, 0.0)

    def note(event: Event) -> None:
        nonlocal last
        if isinstance(event, MemoryDelivered):
            last = _now()

    address = place.address(server)
    async with MemoryRouter.open(folder / "home", remote=address, settings=by_words(), observers=(note,)) as memory:
        await memory.store_many(texts)
        with server:
            await _warmed(place, server)
            began = _now()
            await _all_delivered(memory)
    return last.since(began, len(texts))


def _now() -> Took:
    return Took(time.perf_counter(), time.process_time())


async def _all_delivered(memory: MemoryRouter) -> None:
    """A sync tries each memory in three tries. In bad weather a few need one more."""
    for _ in range(MOST_SYNCS):
        report = await memory.sync(timeout=SYNC_S)
        if not report.pending and not report.dead:
            return
    raise RuntimeError(f"not all was delivered in {MOST_SYNCS} syncs")


async def _posted(place: Place, folder: Path, texts: Sequence[str]) -> list[Took]:
    """A client without any care posts the bodies that the router would; and once more, of other memories."""
    server = (place.bare or place.server)(folder / "server")
    took = []
    with server:
        await _warmed(place, server)
        for _ in range(2):
            bodies = [params(text) for text in texts]
            async with _client(place, server) as post:
                began = _now()
                for body in bodies:
                    await post("store_memory", body)
                took.append(_now().since(began, len(texts)))
    return took


async def _warmed(place: Place, server: Server) -> None:
    """A first call, which loads what a server loads when it is first spoken to."""
    with suppress(httpx.HTTPError):  # a server in bad weather has answered all the same
        async with _client(place, server) as post:
            await post("initialize_memory_system", {})


@asynccontextmanager
async def _client(place: Place, server: Server) -> AsyncIterator[Callable[[str, JsonObject], Any]]:
    """What calls a tool with bare httpx."""
    headers = {"Accept": "application/json, text/event-stream"} if place.by_mcp else {}
    async with httpx.AsyncClient(timeout=SYNC_S, trust_env=False, headers=headers) as client:
        url = f"{server.url}/mcp" if place.by_mcp else f"{server.url}/mcp/call"

        async def ask(body: JsonObject) -> httpx.Response:
            return (await client.post(url, json=body)).raise_for_status()

        async def call(tool: str, params: JsonObject) -> None:
            await ask({"method": tool, "params": params})

        async def call_by_mcp(tool: str, params: JsonObject) -> None:
            call_params = {"name": tool, "arguments": params}
            reply = await ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params})
            if '"isError":true' in reply.text.replace(" ", ""):
                raise RuntimeError(reply.text)

        if place.by_mcp:
            client.headers.update(await _introduced(ask))
            await ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield call_by_mcp if place.by_mcp else call


async def _introduced(ask: Callable[[JsonObject], Any]) -> dict[str, str]:
    """The headers that go with everything said after the introduction."""
    about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    reply = await ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
    session = reply.headers.get("mcp-session-id")
    return {"MCP-Protocol-Version": PROTOCOL} | ({} if session is None else {"Mcp-Session-Id": session})


def params(text: str) -> JsonObject:
    """What the router would call `store_memory` with."""
    now = datetime.now(UTC)
    memory = draft(text).memory(new_id(now), "bench", created_at=now, updated_at=now, revision=1)
    params: JsonObject = json.loads(json.dumps(wire.store_params(memory, memory.id, None)))
    return params


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
