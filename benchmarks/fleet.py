"""A thousand routers at one, two and four hubs on one PostgreSQL: `python -m benchmarks.fleet [--routers N]`.

Each router is a coroutine that speaks the wire's json-call to a hub of its own choosing, as homes do: of ten calls
seven store a memory, two read what has changed, and one searches. First each waits between its calls, as people do,
then none does. Routers, hubs and database share the cores of one machine, so the figures say how they relate.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import httpx

from benchmarks.measure import percentile
from kingly_memory.cli.demo import ended_by_signals
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import JsonObject
from tests.hub.stores import postgres_server

PROJECTS = 100
"""Ten routers share one."""
THINKING_S = 10.0
CONNECTIONS = 64
"""To each hub, which the routers take in turn; a home has one or two."""


class Router:
    """Speaks to one hub. `took_s` has each of its calls, `failed` how many were not answered with 200."""

    def __init__(self, number: int, lines: asyncio.Queue[httpx.AsyncClient]) -> None:
        self._number, self._lines = number, lines
        self._chance = random.Random(number)
        self._headers = {"Kingly-Project": f"team-{number % PROJECTS}"}
        self._since: str | None = None
        self.took_s: list[float] = []
        self.failed = 0

    async def run(self, until_s: float, thinking_s: float) -> None:
        await asyncio.sleep(self._chance.uniform(0, thinking_s))
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            try:
                await self._call()
            except httpx.HTTPError:
                self.failed += 1
            else:
                self.took_s.append(time.monotonic() - began_s)
            if thinking_s:
                left_s = until_s - time.monotonic()
                await asyncio.sleep(min(self._chance.expovariate(1 / thinking_s), max(left_s, 0.0)))

    async def _call(self) -> None:
        what = self._chance.randrange(10)
        if what < 7:
            content = f"router {self._number} notes {len(self.took_s)}: quay {self._chance.randrange(90)} is closed"
            key = f"{self._number}-{self._chance.getrandbits(60)}"
            await self._post("store_memory", {"content": content, "idempotency_key": key})
        elif what < 9:
            self._since = (await self._post("list_changes", {"since": self._since, "limit": 100}))["until"]
        else:
            await self._post("search_semantic_memories", {"query": f"which quay is closed {self._chance.random()}"})

    async def _post(self, method: str, params: JsonObject) -> JsonObject:
        body = {"method": method, "params": params}
        line = await self._lines.get()
        try:
            reply = await line.post("/mcp/call", json=body, headers=self._headers)
        finally:
            self._lines.put_nowait(line)
            await asyncio.sleep(0)  # whoever waits for a line has it before this router asks again
        answer: JsonObject = reply.raise_for_status().json()
        return answer


@contextmanager
def hubs(number: int, address: str, home: Path) -> Iterator[list[str]]:
    """Hubs of their own processes on one database; their addresses."""
    with ExitStack() as stack:
        running = [HubProcess(home, options=("--store", address)) for _ in range(number)]
        yield [stack.enter_context(server).url for server in running]


async def measured(urls: Sequence[str], routers: int, seconds: float, thinking_s: float) -> str:
    """A line of the table."""
    async with AsyncExitStack() as stack:
        lines: list[asyncio.Queue[httpx.AsyncClient]] = []
        for url in urls:
            lines.append(asyncio.Queue())
            for _ in range(CONNECTIONS):  # one client of many connections looks through them all at each call
                line = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)
                lines[-1].put_nowait(await stack.enter_async_context(line))
        fleet = [Router(number, lines[number % len(urls)]) for number in range(routers)]
        began_s = time.monotonic()
        await asyncio.gather(*(router.run(began_s + seconds, thinking_s) for router in fleet))
        lasted_s = time.monotonic() - began_s
    took_s = [seconds for router in fleet for seconds in router.took_s]
    each = sorted(len(router.took_s) for router in fleet)
    failed = sum(router.failed for router in fleet)
    fairness = sum(each) ** 2 / (
        len(each) * sum(count**2 for count in each)
    )  # Jain's; with pauses it tells of chance alone
    p50, p99 = (percentile(took_s, share) * 1000 for share in (50, 99))
    waiting = f"{thinking_s:g} s" if thinking_s else "none"
    rate = len(took_s) / lasted_s
    return f"| {len(urls)} | {waiting} | {rate:,.0f} | {p50:,.0f} | {p99:,.0f} | {fairness:.2f} | {failed} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--routers", type=int, default=1_000)
    parser.add_argument("--hubs", default="1,2,4", help="how many, with commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    options = parser.parse_args()
    print(f"{options.routers:,} routers in {PROJECTS} projects, {options.seconds:g} s each")
    print("| hubs | wait between calls | calls a second | p50 ms | p99 ms | fairness | failed |")
    print("|---|---|---|---|---|---|---|")
    for number in map(int, options.hubs.split(",")):
        with (
            ended_by_signals(),  # else a time limit would leave the servers running
            postgres_server() as server,
            tempfile.TemporaryDirectory() as folder,
            hubs(number, server.address, Path(folder)) as urls,
        ):
            for thinking_s in (THINKING_S, 0.0):
                print(asyncio.run(measured(urls, options.routers, options.seconds, thinking_s)), flush=True)


if __name__ == "__main__":
    main()
