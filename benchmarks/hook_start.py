"""What a prompt waits for: the hook as a fresh process, among stored notes, with and without something to recall."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.processes import COMMAND, MOST_STARTS
from benchmarks.searching import load
from kingly_memory import MemoryRouter
from kingly_memory.hosts.hooks import HOST

PROMPT_WORDS = 20
"""Words of a prompt: those of a note, in the midst of what people write around them."""
_UNRELATED = "Could you please explain to me how people usually get rid of snails in a vegetable garden without poison?"


async def measure(plan: Plan) -> list[Figure]:
    project = plan.folder / "hooked"
    notes = plan.writer.notes(min(plan.sizes))
    note = notes[len(notes) // 2]
    async with MemoryRouter.open(project / ".kingly" / "memory", agent=HOST, settings=by_words()) as memory:
        await load(memory, notes)
        asked_about = await memory.store(note.content, origin="user", tags=note.tags)
    fitting = " ".join(("Please have a look at this:", *note.content.split()[:PROMPT_WORDS]))
    done = subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
        [sys.executable, "-m", "kingly_memory", "hook", "UserPromptSubmit"],
        input=_call(project, fitting),
        check=True,
        capture_output=True,
        env={**_environment(), "KINGLY_HOOK_DEADLINE_S": "60"},
    )
    if asked_about.id not in done.stdout.decode():
        raise RuntimeError("the hook does not recall the note that its prompt is about")
    arms = {
        "sqlite3": _process("import sqlite3"),
        "fitting": _process(COMMAND, "hook", "UserPromptSubmit", given=_call(project, fitting)),
        "unrelated": _process(COMMAND, "hook", "UserPromptSubmit", given=_call(project, _UNRELATED)),
        "nowhere": _process(COMMAND, "hook", "UserPromptSubmit", given=_call(plan.folder, fitting)),
    }
    seconds = await alternate(arms, min(plan.samples, MOST_STARTS))
    against = 'python -c "import sqlite3"'
    floor, goals = seconds["sqlite3"], (Goal("ratio", 5.0),)
    return [
        figure(against, floor),
        figure("prompt hook, recalls", seconds["fitting"], floor=floor, against=against, goals=goals),
        figure("prompt hook, nothing fits", seconds["unrelated"], floor=floor, against=against, goals=goals),
        figure("prompt hook, no memories", seconds["nowhere"], floor=floor, against=against),
    ]


def _call(folder: Path, prompt: str) -> bytes:
    """What a host writes to the hook."""
    return json.dumps({"hook_event_name": "UserPromptSubmit", "cwd": str(folder), "prompt": prompt}).encode()


def _process(*arguments: str, given: bytes = b"") -> Arm:
    """Runs Python on a piece of code, with that on standard input."""
    environment = _environment()

    async def run(_: int) -> None:
        subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
            [sys.executable, "-c", *arguments], input=given, check=True, stdout=subprocess.DEVNULL, env=environment
        )

    return run


def _environment() -> dict[str, str]:
    """That of an installed program: compiled modules are kept between runs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[1])}
