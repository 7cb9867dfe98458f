"""What a hook or a shell waits for: whole processes, from start to exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.searching import load
from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.embed import wordllama

MOST_STARTS = 60

COMMAND = "from kingly_memory.cli.entry import run; run()"
"""What the installed script holds; it need not be installed to be measured."""
ELSEWHERE = "undoing failed rollouts"
"""Words that no note has."""
AGAINST = 'python -c "import sqlite3"'


async def measure(plan: Plan) -> list[Figure]:
    home = plan.folder / "process"
    notes = plan.writer.notes(min(plan.sizes))
    is_by_meaning = wordllama.folder() is not None
    settings = Settings(embedder="wordllama") if is_by_meaning else by_words()
    async with MemoryRouter.open(home, project="bench", settings=settings) as memory:
        await load(memory, notes)
        await memory.await_vectors(60)
    question = plan.writer.questions(notes, 1)[0].text
    longest = max(question.split(), key=len)
    questions = {
        "kingly-memory search --json": question,
        "the same with a typing error": question.replace(longest, longest[:-2] + longest[-1] + longest[-2]),
    }

    def searching(asked: str, embedder: str) -> Arm:
        there = ("--home", str(home), "--project", "bench")
        return process(COMMAND, "search", asked, "--json", *there, KINGLY_EMBEDDER=embedder)

    arms = {AGAINST: process("import sqlite3")} | {name: searching(text, "none") for name, text in questions.items()}
    if is_by_meaning:
        arms[f"the same by meaning, among {len(notes):,}"] = searching(ELSEWHERE, "wordllama")
    seconds = await alternate(arms, min(plan.samples, MOST_STARTS))
    floor = seconds.pop(AGAINST)
    return [
        figure(AGAINST, floor),
        *(
            figure(name, taken, floor=floor, against=AGAINST, goals=(Goal("ratio", 5.0),) if name in questions else ())
            for name, taken in seconds.items()
        ),
    ]


def process(*arguments: str, given: bytes = b"", **changes: str) -> Arm:
    """Runs Python on a piece of code, with what is `given` on standard input."""
    environment = as_installed(**changes)

    async def run(_: int) -> None:
        subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
            [sys.executable, "-c", *arguments], input=given, check=True, stdout=subprocess.DEVNULL, env=environment
        )

    return run


def as_installed(**changes: str) -> dict[str, str]:
    """The variables of an installed program, with these: compiled modules are kept between runs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[1]), **changes}
