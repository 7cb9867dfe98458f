"""Run as a process by test_remote_limits: calls one hostile server once per fault and reports what it cost.

Arguments: URL, number of calls and dialect. Writes JSON: per call the error class (or `value`), the growth of the peak
memory in bytes since the first call, and the longest stretch of this process's CPU seconds in which the event loop did
not turn.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

from kingly_memory.adapters.remote.dialect import JsonCall
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.errors import RemoteError
from tests.remote_samples import remote_at


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


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def report(url: str, calls: int, dialect: str) -> list[dict[str, Any]]:
    remote = remote_at(url, speaks=McpCall if dialect == "mcp" else JsonCall, call_timeout_s=1.0)
    await remote.connect()
    before = peak_bytes()
    found = []
    for _ in range(calls):
        pulse = Pulse()
        beating = asyncio.create_task(pulse.beat())
        try:
            await remote.connect()
            outcome = "value"
        except RemoteError as error:
            outcome = f"{type(error).__name__}: {error}"
        beating.cancel()
        found.append({"outcome": outcome, "grown": peak_bytes() - before, "gap_s": pulse.longest_gap_s})
    await remote.aclose()
    return found


if __name__ == "__main__":
    json.dump(asyncio.run(report(sys.argv[1], int(sys.argv[2]), sys.argv[3])), sys.stdout)
