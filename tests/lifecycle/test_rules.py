"""The figures of the policies as settings say them: each counts, and whatever settings allow makes rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidSetting
from kingly_memory.models import Tier
from kingly_memory.settings import Pace, Tiers
from kingly_memory.testing import ManualClock
from tests.store_samples import NOON, behind, memory, put

DAY_S = 86_400
QUICK = Settings(durability="process", pace=Pace(usage_flush_s=1e9))


@pytest.mark.requirement("ARG-006", "ARG-019", "ARG-025")
async def test_settings_say_other_figures_of_tiers(tmp_path: Path) -> None:
    slow = replace(Tiers().configs[Tier.SLOW], importance_threshold=0.5)
    figures = Tiers({**Tiers().configs, Tier.SLOW: slow}, {**Tiers().half_lives, Tier.SLOW: 2.5}, promotion_accesses=1)
    clock = ManualClock()
    async with opened(tmp_path / "home", clock, tiers=figures) as memory:
        await memory.store("a note", key="note", significance=0.4)
        assert (await memory.stats())["tier_counts"]["glacial"] == 1
        await memory.continuum.update_outcome(["note"], success=False)
        assert (await memory.sweep(["tiers"])).to_json()["actions"][0]["to"] == "slow"


# --- through the router ---------------------------------------------------------------------------------------------


def opened(home: Path, clock: ManualClock, **said: Any) -> MemoryRouter:
    return MemoryRouter.open(home, False, project="app", settings=replace(QUICK, **said), clock=clock)


async def told(memory: MemoryRouter, key: str = "note") -> Any:
    explained = await memory.explain(key)
    assert explained is not None
    return explained


@pytest.mark.requirement("ALM-093")
async def test_without_decay_nothing_is_shown_to_fade(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path / "home", clock, decay_enabled=False) as memory:
        for number in range(3):
            await memory.store(f"note {number}", key=f"k{number}")
        clock.jump(1_000 * DAY_S)
        strength = (await told(memory, "k0"))["strength"]
        assert (strength["strength"], strength["state"]) == (0.75, "strong")
        assert (await memory.stats())["strength"] == {"strong": 3, "normal": 0, "weak": 0, "forgettable": 0}
        weak = await memory.weak()
        assert (weak.forgettable, weak.recoverable) == ((), ())
        assert (await memory.sweep(["strength"])).archived == 0


@pytest.mark.requirement("ALM-088")
async def test_a_store_from_before_there_were_strengths_has_them_without_another_layout(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old = [memory(f"note {number}", project="app", significance=0.4) for number in range(3)]
    store = DiskStore(home, durability="process")
    put(store, *old)  # the rows alone, as they were before there were any facets
    store.close()
    with behind(home) as connection:
        layout = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    clock = ManualClock(NOON + timedelta(days=95))
    async with MemoryRouter.open(
        home, False, project="app", settings=Settings(durability="process"), clock=clock
    ) as router:
        told = await router.explain(old[0].id)
        assert told is not None
        assert told["strength"]["idle_days"] == pytest.approx(95)
        await router.reinforce(old[0].id)
        assert (await router.sweep(["strength"])).archived == 2
        assert len((await router.archived()).entries) == 2
        assert await router.restore(old[1].id) is not None
    with behind(home) as connection:
        assert connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall() == layout


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"configs": {}}, "tiers.configs: needs a value for each of fast, medium, slow, glacial"),
        ({"configs": dict.fromkeys(Tier, 1)}, "tiers.configs: needs a TierConfig"),
        ({"half_lives": {Tier.FAST: 1.0}}, "tiers.half_lives: needs a value for each"),
        ({"half_lives": dict.fromkeys(Tier, 0)}, "tiers.half_lives: needs a number of hours above 0"),
        ({"half_lives": dict.fromkeys(Tier, "1")}, "tiers.half_lives: needs a number of hours above 0"),
        ({"promotion_accesses": -1}, "tiers.promotion_accesses: -1 is not a whole number of 1 or more"),
        ({"surprise_threshold": 7}, "tiers.surprise_threshold: 7 is not a number from 0 to 1"),
        ({"success_references": "x"}, "tiers.success_references: 'x' is not a whole number"),
    ],
)
def test_figures_of_tiers_that_cannot_be_used_are_refused(figures: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        Tiers(**figures)
