"""A process that changes the threads of a home in one way, and dies before the N-th SQL statement of its writer thread:
`python -m tests.kill.threader HOME VERB STATEMENT`."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.files import ai
from kingly_memory.settings import Pace
from tests.kill.writer import PROJECT, StatementKiller

LASTING = Settings(durability="process", pace=Pace(closing_s=0.0))
VERBS = ("merge", "split", "pin", "unpin", "rate", "rename", "import")
FILE = {
    "id": "brought",
    "title": "Brought",
    "weight": 2,
    "tags": ["pinned"],
    "ratings": [True, False],
    "messages": [{"content": f"brought along, number {number}"} for number in range(4)],
}


async def change(home: str, verb: str) -> None:
    async with MemoryRouter.open(home, project=PROJECT, settings=LASTING) as memory:
        if verb == "merge":
            await memory.threads.merge("mixed", "apart")
        elif verb == "split":
            await memory.threads.split("mixed")
        elif verb == "pin":
            await memory.attention.pin("Never push on Fridays")
        elif verb == "unpin":
            await memory.attention.unpin("pinned")
        elif verb == "rate":
            await memory.attention.rate("apart", useful=True)
        elif verb == "rename":
            await memory.threads.rename("mixed", "Deploys")
        else:
            await memory.remember(ai.thread(FILE, Path("brought.json"), 10_000, datetime.now(UTC)))


def main(arguments: Sequence[str]) -> None:
    home, verb, statement = arguments
    threading.setprofile(StatementKiller(int(statement)))
    asyncio.run(change(home, verb))


if __name__ == "__main__":
    main(sys.argv[1:])
