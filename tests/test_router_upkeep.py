"""What keeps a router honest: closing, observing, reporting, and learning whether the remote answers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, RouterClosed, SyncMemoryRouter
from kingly_memory.errors import InvalidInput, RemoteRefused
from kingly_memory.models import DeliveryState, LinkState
from kingly_memory.observe import Event
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over


@pytest.fixture
def disk(tmp_path: Path) -> PromptStore:
    return PromptStore(tmp_path / "home")


def state(router: MemoryRouter) -> str:
    found: str = router._engine.view.status()["link"]["state"]
    return found


async def test_short_commands_recover_by_themselves_when_the_probe_is_due(tmp_path: Path, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        await memory.store("waiting", significance=0.9)
        await memory.sync(timeout=5)
        assert state(memory) == LinkState.OFFLINE
    remote.down = False
    clock.jump(301)
    for _ in range(3):
        async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
            await memory.search("waiting")
            await clock.settle()
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        assert state(memory) == LinkState.CONNECTED


async def test_probe_that_is_cut_short_gives_its_turn_back(tmp_path: Path, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        await memory.sync(timeout=5)
    remote.down = False
    remote.hang()
    asked = len(remote.named("connect"))
    clock.jump(301)
    async with router_over(PromptStore(tmp_path / "home"), remote, clock):
        await clock.settle()
        assert len(remote.named("connect")) == asked + 1
    async with router_over(PromptStore(tmp_path / "home"), remote, clock):
        await clock.settle()
        assert len(remote.named("connect")) == asked + 2


async def test_observer_that_fails_changes_nothing(
    disk: PromptStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def clumsy(event: Event) -> None:
        raise ValueError("CANARY")

    remote = FakeRemote(clock=clock)
    async with router_over(disk, remote, clock, observers=(clumsy,)) as memory:
        receipt = await memory.store("watched", significance=0.9)
        await memory.sync(timeout=5)
        assert await memory.get(receipt.id) is not None
    assert remote.effects == [receipt.id]
    assert "observer" in caplog.text


async def test_closing_lets_go_of_everything_even_when_the_store_fails(disk: PromptStore, clock: ManualClock) -> None:
    released: list[str] = []
    remote = FakeRemote(clock=clock)
    memory = router_over(disk, remote, clock, stop_leading=lambda: released.append("lock"))
    async with memory:
        await memory.store("used", key="k", significance=0.1)
        await memory.get("k")
        disk.die()
    assert remote.closed
    assert released == ["lock"]
    with pytest.raises(RouterClosed):
        await memory.get("k")


async def test_a_close_that_is_cancelled_while_something_is_sent_leaves_nothing_open(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock)
    memory = router_over(disk, remote, clock, settings=Settings(durability="process", pace=Pace(closing_s=60.0)))
    await memory.sync(timeout=5)
    remote.hang()
    await memory.store("on its way", significance=0.9)
    await clock.settle()
    closing = asyncio.create_task(memory.close())
    await clock.settle()
    assert not closing.done()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert remote.closed


def test_closing_ends_the_calls_of_other_threads(tmp_path: Path) -> None:
    ended: list[type[BaseException]] = []
    memory = SyncMemoryRouter.open(tmp_path / "home", project="app")
    with memory:
        begun = threading.Event()

        def wait_for_ever() -> None:
            async def never() -> None:
                begun.set()
                await asyncio.Event().wait()

            try:
                memory._call(never)
            except RouterClosed as error:
                ended.append(type(error))

        waiting = threading.Thread(target=wait_for_ever)
        waiting.start()
        begun.wait()
    waiting.join(60)
    assert ended == [RouterClosed]


@pytest.mark.parametrize("seconds", [-1, "soon", float("nan")])
async def test_only_a_length_of_time_can_be_given_to_a_sync_remote_or_not(
    disk: PromptStore, clock: ManualClock, seconds: Any
) -> None:
    async with router_over(disk, None, clock) as memory:
        with pytest.raises(InvalidInput, match="seconds"):
            await memory.sync(timeout=seconds)


def test_a_home_that_is_no_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="home: expected a path, not int"):
        SyncMemoryRouter.open(5)  # type: ignore[arg-type]  # what callers get wrong
    with pytest.raises(InvalidInput, match="home: is empty; name a folder, or leave it out for the usual one"):
        SyncMemoryRouter.open("")


async def test_sync_counts_what_was_delivered_and_names_what_was_refused(disk: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(disk, remote, clock) as memory:
        await memory.sync(timeout=5)
        for text in ("poison", "healthy"):
            await memory.store(text, significance=0.9)
        remote.down = False
        remote.script(None, RemoteRefused("no", clear=True))
        report = await memory.sync(timeout=5)
        assert (report.delivered, report.pending, report.dead) == (1, 0, 1)
        assert "outbox list" in str(report.reason)


async def test_outbox_shows_and_drops_only_the_own_projects(disk: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(disk, remote, clock, project="app") as ours:
        await ours.sync(timeout=5)
        receipt = await ours.store("secret", key="secret.key", significance=0.9)
        async with router_over(disk, remote, clock, project="other", leads=lambda: False) as theirs:
            assert [entry.key for entry in await theirs.outbox()] == []
            with pytest.raises(InvalidInput, match="nothing is in the outbox"):
                await theirs.outbox_drop([receipt.id])
            with pytest.raises(InvalidInput, match="nothing is in the outbox"):
                await theirs.outbox_retry([receipt.id])
        assert [entry.key for entry in await ours.outbox()] == ["secret.key"]


async def test_outbox_shows_what_waits_behind_a_thousand_of_another_project(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(disk, remote, clock, project="other") as theirs:
        await theirs.store_many({"content": f"{number}", "significance": 0.9} for number in range(1_000))
        async with router_over(disk, remote, clock, project="app", leads=lambda: False) as ours:
            await ours.store("opens at six", key="gate", significance=0.9)
            assert [entry.key for entry in await ours.outbox()] == ["gate"]
        assert len(await theirs.outbox()) == 1_000


@pytest.mark.requirement("A2")
async def test_a_revision_that_is_dropped_is_not_called_delivered(disk: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(disk, remote, clock) as ours:
        receipt = await ours.store("opens at six", key="gate", wait=5)
        assert receipt.delivery is DeliveryState.DELIVERED
        remote.down = True
        await ours.store("opens at seven", key="gate")
        await ours.sync(timeout=5)
        assert await ours.outbox_drop([receipt.id]) == 1
        [stands] = (await ours.explain("gate") or {})["remotes"]
        assert (stands["delivery"], stands["remote_id"]) == ("local_only", receipt.remote_id)
        assert await ours.outbox() == []
        remote.down = False
        await ours.forget("gate")
        await ours.sync(timeout=5)
        assert len(remote.named("forget")) == 1


async def test_remote_cannot_be_required_for_what_never_leaves(disk: PromptStore, clock: ManualClock) -> None:
    async with router_over(disk, FakeRemote(clock=clock), clock) as memory:
        with pytest.raises(InvalidInput, match="require_remote"):
            await memory.store("quiet", key="q", significance=0.2, require_remote=True)
        assert await memory.get("q") is None
