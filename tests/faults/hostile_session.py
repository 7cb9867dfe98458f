"""Run as a process by test_costs: a whole router against a hostile server, and what that cost.

Arguments: URL, folder. Writes JSON: how the peak of memory grew since the router had met a server that works, and the
longest stretch of this process's CPU seconds in which the event loop did not turn.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace
from tests.hostile_client import peak_bytes

PATIENCE = Settings(
    durability="process", pace=Pace(send_tries=1, closing_s=0.0), call_timeout_s=2.0, remote_search_s=1.0
)
ROUNDS = 3


class Pulse:
    """Measures in CPU seconds, so that a busy machine does not count against the event loop."""

    def __init__(self) -> None:
        self.longest_gap_s = 0.0

    async def beat(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.002)
            now = time.process_time()
            self.longest_gap_s = max(self.longest_gap_s, now - last)
            last = now


async def session(url: str, folder: Path) -> dict[str, Any]:
    async with MemoryRouter.open(folder, url, project="faults", settings=PATIENCE) as memory:
        await ask(memory, 0)  # while the server still works
        await memory.sync(timeout=5)
        gc.collect()
        sys.stdin.readline()  # now it is hostile
        before, pulse = peak_bytes(), Pulse()
        beating = asyncio.create_task(pulse.beat())
        for number in range(1, ROUNDS + 1):
            await ask(memory, number)
            await memory.sync(timeout=5)
        beating.cancel()
        outbox = (await memory.status())["outbox"]
        return {"grown": peak_bytes() - before, "gap_s": pulse.longest_gap_s, "waiting": outbox["pending"]}


async def ask(memory: MemoryRouter, number: int) -> None:
    await memory.store(f"The harbour opens at {number}", key=f"k{number}", significance=0.8, context_id="watch")
    await memory.search("harbour")
    await memory.working_context("watch")


if __name__ == "__main__":
    json.dump(asyncio.run(session(sys.argv[1], Path(sys.argv[2]))), sys.stdout)
