"""What a prompt waits for: the hook as a fresh process, among stored notes, with and without something to recall."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.processes import AGAINST, COMMAND, MOST_STARTS, as_installed, process
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
        env=as_installed(KINGLY_HOOK_DEADLINE_S="60"),
    )
    if asked_about.id not in done.stdout.decode():
        raise RuntimeError("the hook does not recall the note that its prompt is about")
    arms = {
        "sqlite3": process("import sqlite3"),
        "fitting": process(COMMAND, "hook", "UserPromptSubmit", given=_call(project, fitting)),
        "unrelated": process(COMMAND, "hook", "UserPromptSubmit", given=_call(project, _UNRELATED)),
        "nowhere": process(COMMAND, "hook", "UserPromptSubmit", given=_call(plan.folder, fitting)),
    }
    seconds = await alternate(arms, min(plan.samples, MOST_STARTS))
    floor, goals = seconds["sqlite3"], (Goal("ratio", 5.0),)
    return [
        figure(AGAINST, floor),
        figure("prompt hook, recalls", seconds["fitting"], floor=floor, against=AGAINST, goals=goals),
        figure("prompt hook, nothing fits", seconds["unrelated"], floor=floor, against=AGAINST, goals=goals),
        figure("prompt hook, no memories", seconds["nowhere"], floor=floor, against=AGAINST),
    ]


def _call(folder: Path, prompt: str) -> bytes:
    """What a host writes to the hook."""
    return json.dumps({"hook_event_name": "UserPromptSubmit", "cwd": str(folder), "prompt": prompt}).encode()
