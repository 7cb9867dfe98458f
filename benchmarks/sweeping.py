"""A sweep over all that is stored: its time, its memory, and what stores and searches meanwhile notice of it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.measure import Figure, Goal, Plan, by_words, figure, resident_bytes, timed
from benchmarks.texts import Note, Question
from kingly_memory import MemoryRouter
from kingly_memory.settings import Lifetimes
from kingly_memory.testing import ManualClock
from kingly_memory.validation import Imported, draft

FULL = 100_000
QUICK_TIMES = 5
"""A quick run sweeps over so many times the largest store of the other families."""
FADED = 20
"""Every twentieth memory has faded, and there are as many of another project whose lifetimes end."""
ROUNDS = 3
DAY_S = 86_400.0
LASTING = by_words()
PASSING = by_words(lifetimes=Lifetimes(semantic=DAY_S))
AT_FULL = (Goal("max", 10_000.0), Goal("grown_mb", 200.0))
MEANWHILE = (Goal("ratio_p99", 2.0),)


async def measure(plan: Plan) -> list[Figure]:
    largest = max(plan.sizes)
    size = largest if largest >= FULL else largest * QUICK_TIMES
    notes = plan.writer.notes(size)
    clock = ManualClock()
    async with _opened(plan.folder / "sweep", notes, clock) as memory:
        planned = await _swept(memory, "plan of a sweep", size, dry_run=True)
        carried_out = await _swept(memory, "sweep", size, dry_run=False)
        questions = plan.writer.questions(notes, plan.samples)
        meanwhile = await _meanwhile(memory, clock, questions)
    return [planned, carried_out, *meanwhile]


@asynccontextmanager
async def _opened(home: Path, notes: Sequence[Note], clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    """A project with all of the notes, of which some have faded, beside another one with some that will end."""
    async with MemoryRouter.open(home, project="passing", settings=PASSING, clock=clock) as memory:
        await memory.remember(_said(note) for note in notes[::FADED])
    async with MemoryRouter.open(home, project="lasting", settings=LASTING, clock=clock) as memory:
        long_ago = clock.now() - timedelta(days=365)
        await memory.remember(_said(note, None if at % FADED else long_ago) for at, note in enumerate(notes))
        yield memory


def _said(note: Note, at: datetime | None = None) -> Imported:
    return Imported(draft(note.content, tags=note.tags, created_at=at))


async def _swept(memory: MemoryRouter, what: str, size: int, *, dry_run: bool) -> Figure:
    async def sweep() -> str:
        report = await memory.sweep(["lifetimes", "strength"], dry_run=dry_run)
        return f"{report.archived:,} {'to go' if dry_run else 'archived'}"

    return await _once(f"{what} over {size:,}, processor", sweep, AT_FULL if size == FULL else ())


async def _once(name: str, work: Callable[[], Awaitable[str]], goals: tuple[Goal, ...]) -> Figure:
    """In the time of a processor: on a shared machine the time on the wall says how busy the others were."""
    with _peak_bytes() as peak:
        began, began_cpu = time.perf_counter(), time.process_time()
        came_of_it = await work()
        cpu_s, wall_s = time.process_time() - began_cpu, time.perf_counter() - began
    grown_mb = max(peak) / 1e6
    remark = f"{came_of_it}; {wall_s:.1f} s on the wall; {grown_mb:.0f} MB more at most"
    return figure(name, [cpu_s], goals=goals, remark=remark, grown_mb=grown_mb)


@contextmanager
def _peak_bytes() -> Iterator[list[int]]:
    """How much larger the process grows on the way, looked at many times a second."""
    before, done = resident_bytes(), threading.Event()
    grown = [0]

    def look() -> None:
        while not done.wait(0.02):
            grown.append(resident_bytes() - before)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield grown
    finally:
        done.set()
        looking.join()


async def _meanwhile(memory: MemoryRouter, clock: ManualClock, questions: Sequence[Question]) -> list[Figure]:
    """Stores and searches by turns: while nothing is swept (twice, A and A) and while a sweep is under way (B)."""
    seconds: dict[str, list[float]] = {f"{verb} {arm}": [] for verb in ("store", "search") for arm in "AaB"}
    asked = itertools.cycle(questions)
    for round_number in range(ROUNDS):
        clock.jump(2 * DAY_S)
        sweep = asyncio.create_task(memory.sweep(["lifetimes", "strength"]))
        pairs = 0
        while not sweep.done():
            await _pair(memory, next(asked), seconds, "B")
            pairs += 1
        await sweep
        await memory.undo_sweep()
        for arm in ("Aa", "aA")[round_number % 2]:
            for _ in range(pairs):
                await _pair(memory, next(asked), seconds, arm)
    return [
        row
        for verb in ("store", "search")
        for row in (
            figure(f"{verb}, nothing is swept", seconds[f"{verb} A"]),
            _against(verb, "the same again (A/A), {}", seconds, "a"),
            _against(verb, "{} during a sweep", seconds, "B", goals=MEANWHILE),
        )
    ]


async def _pair(memory: MemoryRouter, question: Question, seconds: dict[str, list[float]], arm: str) -> None:
    seconds[f"store {arm}"].append(await timed(memory.store(f"{question.note.content} {question.text}")))
    seconds[f"search {arm}"].append(await timed(memory.search(question.text)))


def _against(verb: str, name: str, seconds: dict[str, list[float]], arm: str, goals: tuple[Goal, ...] = ()) -> Figure:
    floor = seconds[f"{verb} A"]
    return figure(
        name.format(verb), seconds[f"{verb} {arm}"], floor=floor, against=f"{verb}, nothing is swept", goals=goals
    )
