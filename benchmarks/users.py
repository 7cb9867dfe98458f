"""What a thousand users in one process take: a view each, ten memories each, and a search."""

from __future__ import annotations

import gc
import time

from benchmarks.measure import Figure, Goal, Plan, figure, resident_bytes, timed
from kingly_memory import MemoryRouter, Settings

USERS, QUICK_USERS = 1_000, 100
MEMORIES = 10
GOALS = (Goal("grown_mb", 200.0),)


async def measure(plan: Plan) -> list[Figure]:
    count = QUICK_USERS if plan.is_quick else USERS
    settings = Settings(durability="process", embedder="none")
    async with MemoryRouter.open(plan.folder / "users", False, project="bench", settings=settings) as memory:
        await memory.store("who is there?")
        before = resident_bytes()
        views, stored, searched = [], list[float](), list[float]()
        for number in range(count):
            view = memory.scoped(user=f"user {number}")
            views.append(view)
            notes = [{"content": f"note {at} of user {number}"} for at in range(MEMORIES)]
            stored.append(await timed(view.store_many(notes)))
            began = time.perf_counter()
            found = await view.search("note")
            searched.append(time.perf_counter() - began)
            assert {hit.memory.scope.user for hit in found} <= {f"user {number}"}  # noqa: S101
        gc.collect()
        grown = (resident_bytes() - before) / 1e6
    remark = f"the process has grown by {grown:.0f} MB"
    return [
        figure(f"store {MEMORIES} at once, {count:,} users", stored, goals=GOALS, remark=remark, grown_mb=grown),
        figure(f"search among {MEMORIES} of one's own, {count:,} users", searched),
    ]
