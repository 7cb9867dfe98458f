"""Storing: one at a time against a raw insert at the same durability, and many at once against one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from benchmarks.floor import Floor
from benchmarks.measure import Figure, Goal, Plan, alternate, by_words, figure, percentile
from benchmarks.texts import Note
from kingly_memory import MemoryRouter, SyncMemoryRouter

AT_ONCE = 64
DURABILITIES: tuple[Literal["power", "process"], ...] = ("power", "process")


async def measure(plan: Plan) -> list[Figure]:
    figures = []
    for durability in DURABILITIES:
        figures += await _one_at_a_time(plan, durability)
    return [*figures, await _at_once(plan)]


async def _one_at_a_time(plan: Plan, durability: Literal["power", "process"]) -> list[Figure]:
    notes = plan.writer.notes(plan.samples + 3)
    floor = Floor(plan.folder / f"floor-{durability}.db", durability)
    settings = by_words(durability=durability)
    async with MemoryRouter.open(plan.folder / f"store-{durability}", settings=settings) as memory:
        with SyncMemoryRouter.open(plan.folder / f"store-sync-{durability}", settings=settings) as sync_memory:

            async def insert(number: int) -> None:
                floor.insert(f"k{number}", notes[number])

            async def store(number: int) -> None:
                await memory.store(notes[number].content, tags=notes[number].tags)

            async def store_sync(number: int) -> None:
                sync_memory.store(notes[number].content, tags=notes[number].tags)

            arms = {"insert": insert, "store": store, "sync": store_sync}
            seconds = await alternate(arms, plan.samples)
    floor.close()
    against = f"raw insert, {durability}"
    goals = (Goal("ratio", 4.0), Goal("p99", 10.0)) if durability == "power" else ()
    return [
        figure(against, seconds["insert"]),
        figure(f"store, {durability}", seconds["store"], floor=seconds["insert"], against=against, goals=goals),
        figure(f"store, {durability}, sync router", seconds["sync"], floor=seconds["insert"], against=against),
    ]


async def _at_once(plan: Plan) -> Figure:
    """Seconds per store when 64 callers wait together, against one caller; both acknowledged after their commit."""
    rounds = max(2, plan.samples // 25)
    notes = plan.writer.notes(AT_ONCE)
    together: list[float] = []
    alone: list[float] = []
    async with MemoryRouter.open(plan.folder / "at-once", settings=by_words()) as memory:
        for _ in range(rounds):
            alone.append(await _sequential(memory, notes))
            together.append(await _concurrent(memory, notes))
    gain = percentile(alone, 50) / percentile(together, 50)
    return figure(
        f"store, {AT_ONCE} at once",
        together,
        floor=alone,
        against="one at a time",
        goals=(Goal("ratio", 1 / 8),),
        remark=f"{gain:.1f} × the throughput, {1 / percentile(together, 50):,.0f} a second",
    )


async def _sequential(memory: MemoryRouter, notes: Sequence[Note]) -> float:
    began = time.perf_counter()
    for note in notes:
        await memory.store(note.content)
    return (time.perf_counter() - began) / len(notes)


async def _concurrent(memory: MemoryRouter, notes: Sequence[Note]) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(memory.store(note.content) for note in notes))
    return (time.perf_counter() - began) / len(notes)
