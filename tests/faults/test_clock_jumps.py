"""The wall clock jumps, by hours and years, and the zone changes: nothing waits for longer, nothing is erased."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import LinkState
from kingly_memory.testing import FakeRemote, ManualClock
from tests.faults.conftest import Tell
from tests.router_bench import PromptStore, held, router_over

HOUR_S = 3_600.0
YEAR_S = 365.25 * 24 * HOUR_S
LONGEST_S = 300.0
JUMPS = {"-1 year": -YEAR_S, "-1 hour": -HOUR_S, "+1 hour": HOUR_S, "+1 year": YEAR_S}


@pytest.mark.requirement("KNG-045", "KNG-047")
@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("moment", ["backing off", "offline"])
async def test_after_a_jump_of_the_clock_a_delivery_waits_five_minutes_at_most(
    tmp_path: Path, jump: str, moment: str, tell: Tell
) -> None:
    clock = ManualClock()
    remote = FakeRemote(clock=clock)
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        await clock.settle()
        if moment == "offline":
            remote.script(RemoteUnavailable("refused"))
        else:
            remote.script(RemoteUnavailable("HTTP 503", reached=True, retry_after_s=LONGEST_S))
        for name in ("first", "second", "third"):
            await memory.store(name, key=name, significance=0.8)
        await clock.settle()
        assert ((await memory.status())["link"]["state"] == LinkState.OFFLINE) is (moment == "offline")
        assert held(remote) == []
        clock.jump(JUMPS[jump])
        await clock.advance(LONGEST_S + 20.0)
        assert sorted(held(remote)) == ["first", "second", "third"]
    tell(17, f"{jump}: delivered within 300 s")


@pytest.mark.parametrize("jump", JUMPS)
async def test_no_jump_of_the_clock_erases_what_was_to_last(tmp_path: Path, jump: str) -> None:
    clock = ManualClock()
    async with router_over(PromptStore(tmp_path / "home"), None, clock) as memory:
        for kind in ("episodic", "semantic", "procedural"):
            await memory.store(f"a note, {kind}", key=kind, type=kind)
        clock.jump(JUMPS[jump])
        report = await memory.sweep()
        assert report.erased == 0
        clock.jump(-JUMPS[jump])
        for kind in ("episodic", "semantic", "procedural"):
            await memory.restore(kind)
            found = await memory.get(kind)
            assert found is not None
            assert found.content == f"a note, {kind}"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "UTC0", "XXX-14"])
async def test_the_zone_and_its_summer_time_change_nothing(
    tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with router_over(PromptStore(tmp_path / "home"), None, clock) as memory:
        before = await memory.store("before", key="before")
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            after = await memory.store("after", key="after")
            found = [await memory.get(one.id) for one in (before, after)]
        finally:
            monkeypatch.delenv("TZ")
            time.tzset()
        first, second = (one.created_at for one in found if one is not None)
        assert (second - first).total_seconds() < 1.0
        assert first.utcoffset() == second.utcoffset()
