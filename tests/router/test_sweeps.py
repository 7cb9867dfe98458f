"""Sweeps through the router: what is planned is done, what is done can be taken back, what is protected stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.errors import InvalidInput
from kingly_memory.observe import Event, MemoriesSwept
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

DAY_S = 86_400
LASTING = Settings(durability="process")
"""Nothing ends by itself, so that what leaves was taken by another policy."""


@pytest.fixture
async def memory(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", project="app", settings=LASTING, clock=clock) as router:
        yield router


async def keys(memory: MemoryRouter) -> list[str]:
    return sorted(one.key or "" for one in await memory.list(limit=100))


@pytest.mark.requirement("ALM-041")
async def test_what_has_faded_goes_to_the_archive_and_what_was_used_stays(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    for name in ("old", "used", "kept"):
        await memory.store(f"a note named {name}", key=name)
    clock.jump(95 * DAY_S)
    await memory.get("used")
    report = await memory.sweep(["strength"])
    assert (report.archived, report.spared) == (2, 0)
    assert await keys(memory) == ["used"]
    [old] = [one for one in (await memory.archived()).entries if one.memory.key == "old"]
    assert old.why is not None
    assert (old.why.policy, old.why.reason) == ("strength", "its strength is below 0.1")
    assert old.why.figures["idle_days"] == 95


@pytest.mark.requirement("ALM-044")
async def test_the_last_of_a_category_stays(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.store("weaker", key="weaker", significance=0.4)
    await memory.store("stronger", key="stronger", significance=0.5)
    clock.jump(365 * DAY_S)
    report = await memory.sweep(["strength"])
    assert (report.archived, report.spared) == (1, 1)
    assert await keys(memory) == ["stronger"]


@pytest.mark.requirement("ALM-042")
async def test_what_is_significant_outlives_every_policy(tmp_path: Path, clock: ManualClock) -> None:
    async with MemoryRouter.open(tmp_path / "home", project="app", clock=clock) as memory:
        await memory.store("our one promise", key="promise", significance=0.9)
        for number in range(3):
            await memory.store(f"note {number}", key=f"note-{number}", significance=0.4)
        clock.jump(365 * DAY_S)
        report = await memory.sweep(["lifetimes", "strength", "tiers"])
        assert report.archived == 3
        assert await keys(memory) == ["promise"]
        assert len(await memory.search("promise")) == 1


@pytest.mark.requirement("SMT-045")
async def test_dry_run_says_what_the_sweep_then_does(memory: MemoryRouter, clock: ManualClock) -> None:
    for number in range(5):
        await memory.store(f"note {number}", key=f"note-{number}", significance=0.3 + number / 10)
    clock.jump(100 * DAY_S)
    dry = await memory.sweep(["lifetimes", "strength", "tiers"], dry_run=True)
    assert len(await keys(memory)) == 5
    wet = await memory.sweep(["lifetimes", "strength", "tiers"])
    assert {**dry.to_json(), "dry_run": False} == wet.to_json()
    assert wet.archived == (await memory.status())["memories"]["archived"] == 5 - len(await keys(memory))


@pytest.mark.requirement("ALM-038")
async def test_reinforced_memory_does_not_fade(memory: MemoryRouter, clock: ManualClock) -> None:
    for name in ("held", "left", "other"):
        await memory.store(f"a note named {name}", key=name)
    clock.jump(95 * DAY_S)
    weak = await memory.weak()
    assert len(weak.forgettable) == 3
    answer = await memory.reinforce("held")
    assert (answer["state"], answer["reinforcements"]) == ("strong", 1)
    assert len((await memory.weak()).forgettable) == 2
    await memory.sweep(["strength"])
    assert "held" in await keys(memory)


@pytest.mark.requirement("ARG-018")
async def test_successes_lift_a_memory_by_one_tier(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.store("the way that worked", key="way", significance=0.4)
    for _ in range(3):
        assert await memory.continuum.update_outcome(["way"], success=True) == 1
    report = await memory.sweep(["tiers"])
    assert (report.promoted, report.demoted) == (1, 0)
    [action] = report.actions
    assert (action["does"], action["to"]) == ("promote", "medium")
    explained = await memory.explain("way")
    assert explained is not None
    assert explained["tier"]["name"] == "medium"
    assert await memory.undo_sweep() == (1, 0)
    explained = await memory.explain("way")
    assert explained is not None
    assert explained["tier"]["name"] == "slow"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda memory: memory.sweep(["dust"]), "'dust' is unknown; choose one of lifetimes, strength, tiers"),
        (lambda memory: memory.reinforce("nobody"), "nothing is stored under 'nobody'"),
        (
            lambda memory: memory.continuum.update_outcome(["there", "nobody"], success=False),
            "nothing is stored under 'nobody'",
        ),
        (lambda memory: memory.archived(limit=0), "limit"),
    ],
)
async def test_wrong_words_are_refused_and_change_nothing(memory: MemoryRouter, call, says: str) -> None:  # type: ignore[no-untyped-def]  # any verb
    await memory.store("there it is", key="there")
    with pytest.raises(InvalidInput, match=says):
        await call(memory)
    explained = await memory.explain("there")
    assert explained is not None
    assert explained["uses"]["accesses"] == 0


@pytest.mark.requirement("ARG-056", "ARG-057")
async def test_stats_count_tiers_moves_of_the_last_hour_and_what_searches_found(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.store("the way that worked", key="way", significance=0.4)
    for _ in range(3):
        await memory.continuum.update_outcome(["way"], success=True)
    await memory.sweep(["tiers"])
    await memory.search("way")
    await memory.search("zzz")
    await memory.search_verified("way")
    await memory.search_verified("zzz")
    stats = await memory.stats()
    assert stats["tier_counts"] == {"fast": 0, "medium": 1, "slow": 0, "glacial": 0}
    assert (stats["promotions_last_hour"], stats["hit_rate"]) == (1, 0.5)
    clock.jump(3_600)
    assert (await memory.stats())["promotions_last_hour"] == 0


@pytest.mark.requirement("ARG-056")
async def test_what_a_verb_looks_up_for_itself_is_no_search_that_found_nothing(memory: MemoryRouter) -> None:
    await memory.store("the way that worked", key="way")
    await memory.search("way")
    await memory.assess_confidence("zzz")
    await memory.route_task("zzz", ["anna", "bert"])
    assert (await memory.stats())["hit_rate"] == 1.0
    await memory.stream("anna").recall("zzz")  # this is one
    assert (await memory.stats())["hit_rate"] == 0.5


@pytest.mark.requirement("ALM-093")
@pytest.mark.parametrize(("is_on", "demoted"), [(True, 1), (False, 0)])
async def test_tiers_are_asked_when_they_are_switched_on(
    tmp_path: Path, clock: ManualClock, is_on: bool, demoted: int
) -> None:
    settings = replace(LASTING, tiers_enabled=is_on)
    async with MemoryRouter.open(tmp_path / "home", project="app", settings=settings, clock=clock) as memory:
        await memory.store("it fades", significance=0.6)
        clock.jump(DAY_S)
        report = await memory.sweep()
        assert (report.demoted, "tiers" in report.policies) == (demoted, is_on)
        assert (await memory.sweep(["tiers"], dry_run=True)).demoted == 1 - demoted


async def test_open_router_sweeps_all_its_spaces_once_per_interval_when_told_to(
    tmp_path: Path, clock: ManualClock
) -> None:
    settings = Settings(durability="process", sweep_interval_s=3_600.0, pace=Pace(usage_flush_s=100_000.0))
    seen: list[Event] = []
    swept = asyncio.Event()

    def note(event: Event) -> None:
        seen.extend([event] if isinstance(event, MemoriesSwept) else [])
        if len(seen) == 2:
            swept.set()

    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, clock, settings=settings, observers=(note,)) as memory:
        view = memory.scoped(user="ann")
        await memory.store("an episode", key="episode", type="conversation_context")
        await view.store("a note")
        clock.jump(8 * DAY_S)
        await clock.advance(3_600)
        await asyncio.wait_for(swept.wait(), 60)
        assert len(seen) == 2
        assert (await memory.status())["memories"]["archived"] == 1


# --- several projects in one home -----------------------------------------------------------------------------------


@pytest.fixture
async def other(tmp_path: Path, memory: MemoryRouter, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", project="other", settings=LASTING, clock=clock) as router:
        yield router


async def test_every_project_is_swept_in_its_own_time(tmp_path: Path, clock: ManualClock) -> None:
    settings = replace(
        LASTING, sweep_interval_s=3_600.0, pace=replace(LASTING.pace, usage_flush_s=1e9), auto_forget_enabled=True
    )
    swept: dict[str, asyncio.Event] = {"app": asyncio.Event(), "other": asyncio.Event()}
    home = tmp_path / "home"
    routers = [
        router_over(PromptStore(home), None, clock, settings=settings, project=name, observers=(_setting(swept[name]),))
        for name in swept
    ]
    async with routers[0], routers[1]:
        await routers[0].sweep()
        swept["app"].clear()
        await clock.advance(1_800)
        await routers[1].sweep()
        swept["other"].clear()
        await clock.advance(1_800)
        await asyncio.wait_for(swept["app"].wait(), 60)
        assert not swept["other"].is_set()
        await clock.advance(3_600)
        await asyncio.wait_for(swept["other"].wait(), 60)


def _setting(event: asyncio.Event) -> Callable[[Event], None]:
    def note(seen: Event) -> None:
        if isinstance(seen, MemoriesSwept):
            event.set()

    return note


# --- what can be taken back -----------------------------------------------------------------------------------------


async def fade(memory: MemoryRouter, clock: ManualClock) -> None:
    for number in range(3):
        await memory.store(f"note {number}", key=f"note-{number}", significance=0.4)
    clock.jump(200 * DAY_S)


@pytest.mark.requirement("SMT-045")
async def test_a_sweep_that_does_nothing_leaves_the_one_before_to_be_taken_back(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await fade(memory, clock)
    await memory.sweep(["strength"])
    clock.jump(60)
    assert (await memory.sweep(["strength"])).archived == 0
    assert memory._engine.sweeper.last_s("app") == clock.now().timestamp()
    assert await memory.undo_sweep() == (2, 0)


@pytest.mark.requirement("SMT-045")
async def test_undo_leaves_away_what_was_put_away_by_hand_since(memory: MemoryRouter, clock: ManualClock) -> None:
    await fade(memory, clock)
    await memory.sweep(["strength"])
    mine, other = (one.memory for one in (await memory.archived()).entries)
    await memory.restore(mine.id)
    await memory.archive(mine.id, "done with it")
    assert await memory.undo_sweep() == (1, 0)
    assert [one.memory.id for one in (await memory.archived()).entries] == [mine.id]
    assert other.key in await keys(memory)
