"""A process that sweeps a home, or takes the last sweep back, and dies before the N-th SQL statement of its writer
thread: `python -m tests.kill.sweeper HOME VERB STATEMENT`."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence

from kingly_memory import MemoryRouter, Settings
from tests.kill.writer import PROJECT, StatementKiller

LASTING = Settings(durability="process")


async def sweep(home: str, verb: str) -> None:
    async with MemoryRouter.open(home, project=PROJECT, settings=LASTING) as memory:
        if verb == "sweep":
            await memory.sweep(["lifetimes", "strength"])
        else:
            await memory.undo_sweep()


def main(arguments: Sequence[str]) -> None:
    home, verb, statement = arguments
    threading.setprofile(StatementKiller(int(statement)))
    asyncio.run(sweep(home, verb))


if __name__ == "__main__":
    main(sys.argv[1:])
