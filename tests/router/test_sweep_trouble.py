"""Sweeps that meet another sweep, another process, a clock that jumps, or a disk that is full."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Mapping
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.errors import StoreUnwritable, SweepUnderWay
from kingly_memory.router.sweep import steward as sweep
from kingly_memory.testing import ManualClock
from tests.router.test_sweep_machine import DAY_S, LASTING, Interrupted
from tests.router_bench import router_over
from tests.store_samples import check_integrity, elsewhere


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def opened(home: Path, clock: ManualClock, how: Settings = LASTING) -> MemoryRouter:
    return MemoryRouter.open(home, project="app", settings=how, clock=clock)


async def fade(memory: MemoryRouter, clock: ManualClock, count: int = 4, words: str = "") -> None:
    for number in range(count):
        await memory.store(f"note {number} {words}", key=f"k{number}")
    clock.jump(100 * DAY_S)


async def test_two_routers_on_one_home_do_not_sweep_at_once(home: Path, clock: ManualClock) -> None:
    async with opened(home, clock) as one, opened(home, clock) as other:
        await fade(one, clock)
        assert one._engine.sweeper._lock.take()  # as while it is sweeping
        for verb in (other.sweep, other.undo_sweep):
            with pytest.raises(SweepUnderWay, match=r"being swept already; nothing was changed\. Try again"):
                await verb()
        assert (await other.sweep(["strength"], dry_run=True)).archived == 3
        one._engine.sweeper._lock.give_up()
        assert (await other.sweep(["strength"])).archived == 3


async def test_two_sweeps_of_one_router_do_not_run_at_once(home: Path, clock: ManualClock) -> None:
    async with opened(home, clock) as memory:
        await fade(memory, clock)
        outcomes = await asyncio.gather(*(memory.sweep(["strength"]) for _ in range(3)), return_exceptions=True)
        reports = [one for one in outcomes if not isinstance(one, BaseException)]
        assert [report.archived for report in reports] == [3]
        assert sum(isinstance(one, SweepUnderWay) for one in outcomes) == 2
        assert await memory.undo_sweep() == (3, 0)


async def test_undo_leaves_a_move_alone_that_was_judged_since(home: Path, clock: ManualClock) -> None:
    async with opened(home, clock) as memory:
        await memory.store("the way that worked", key="way", significance=0.4)
        for _ in range(3):
            await memory.continuum.update_outcome(["way"], success=True)
        await memory.sweep(["tiers"])
        await memory.continuum.update_surprise_score("way", {"actual_usefulness": 1.0, "predicted_relevance": 0.0})
        assert await memory.undo_sweep() == (0, 0)
        explained = await memory.explain("way")
        assert explained is not None
        assert (explained["tier"]["name"], explained["tier"]["surprise"]) == ("medium", 0.3)


def no_room() -> None:
    """Nothing can be written any more, the tests' own output included."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("undoing", [False, True])
async def test_full_disk_leaves_nothing_half_done_and_the_next_one_goes_on(
    home: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, undoing: bool
) -> None:
    monkeypatch.setattr(sweep, "AT_ONCE", 1)
    store = Interrupted(home)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with router_over(store, None, clock, settings=LASTING) as memory:
        await fade(memory, clock, 60)
        if undoing:
            await memory.sweep(["strength"])
        store.before, store.left = no_room, 4
        try:
            with pytest.raises(StoreUnwritable, match="nothing was stored"):
                await (memory.undo_sweep() if undoing else memory.sweep(["strength"]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        entries = (await memory.archived(limit=1_000)).entries
        assert 0 < len(entries) < 59
        assert len(entries) + len(await memory.list(limit=1_000)) == 60
        assert all(one.why is not None for one in entries)
        if undoing:
            assert await memory.undo_sweep() == (len(entries), 0)
        else:
            assert (await memory.sweep(["strength"])).archived == 59 - len(entries)
    check_integrity(home)


@pytest.mark.requirement("SMT-045")
async def test_a_report_is_of_what_was_done(home: Path, clock: ManualClock) -> None:
    store = Interrupted(home)
    async with router_over(store, None, clock, settings=LASTING) as memory:
        await fade(memory, clock, 5)

        def touched() -> None:
            elsewhere(USED, home, store.reader.id_of_key("app", "k0") or "")
            elsewhere(TAKEN, home, store.reader.id_of_key("app", "k1") or "")

        store.before, store.left = touched, 3
        report = await memory.sweep(["strength", "tiers"])
        assert (report.archived, report.skipped) == (2, 2)
        assert report.reasons == {"its strength is below 0.1": 2, **_moves(report.reasons)}
        assert len(report.actions) == report.archived + report.demoted + report.promoted


USED = "facet = {'accesses': 1, 'last_used': 0.0}; answer = 1\n"
USED += "store.write(lambda tx: tx.set_facet('usage', sys.argv[2], facet)).result()"
TAKEN = "store.write(lambda tx: tx.set_status([sys.argv[2]], MemoryStatus.ARCHIVED)).result(); answer = 1"


def _moves(reasons: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in reasons.items() if "tier" in reason}


# --- homes ----------------------------------------------------------------------------------------------------------


async def test_a_lock_that_cannot_be_made_is_no_sweep_under_way(home: Path, clock: ManualClock) -> None:
    async with opened(home, clock) as memory:
        await fade(memory, clock)
        (home / "sweep.lock").mkdir()
        for verb in (memory.sweep, memory.compact, memory.undo_sweep):
            with pytest.raises(StoreUnwritable, match=r"cannot be written .*make the folder writable"):
                await verb()
        assert len(await memory.list()) == 4
