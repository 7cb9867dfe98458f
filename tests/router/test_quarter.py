"""A hundred days of work: what is lost, and why. Nothing is that nobody asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.api.choices import TypeName
from kingly_memory.app.reading import WallClock
from kingly_memory.home.place import Place
from kingly_memory.hosts import recall
from kingly_memory.ids import MemoryId
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock

pytestmark = pytest.mark.requirement("N1")

DAYS, DAY_S = 100, 86_400.0
PLAIN: tuple[TypeName, ...] = ("semantic", "episodic", "procedural")
LASTS_DAYS: dict[TypeName, int] = {
    "working": 0,
    "task_cache": 0,
    "conversation_context": 7,
    "pattern_learning": 30,
    "skill_development": 90,
}
USED_DAILY = (*PLAIN, *(kind for kind, days in LASTS_DAYS.items() if days))
SETTINGS = Settings(durability="process", pace=Pace(closing_s=0.0, usage_flush_s=1e9))


class Kept(NamedTuple):
    """What was stored on which day, and for how many days at most; None for good."""

    what: str
    day: int
    days: int | None


async def worked(memory: MemoryRouter, day: int) -> dict[MemoryId, Kept]:
    """One day's stores, and uses of what is used daily; what was stored, by id."""
    stored: dict[MemoryId, Kept] = {}
    for kind in (*PLAIN, *LASTS_DAYS):
        receipt = await memory.store(f"Remark {day} of {kind}", type=kind, significance=(0.2, 0.5)[day % 2])
        stored[receipt.id] = Kept(kind, day, LASTS_DAYS.get(kind))
    brief = await memory.store(f"Remark {day} for two days", significance=0.9, ttl="2d")
    stored[brief.id] = Kept("ttl=2d", day, 2)
    revised = await memory.store(f"The standup of day {day}", key="standup")
    stored[revised.id] = Kept("semantic, revised daily", day, None)
    outcome = await memory.record_task_outcome(f"Deployed build {day}", "completed")
    stored[outcome.id] = Kept("task outcome", day, None)
    for kind in USED_DAILY[::2]:
        assert await memory.get(f"daily-{kind}") is not None, f"{kind} on day {day}"
    found = await memory.search("harbour opens", limit=len(USED_DAILY))
    assert {hit.memory.key for hit in found} == {f"daily-{kind}" for kind in USED_DAILY}, f"on day {day}"
    assert not any(hit.archived for hit in found)
    return stored


def reminded(home: Path, day: int) -> None:
    """What hooks read beside a prompt and at a session's start."""
    place = Place(home=home, project="app", agent=None)
    for text, remember in (
        recall.for_prompt("When does the harbour open?", f"session-{day}", place, SETTINGS),
        recall.for_start(f"session-{day}", place, SETTINGS, anew=False),
    ):
        remember(1.0)
        assert text


@pytest.mark.parametrize("policies", [None, ["lifetimes", "strength"]], ids=["by default", "strength"])
async def test_a_quarter_of_work_loses_nothing_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: Sequence[str] | None
) -> None:
    clock, home = ManualClock(), tmp_path / "home"
    monkeypatch.setattr(WallClock, "now", lambda _: clock.now())
    stored: dict[MemoryId, Kept] = {}
    async with MemoryRouter.open(home, False, project="app", settings=SETTINGS, clock=clock) as memory:
        for kind in USED_DAILY:
            receipt = await memory.store(f"The harbour opens at seven ({kind})", key=f"daily-{kind}", type=kind)
            stored[receipt.id] = Kept(f"{kind}, used daily", 0, None)
        for day in range(DAYS):
            clock.jump(DAY_S)
            stored |= await worked(memory, day)
            if day % 4 == 0:
                reminded(home, day)
                await memory.sweep(policies)
        await memory.sweep(policies)
        archived = {one.memory.id: one.why for one in (await memory.archived(limit=1_000)).entries}
        alive = {one.id for one, status in memory.export() if status == "live"}

    def fate(memory_id: MemoryId) -> str:
        why = archived.get(memory_id)
        if why is None:
            return "erased"
        return f"archived by {why.policy}: {why.reason}"

    def was_asked_for(memory_id: MemoryId, one: Kept) -> bool:
        has_ended = one.days is not None and DAYS - 1 - one.day >= one.days
        has_faded = policies is not None and "daily" not in one.what and fate(memory_id).find(" by strength: ") > 0
        return has_ended or has_faded

    lost = {memory_id: one for memory_id, one in stored.items() if memory_id not in alive}
    wrongly = [
        f"{one.what} of day {one.day}: {fate(name)}" for name, one in lost.items() if not was_asked_for(name, one)
    ]
    fates = Counter(f"{one.what}: {fate(name)}" for name, one in lost.items())
    said = "".join(f"\n{number:>6} {one}" for one, number in sorted(fates.items()))
    print(f"\nlost {len(lost)} of {len(stored)}{said}")  # noqa: T201  # shown by -s
    assert not wrongly, f"lost, and nobody asked for it: {len(wrongly)} of {len(lost)}\n" + "\n".join(wrongly)
    assert {one.what for one in lost.values()} >= {"conversation_context", "pattern_learning", "working", "ttl=2d"}
