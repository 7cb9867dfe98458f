"""A process that does one verb at a home, and dies before the N-th SQL statement of its writer thread:
`python -m tests.kill.verbs HOME VERB STATEMENT`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.files import ai
from kingly_memory.settings import Pace
from tests.kill.writer import PROJECT, StatementKiller

ROOT = Path(__file__).parents[2]
LASTING = Settings(durability="process", pace=Pace(closing_s=0.0))
FILE = {
    "id": "brought",
    "title": "Brought",
    "weight": 2,
    "tags": ["pinned"],
    "ratings": [True, False],
    "messages": [{"content": f"brought along, number {number}"} for number in range(4)],
}
Verbs = Mapping[str, Callable[[MemoryRouter], Awaitable[object]]]
OF_THREADS: Verbs = {
    "merge": lambda memory: memory.threads.merge("mixed", "apart"),
    "split": lambda memory: memory.threads.split("mixed"),
    "pin": lambda memory: memory.attention.pin("Never push on Fridays"),
    "unpin": lambda memory: memory.attention.unpin("pinned"),
    "rate": lambda memory: memory.attention.rate("apart", useful=True),
    "rename": lambda memory: memory.threads.rename("mixed", "Deploys"),
    "import": lambda memory: memory.remember(ai.thread(FILE, Path("brought.json"), datetime.now(UTC))),
}
OF_SWEEPS: Verbs = {
    "sweep": lambda memory: memory.sweep(["lifetimes", "strength"]),
    "undo": lambda memory: memory.undo_sweep(),
}


def opened(home: Path) -> MemoryRouter:
    return MemoryRouter.open(home, project=PROJECT, settings=LASTING)


async def change(home: Path, verb: str) -> None:
    async with opened(home) as memory:
        await {**OF_THREADS, **OF_SWEEPS}[verb](memory)


def killed(home: Path, verb: str, statement: int) -> bool:
    """Whether a process that does the verb was killed before it was done."""
    command = [sys.executable, "-m", "tests.kill.verbs", str(home), verb, str(statement)]
    code = subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.DEVNULL, timeout=120).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


def main(arguments: Sequence[str]) -> None:
    home, verb, statement = arguments
    threading.setprofile(StatementKiller(int(statement)))
    asyncio.run(change(Path(home), verb))


if __name__ == "__main__":
    main(sys.argv[1:])
