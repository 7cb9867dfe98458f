"""A long piece of work in one process: does the thousandth task take longer, or more memory, than the first?"""

from __future__ import annotations

import gc

from benchmarks.measure import Figure, Goal, Plan, by_words, figure, resident_bytes, timed
from kingly_memory import MemoryRouter

TASK_WORDS = 10
GROWTH = Goal("ratio", 2.0)


async def measure(plan: Plan) -> list[Figure]:
    """Tasks with a note, an assessment and a look at the context, in one context; the last tenth beside the first."""
    folder = plan.folder / "working"
    settings = by_words(durability="process")
    notes = [one.content for one in plan.writer.notes(plan.samples)]
    seconds: list[float] = []
    settled_bytes = 0
    async with MemoryRouter.open(folder, remote=False, project="bench", settings=settings) as memory:
        for number in range(plan.samples):
            if number == plan.samples // 10:
                settled_bytes = resident_bytes()
            seconds.append(await timed(_work(memory, notes[number])))
        gc.collect()
        grown_bytes = max(resident_bytes() - settled_bytes, 0)
    tenth = max(len(seconds) // 10, 1)
    first, last = seconds[:tenth], seconds[-tenth:]
    remark = f"{plan.samples} tasks; {grown_bytes / 1e6:.1f} MB more memory after the last than after the first tenth"
    return [
        figure("task in the first tenth of a long piece of work", first),
        figure("task in its last tenth", last, floor=first, against="first tenth", goals=(GROWTH,), remark=remark),
    ]


async def _work(memory: MemoryRouter, note: str) -> None:
    description = " ".join(note.split()[:TASK_WORDS])
    async with memory.task(description, context_id="release") as task:
        await task.note(note)
    await memory.assess_confidence(description)
    await memory.working_context("release")
