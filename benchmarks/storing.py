"""Storing, in blocks by turns: against a raw insert, against the least that could commit the same tables, and against
LangGraph's stores where they are installed; alone, and 64 callers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, closing
from itertools import count
from typing import Literal

from benchmarks import peers
from benchmarks.floor import Floor, SameTables
from benchmarks.measure import Arm, Figure, Goal, Plan, by_words, figure, in_blocks, percentile, timed
from benchmarks.texts import Note
from kingly_memory import MemoryRouter, SyncMemoryRouter

AT_ONCE = 64
MANY = 10_000
DURABILITIES: tuple[Literal["power", "process"], ...] = ("power", "process")
SAME = "raw writer thread, same tables"
MOST_RATIO = 1.5
LEAST_A_SECOND = 6_000
Put = Callable[[str, Note], Awaitable[object]]


async def measure(plan: Plan) -> list[Figure]:
    figures = []
    for durability in DURABILITIES:
        figures += await _alone(plan, durability)
    return [*figures, *await _at_once(plan), await _many(plan)]


async def _alone(plan: Plan, durability: Literal["power", "process"]) -> list[Figure]:
    folder = plan.folder / f"alone-{durability}"
    folder.mkdir()
    notes = plan.writer.notes(plan.samples + 3)
    settings = by_words(durability=durability)
    async with AsyncExitStack() as opened:
        raw = opened.enter_context(closing(Floor(folder / "raw.db", durability)))
        same, again = (opened.enter_context(closing(SameTables(folder / n, durability))) for n in "AB")
        memory = await opened.enter_async_context(MemoryRouter.open(folder / "ours", settings=settings))
        sync_memory = opened.enter_context(SyncMemoryRouter.open(folder / "ours-sync", settings=settings))
        others = await opened.enter_async_context(peers.langgraph(folder)) if durability == "power" else {}

        async def insert(key: str, note: Note) -> None:
            raw.insert(key, note)

        async def store(_: str, note: Note) -> None:
            await memory.store(note.content, tags=note.tags)

        async def store_sync(_: str, note: Note) -> None:
            sync_memory.store(note.content, tags=note.tags)

        puts: dict[str, Put] = {
            "raw insert, one table": insert,
            SAME: same.store,
            "the same again (A/A)": again.store,
            "store": store,
            "store, blocking": store_sync,
            **others,
        }
        seconds = await in_blocks({name: _arm(put, notes) for name, put in puts.items()}, plan.samples)
    goals = {"store": (Goal("ratio", MOST_RATIO), Goal("p99", 10.0))} if durability == "power" else {}
    return [
        figure(f"{name}, {durability}", took, floor=seconds[SAME], against=SAME, goals=goals.get(name, ()))
        for name, took in seconds.items()
    ]


def _arm(put: Put, notes: list[Note]) -> Arm:
    return lambda number: put(f"k{number}", notes[number])


async def _at_once(plan: Plan) -> list[Figure]:
    """Seconds per store when 64 callers wait together; each is acknowledged after its commit."""
    folder = plan.folder / "at-once"
    folder.mkdir()
    rounds = max(2, plan.samples // 25)
    notes = plan.writer.notes(AT_ONCE * (rounds + 1))  # one that is stored again would only be seen once more
    async with AsyncExitStack() as opened:
        same, again = (opened.enter_context(closing(SameTables(folder / n))) for n in "AB")
        memory = await opened.enter_async_context(MemoryRouter.open(folder / "ours", settings=by_words()))
        others = await opened.enter_async_context(peers.langgraph(folder))

        async def store(_: str, note: Note) -> None:
            await memory.store(note.content, tags=note.tags)

        puts: dict[str, Put] = {SAME: same.store, "the same again (A/A)": again.store, "store": store}
        puts |= {name: put for name, put in others.items() if "Async" in name}
        alone = [await _together(store, [note], count()) for note in notes[:AT_ONCE]]
        seconds = await _rounds(puts, notes[AT_ONCE:])
    floor = seconds[SAME]
    return [_of_many(name, took, floor, alone) for name, took in seconds.items()]


async def _many(plan: Plan) -> Figure:
    """Seconds of each of many facts of one sentence that `store_many` takes together, into a store that is warm."""
    seconds, many = [], min(MANY, 100 * plan.samples)
    async with MemoryRouter.open(plan.folder / "many", settings=by_words()) as memory:
        for turn in range(6):
            facts = [
                f"Parcel {turn}-{number} leaves the Lisbon depot at {number % 24}:30 with the red van"
                for number in range(many)
            ]
            seconds.append(await timed(memory.store_many(facts)) / many)
    warm = seconds[1:]
    return figure(
        f"store_many, {many:,} facts",
        warm,
        goals=(Goal("p50", 0.1),),
        remark=f"{1 / percentile(warm, 50):,.0f} a second",
    )


async def _rounds(puts: Mapping[str, Put], notes: list[Note]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in puts}
    numbers = count()
    for at in range(0, len(notes), AT_ONCE):
        for name, put in puts.items():
            seconds[name].append(await _together(put, notes[at : at + AT_ONCE], numbers))
    return seconds


async def _together(put: Put, notes: list[Note], numbers: count[int]) -> float:
    return await timed(asyncio.gather(*(put(f"n{next(numbers)}", note) for note in notes))) / len(notes)


def _of_many(name: str, took: list[float], floor: list[float], alone: list[float]) -> Figure:
    a_second = 1 / percentile(took, 50)
    remark = f"{a_second:,.0f} a second"
    goals: tuple[Goal, ...] = ()
    if name == "store":
        remark += f", {percentile(alone, 50) * a_second:.1f} × that of one caller; {LEAST_A_SECOND:,} wanted"
        goals = (Goal("ratio", MOST_RATIO),)
    return figure(f"{name}, {AT_ONCE} at once", took, floor=floor, against=SAME, goals=goals, remark=remark)
