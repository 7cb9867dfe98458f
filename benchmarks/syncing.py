"""A new machine takes in all that a hub has: how long that takes, and what a store and a search cost beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx

from benchmarks.draining import params
from benchmarks.measure import Figure, Goal, Plan, by_words, figure, timed
from kingly_memory import MemoryRouter
from kingly_memory.hub.process import HubProcess
from kingly_memory.router.search.remote_side import Feeds

TURNS, AT_ONCE = 6, 100
PAUSES = {0.0: 2.0, 0.3: 5.0, 1.5: 15.0}
"""Seconds between two calls, and of a turn: one call after the other; one that comes before the sync has all the time
again; and one that comes when it has, while a page is under way."""
SYNC_S = 600.0
A_MINUTE = (Goal("p50", 60_000.0),)
LITTLE = (Goal("ratio", 1.2),)


async def measure(plan: Plan) -> list[Figure]:
    size = max(plan.sizes)
    with HubProcess(plan.folder / "synced-hub") as hub:
        await asyncio.to_thread(_fill, hub, [note.content for note in plan.writer.notes(size)])
        figures = [await _alone(plan, hub, size)]
        for pause_s, turn_s in PAUSES.items():
            figures += await _beside(plan, hub, pause_s, turn_s)
    return figures


def _fill(hub: HubProcess, texts: list[str]) -> None:
    with httpx.Client(trust_env=False, timeout=60, headers={"Kingly-Project": "bench"}) as web:
        for first in range(0, len(texts), AT_ONCE):
            each = [params(text) for text in texts[first : first + AT_ONCE]]
            body = {"method": "store_many", "params": {"memories": each}}
            web.post(f"{hub.url}/mcp/call", json=body).raise_for_status()


async def _alone(plan: Plan, hub: HubProcess, size: int) -> Figure:
    async with MemoryRouter.open(plan.folder / "new", hub.url, project="bench", settings=by_words()) as memory:
        began_s = time.process_time()
        took_s = await timed(memory.sync(timeout=SYNC_S))
        remark = f"{time.process_time() - began_s:.0f} s of processor"
    return figure(f"first sync of {size:,} memories", [took_s], goals=A_MINUTE, remark=remark)


async def _beside(plan: Plan, hub: HubProcess, pause_s: float, turn_s: float) -> list[Figure]:
    """By turns in one home, which grows: without a sync (A and A), and beside one."""
    home, seconds = Path(plan.folder / f"beside-{pause_s}"), dict[tuple[str, str], list[float]]()
    async with MemoryRouter.open(home, hub.url, project="bench", settings=by_words()) as memory:
        side = memory._engine.remotes.connections[0].side  # noqa: SLF001  # nobody else can be kept from taking in
        pull, notes, number = side._pull, plan.writer.notes(plan.samples), 0  # noqa: SLF001

        async def nothing(*_: object) -> tuple[int, Feeds]:
            return 0, ()

        for arm in ("without", "beside", "control") * (1 if plan.is_quick else TURNS):
            side._pull = pull if arm == "beside" else nothing  # noqa: SLF001
            syncing = asyncio.ensure_future(memory.sync(timeout=turn_s if arm == "beside" else 0.0))
            end_s = time.monotonic() + turn_s
            while time.monotonic() < end_s:
                text = f"{notes[number % len(notes)].content} {number}"
                is_search = number % 4 == 0
                call = memory.search(text[-60:]) if is_search else memory.store(text, significance=0.2)
                took = seconds.setdefault(("search" if is_search else "store", arm), [])
                took.append(await timed(call))
                number += 1
                await asyncio.sleep(pause_s)
            await syncing
        side._pull = nothing  # noqa: SLF001
    figures = []
    for verb in ("store", "search"):
        floor, how = seconds[verb, "without"], f"{verb}, {pause_s:g} s apart"
        figures += [
            figure(f"{how}, without a sync", floor),
            figure("the same again (A/A)", seconds[verb, "control"], floor=floor, against="without"),
            figure(
                f"{how}, beside a first sync", seconds[verb, "beside"], floor=floor, against="without", goals=LITTLE
            ),
        ]
    return figures
