"""Finding: get and search among 1 k, 10 k and 100 k memories, against raw sqlite3 on the same texts, and in each mode
against a plain search; and the quick operations together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.floor import Floor
from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, by_words, figure, timed
from benchmarks.texts import Note, Question
from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import Results, RetrievalMode
from kingly_memory.validation import Imported, draft

SAID_TOGETHER = 40
"""Notes in a row that make up one talk."""
FOCUSED = (RetrievalMode.PRECISE, RetrievalMode.RECALL, RetrievalMode.SIMILARITY)
AT_100_000 = (Goal("p50", 10.0), Goal("p99", 50.0))


async def measure(plan: Plan) -> list[Figure]:
    figures = []
    for size in plan.sizes:
        notes = plan.writer.notes(size)
        floor = Floor(plan.folder / f"floor-{size}.db")
        floor.load(notes)
        async with MemoryRouter.open(plan.folder / f"search-{size}", settings=by_words()) as memory:
            await load_talks(memory, notes)
            figures += await _get(plan, memory, floor, size)
            figures += await _search(plan, memory, floor, notes)
            figures += await _in_modes(plan, memory, notes)
        async with MemoryRouter.open(plan.folder / f"search-{size}", settings=Settings()) as memory:
            if await memory.await_vectors():
                figures += await _search(plan, memory, floor, notes, ", by meaning too")
        # Last, for it overwrites notes: among 1,000 a third of those that questions are asked about.
        async with MemoryRouter.open(plan.folder / f"search-{size}", settings=by_words()) as memory:
            figures.append(await _quick(plan, memory, size))
        floor.close()
    return figures


async def load(memory: MemoryRouter, notes: Sequence[Note]) -> None:
    """Take the notes in; keys are `k0`, `k1`, …"""
    await memory.remember(
        Imported(draft(note.content, key=f"k{at}", tags=note.tags, created_at=note.said_at))
        for at, note in enumerate(notes)
    )


async def load_talks(memory: MemoryRouter, notes: Sequence[Note]) -> None:
    """Take the notes in as what was said in talks, so that names and neighbours count as well; keys as in `load`."""
    await memory.remember(_said(number, note) for number, note in enumerate(notes))


def _said(number: int, note: Note) -> Imported:
    return Imported(
        draft(
            note.content,
            key=f"k{number}",
            type="episodic",
            tags=(*note.tags, note.speaker),
            title=f"{note.speaker}, {note.said_at:%d %B %Y}",
            context_id=f"talk {number // SAID_TOGETHER}",
            created_at=note.said_at,
        )
    )


async def _get(plan: Plan, memory: MemoryRouter, floor: Floor, size: int) -> list[Figure]:
    async def select(number: int) -> object:
        return floor.get(f"k{number * 7919 % size}")

    async def get(number: int) -> object:
        return await memory.get(f"k{number * 7919 % size}")

    seconds = await alternate({"select": select, "get": get}, plan.samples)
    return [figure(f"get by key in {size:,}", seconds["get"], floor=seconds["select"], against="raw select")]


async def _search(plan: Plan, memory: MemoryRouter, floor: Floor, notes: Sequence[Note], how: str = "") -> list[Figure]:
    questions = plan.writer.questions(notes, plan.samples + 3)
    seen: Counter[str] = Counter()

    async def match(number: int) -> object:
        return floor.match(questions[number].text)

    async def search(number: int) -> None:
        count(seen, questions[number], await memory.search(questions[number].text))

    seconds = await alternate({"match": match, "search": search}, plan.samples)
    size = len(notes)
    return [
        figure(f"raw match in {size:,}{how}", seconds["match"]),
        figure(
            f"search in {size:,}{how}",
            seconds["search"],
            floor=seconds["match"],
            against="raw match",
            goals=AT_100_000 if size == 100_000 and not how else (),
            remark=f"asked note in the first ten: {seen['found'] / seen['asked']:.0%}; cut short: {seen['cut']}",
        ),
    ]


async def _in_modes(plan: Plan, memory: MemoryRouter, notes: Sequence[Note]) -> list[Figure]:
    """A broad look and learning compare some sixty memories with each other."""
    samples = max(plan.samples // 10, 2)
    questions = plan.writer.questions(notes, samples + 3)

    def arm(mode: RetrievalMode | None) -> Arm:
        return lambda number: memory.search(questions[number].text, mode=mode)

    seconds = await alternate({str(mode): arm(mode) for mode in (None, *RetrievalMode)}, samples)
    plain = seconds.pop("None")
    return [
        figure(
            f"search in {len(notes):,}, {mode}",
            taken,
            floor=plain,
            against="search in no mode",
            goals=(Goal("ratio", 3.0 if mode in FOCUSED else 15.0),),
        )
        for mode, taken in seconds.items()
    ]


async def _quick(plan: Plan, memory: MemoryRouter, size: int) -> Figure:
    """Storing again, getting and listing, by turns."""
    seconds = []
    for number in range(plan.samples):
        key = f"k{number * 7919 % size}"
        operations = (memory.store(f"{key} again", key=key), memory.get(key), memory.list(limit=10))
        seconds.append(await timed(operations[number % 3]))
        for unused in operations:
            unused.close()
    return figure(f"store, get or list in {size:,}", seconds, goals=(Goal("p95", 10.0),))


def count(seen: Counter[str], question: Question, results: Results) -> None:
    seen["asked"] += 1
    seen["found"] += any(hit.memory.content == question.note.content for hit in results)
    seen["cut"] += any(report.cut for report in results.layers.values())
