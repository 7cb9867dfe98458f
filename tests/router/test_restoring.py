"""Bringing back what is over but not swept, and what becomes of working memories that matter when they are over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings, SyncMemoryRouter
from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.policies import Archive, Expire, Subject
from kingly_memory.models import MemoryStatus, MemoryType
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock
from tests.cli_runner import runner
from tests.lifecycle.samples import memory as sample

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))
DAY_S = 86_400.0


@pytest.mark.requirement("KNG-084")
@pytest.mark.parametrize("kind", ["working", "conversation_context", "pattern_learning", "skill_development"])
async def test_what_is_over_and_not_swept_comes_back_with_a_fresh_lifetime(
    memory: MemoryRouter, clock: ManualClock, kind: Any
) -> None:
    await memory.store("The port is 6432", key="port", type=kind, significance=0.7)
    clock.jump(100 * DAY_S)
    assert await memory.get("port") is None
    restored = await memory.restore("port")
    assert restored is not None
    assert await memory.get("port") == restored
    report = await memory.sweep(["lifetimes", "strength", "tiers"])
    assert (report.archived, report.erased) == (0, 0)
    assert [hit.memory.key for hit in await memory.search("port")] == ["port"]


def test_the_command_brings_back_what_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, ago = runner(capsys, monkeypatch), ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK, clock=ago) as memory:
        memory.store("The port is 6432", key="port", type="working")
    monkeypatch.setenv("KINGLY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KINGLY_PROJECT", "app")
    assert run("get", "port").code != 0
    assert run("restore", "port").out.startswith("restored")
    assert run("sweep").out.startswith("0 memories archived, 0 erased")
    assert run("get", "port").code == 0


# --- working memories that matter -------------------------------------------------------------------------------------


def over(kind: MemoryType, significance: float, *, awaited: bool = False, pinned: bool = False) -> Subject:
    said = sample(1, type=kind, significance=significance)
    return Subject(said, MemoryStatus.LIVE, Lifetime(0.0), awaited=awaited, pinned=pinned)


@pytest.mark.requirement("ALM-042")
@pytest.mark.parametrize(("significance", "becomes"), [(0.1, Expire), (0.79, Expire), (0.8, Archive), (1.0, Archive)])
def test_a_working_memory_that_matters_goes_to_the_archive(significance: float, becomes: type) -> None:
    assert type(policies.ended(over(MemoryType.WORKING, significance), 1.0)) is becomes


def test_only_what_would_be_erased_waits_for_a_remote() -> None:
    assert policies.ended(over(MemoryType.WORKING, 0.5, awaited=True), 1.0) is None
    assert isinstance(policies.ended(over(MemoryType.WORKING, 0.9, awaited=True), 1.0), Archive)
    assert policies.ended(over(MemoryType.WORKING, 0.9, pinned=True), 1.0) is None


@pytest.mark.requirement("ALM-042")
async def test_a_working_memory_that_matters_is_brought_back_from_the_archive(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.store("The only copy", key="vital", type="working", significance=1.0)
    await memory.store("A note", key="note", type="working")
    clock.jump(1_801)
    dry = await memory.sweep(dry_run=True)
    report = await memory.sweep()
    assert {**dry.to_json(), "dry_run": False} == report.to_json()
    assert (report.archived, report.erased) == (1, 1)
    assert await memory.explain("note") is None
    back = await memory.restore("vital")
    assert back is not None
    assert await memory.get("vital") == back
    clock.jump(1_801)
    assert await memory.get("vital") is None
