"""Finding among 1,000,000 memories, which take minutes to write: measured in a full run, or when it is named."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator

from benchmarks.filling import fill, utterance
from benchmarks.measure import Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.searching import count
from benchmarks.texts import Note, Writer
from kingly_memory import MemoryRouter
from kingly_memory.models import Memory

SIZE = 1_000_000
AT_ONCE = 20_000
"""Notes that are in memory together."""
ASKED_ABOUT = 0.002
"""Share of the notes that a question may be about."""
MOST_SAMPLES = 500
GOALS = (Goal("p50", 60.0), Goal("max", 100.0))


async def measure(plan: Plan) -> list[Figure]:
    if plan.is_quick:
        return []
    home, asked_about = plan.folder / "million", list[Note]()
    took_s = fill(home, _memories(plan.writer, asked_about))
    size_mb = sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) / 1e6
    questions = plan.writer.questions(asked_about, min(plan.samples, MOST_SAMPLES) + 3)
    seen: dict[str, Counter[str]] = {"first": Counter(), "again": Counter()}
    async with MemoryRouter.open(home, project="own", settings=by_words()) as memory:

        async def first(number: int) -> None:
            count(seen["first"], questions[number], await memory.search(questions[number].text))

        async def again(number: int) -> None:
            count(seen["again"], questions[-1 - number], await memory.search(questions[-1 - number].text))

        seconds = await alternate({"first": first, "again": again}, len(questions) - 3)
    shutil.rmtree(home)
    found = seen["first"]
    remark = f"asked note in the first ten: {found['found'] / found['asked']:.0%}; cut short: {found['cut']}"
    built = f"built in {took_s:.0f} s, {size_mb:,.0f} MB"
    return [
        figure(f"search in {SIZE:,}", seconds["first"], goals=GOALS, remark=f"{remark}; {built}"),
        figure(
            "the same again (A/A), 1,000,000",
            seconds["again"],
            floor=seconds["first"],
            against=f"search in {SIZE:,}",
            remark=f"cut short: {seen['again']['cut']}",
        ),
    ]


def _memories(writer: Writer, asked_about: list[Note]) -> Iterator[Memory]:
    chance = random.Random(0)
    for start in range(0, SIZE, AT_ONCE):
        for number, note in enumerate(writer.notes(AT_ONCE), start):
            if chance.random() < ASKED_ABOUT:
                asked_about.append(note)
            title = f"{note.speaker}, {note.said_at:%d %B %Y}"
            yield utterance(note.content, number, "own", tags=(*note.tags, note.speaker), title=title)
