"""Run as a process by test_remote_limits: calls one hostile server once per fault and reports what it cost.

Arguments: URL, number of calls and dialect. Writes JSON: per call the error class (or `value`), and the growth of the
peak memory in bytes since the first call.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any

from kingly_memory.adapters.remote.dialect import JsonCall
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.errors import RemoteError
from tests.remote_samples import remote_at


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def report(url: str, calls: int, dialect: str) -> list[dict[str, Any]]:
    remote = remote_at(url, speaks=McpCall if dialect == "mcp" else JsonCall, call_timeout_s=30.0)
    await remote.connect()
    before = peak_bytes()
    found = []
    for _ in range(calls):
        try:
            await remote.connect()
            outcome = "value"
        except RemoteError as error:
            outcome = f"{type(error).__name__}: {error}"
        found.append({"outcome": outcome, "grown": peak_bytes() - before})
    await remote.aclose()
    return found


if __name__ == "__main__":
    json.dump(asyncio.run(report(sys.argv[1], int(sys.argv[2]), sys.argv[3])), sys.stdout)
