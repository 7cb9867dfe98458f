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
from kingly_memory.lifecycle.policies import LifecycleRules
from kingly_memory.lifecycle.tiers import SEEDS_TIERS
from kingly_memory.models import Tier
from kingly_memory.settings import Pace, Tiers
from kingly_memory.testing import ManualClock
from tests.store_samples import NOON, behind, memory, put

DAY_S = 86_400
QUICK: dict[str, Any] = {"durability": "process", "pace.usage_flush_s": 1e9}


def settings_of(said: dict[str, Any]) -> Settings:
    """Settings by the names that a file gives them."""
    own: dict[str, Any] = {}
    tables: dict[str, Any] = {"tiers": Tiers(), "pace": Pace()}
    for name, value in said.items():
        table, _, key = name.rpartition(".")
        if table:
            tables[table] = replace(tables[table], **{key: value})
        else:
            own[key] = value
    return Settings(**own, **tables)


@pytest.mark.requirement("ARG-006", "ARG-025")
@pytest.mark.parametrize("tier", Tier)
def test_every_figure_of_a_tier_can_be_set(tier: Tier) -> None:
    name = tier.value
    said: dict[str, Any] = {f"{name}_ttl_s": 7.0, f"{name}_max_items": 3, f"{name}_half_life_hours": 2.5}
    rules = LifecycleRules.of(Settings(tiers=Tiers(**said))).tiers
    config = rules.configs[tier]
    assert (config.ttl_seconds, config.max_items, rules.half_lives[tier]) == (7.0, 3, 2.5)
    others = [one for one in Tier if one is not tier]
    assert [rules.configs[one] for one in others] == [SEEDS_TIERS.configs[one] for one in others]


@pytest.mark.requirement("ARG-019")
def test_the_thresholds_of_tiers_and_promotions_can_be_set() -> None:
    said = Settings(
        tiers=Tiers(
            fast_threshold=0.9,
            medium_threshold=0.6,
            slow_threshold=0.2,
            promotion_accesses=1,
            surprise_threshold=0.1,
            success_references=9,
        ),
    )
    rules = LifecycleRules.of(said).tiers
    assert [rules.configs[tier].importance_threshold for tier in Tier] == [0.9, 0.6, 0.2, 0.0]
    assert (rules.promotion_accesses, rules.surprise_threshold, rules.success_references) == (1, 0.1, 9)
    assert rules.glacial_entry == 0.2, "slow is left below where it begins"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"tiers.fast_threshold": 0.5},
            "setting tiers.fast_threshold: 0.5 is not above medium_threshold, which is 0.5; raise it",
        ),
        (
            {"tiers.slow_threshold": 0.6},
            "setting tiers.medium_threshold: 0.5 is not above slow_threshold, which is 0.6",
        ),
        ({"tiers.slow_threshold": 0.0}, "setting tiers.slow_threshold: 0.0 is not a number"),
        (
            {"tiers.surprise_threshold": 0.9},
            "setting tiers.surprise_threshold: 0.9 is not a number above 0 and at most 0.65",
        ),
        ({"tiers.medium_max_items": 0}, "setting tiers.medium_max_items: 0 is not a whole number of 1 or more"),
    ],
)
def test_figures_that_make_no_sense_are_refused_by_the_names_that_were_said(
    said: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidSetting, match=f"^{sentence}"):
        settings_of(said)


# --- through the router ---------------------------------------------------------------------------------------------


def opened(home: Path, clock: ManualClock, **said: Any) -> MemoryRouter:
    return MemoryRouter.open(home, False, project="app", settings=settings_of(QUICK | said), clock=clock)


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
        assert (strength["strength"], strength["state"], strength["days_until_forgettable"]) == (0.75, "strong", None)
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
