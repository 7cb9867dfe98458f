"""The outlook: how strengths are spread, and the course of those that fall too low next; also in older stores."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidInput
from kingly_memory.router.sweeping.outlook import BINS
from kingly_memory.testing import ManualClock
from tests.store_samples import NOON, behind, memory, put

DAY_S = 86_400
LAYOUT_OF = "SELECT name, sql FROM sqlite_master ORDER BY name"
LASTING = Settings(durability="process", semantic_lifetime_s=1e10)


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


async def test_the_next_to_fall_come_soonest_first_and_their_curves_meet_the_threshold(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as router:
        for name, significance in (("first", 0.1), ("second", 0.5), ("third", 0.7), ("promise", 0.9)):
            await router.store(f"a note named {name}", key=name, significance=significance)
        await router.store("used", key="used", significance=0.5)
        await router.mark_used(["used"])
        clock.jump(30 * DAY_S)
        told = await router.outlook(limit=2)
        assert [one.memory.key for one in told.next_to_fall] == ["first", "second"]
        assert sum(told.spread) == 5
        assert len(told.spread) == BINS
        for one in told.next_to_fall:
            days = [day for day, _ in one.curve]
            heights = [height for _, height in one.curve]
            assert days == sorted(days)
            assert heights == sorted(heights, reverse=True)
            assert dict(one.curve)[0.0] == one.strength
            assert dict(one.curve)[one.falls_in_days] == pytest.approx(0.1, abs=1e-9)
            assert days[0] == pytest.approx(-30)
            assert days[-1] > one.falls_in_days
        assert told.to_json()["next_to_fall"][0]["key"] == "first"


async def test_what_has_fallen_or_never_will_is_not_next(tmp_path: Path, clock: ManualClock) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as router:
        await router.store("fallen", key="fallen", significance=0.2)
        clock.jump(200 * DAY_S)
        await router.store("of use", key="of-use", significance=0.7)
        for _ in range(20):
            await router.mark_used(["of-use"])
        told = await router.outlook()
        assert told.next_to_fall == ()
        assert told.spread[0] == 1


async def test_looking_ahead_is_no_use_of_a_memory(tmp_path: Path, clock: ManualClock) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as router:
        await router.store("x", key="x")
        clock.jump(timedelta(days=10).total_seconds())
        await router.outlook()
        told = await router.explain("x")
        assert told is not None
        assert (told["uses"]["accesses"], told["strength"]["idle_days"]) == (0, 10)


@pytest.mark.requirement("ALM-088")
async def test_a_store_from_before_there_were_strengths_has_them_without_another_layout(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old = [memory(f"note {number}", project="app", significance=0.4) for number in range(3)]
    store = DiskStore(home, durability="process")
    put(store, *old)  # the rows alone, as they were before there were any facets
    store.close()
    with behind(home) as connection:
        layout = connection.execute(LAYOUT_OF).fetchall()
    clock = ManualClock(NOON + timedelta(days=95))
    async with MemoryRouter.open(home, False, project="app", settings=LASTING, clock=clock) as router:
        told = await router.explain(old[0].id)
        assert told is not None
        assert told["strength"]["idle_days"] == pytest.approx(95)
        await router.reinforce(old[0].id)
        assert (await router.sweep(["strength"])).archived == 2
        assert len((await router.archived()).entries) == 2
        assert await router.restore(old[1].id) is not None
    with behind(home) as connection:
        assert connection.execute(LAYOUT_OF).fetchall() == layout


@pytest.mark.parametrize("limit", [-1, 101, "many"])
async def test_a_limit_must_be_a_count(tmp_path: Path, limit: int) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING) as router:
        with pytest.raises(InvalidInput, match="limit"):
            await router.outlook(limit)
