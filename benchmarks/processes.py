"""What a hook or a shell waits for: whole processes, from start to exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.searching import load
from kingly_memory import MemoryRouter

MOST_STARTS = 60

COMMAND = "from kingly_memory.cli.entry import run; run()"
"""What the installed script holds; it need not be installed to be measured."""


async def measure(plan: Plan) -> list[Figure]:
    home = plan.folder / "process"
    notes = plan.writer.notes(min(plan.sizes))
    async with MemoryRouter.open(home, project="bench", settings=by_words()) as memory:
        await load(memory, notes)
    question = plan.writer.questions(notes, 1)[0].text
    searching = ["search", question, "--json", "--home", str(home), "--project", "bench"]
    arms = {"sqlite3": _process("import sqlite3"), "search": _process(COMMAND, *searching)}
    seconds = await alternate(arms, min(plan.samples, MOST_STARTS))
    against = 'python -c "import sqlite3"'
    return [
        figure(against, seconds["sqlite3"]),
        figure(
            "kingly-memory search --json",
            seconds["search"],
            floor=seconds["sqlite3"],
            against=against,
            goals=(Goal("ratio", 5.0),),
        ),
    ]


def _process(*arguments: str) -> Arm:
    """Runs Python on a piece of code as an installed program would be run: compiled modules are kept between runs."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1]), "KINGLY_EMBEDDER": "none"}

    async def run(_: int) -> None:
        subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
            [sys.executable, "-c", *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
        )

    return run
