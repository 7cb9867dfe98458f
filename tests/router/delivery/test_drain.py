"""Delivery and the link over a real disk, with a remote that obeys and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.app.parts import Leadership
from kingly_memory.errors import RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import DeliveryState, LinkState, Memory, Source
from kingly_memory.observe import DeliveryStarted, Event
from kingly_memory.testing import FakeRemote, Lost, ManualClock
from tests.router_bench import CALM, ChoosyRemote, PromptStore, delivered, facet_of, held, router_over

HOUR = 3_600.0
YEAR = 365.25 * 24 * HOUR
BUSY = RemoteUnavailable("HTTP 503", reached=True)
NO_REPLY = Lost(RemoteUnavailable("connection reset"))
CLEARLY_NOT = RemoteRefused("HTTP 422", clear=True)
PERHAPS_NOT = RemoteRefused("HTTP 409", clear=False)


class Stuck(FakeRemote):
    """Its first store waits, and fails when it is let go."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def store(self, memory: Memory, **said: Any) -> str:
        if not self.begun.is_set():
            self.begun.set()
            await self.let_go.wait()
            raise RemoteUnavailable("cut off")
        return await super().store(memory, **said)


@pytest.fixture
def remote(clock: ManualClock) -> ChoosyRemote:
    return ChoosyRemote(clock=clock)


@pytest.fixture
def disk(tmp_path: Path) -> PromptStore:
    return PromptStore(tmp_path / "home")


@pytest.fixture
async def memory(disk: PromptStore, remote: ChoosyRemote, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(disk, remote, clock) as router:
        await clock.settle()
        yield router


async def stored(memory: MemoryRouter, clock: ManualClock, *contents: str) -> list[str]:
    """Store each under its own words as key, a millisecond apart; returns the ids."""
    ids: list[str] = []
    for content in contents:
        ids.append((await memory.store(content, key=content)).id)
        clock.tick(0.001)
    return ids


def link_state(memory: MemoryRouter) -> str:
    state: str = memory._engine.view.status()["link"]["state"]
    return state


# --- the link ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-045")
async def test_an_offline_remote_is_tried_again_after_five_minutes_and_not_a_second_before(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        await memory.store("waits")
        assert [call.name for call in remote.calls] == ["connect"]
        await clock.advance(299)
        assert len(remote.calls) == 1
        await clock.advance(1)
        assert [call.name for call in remote.calls] == ["connect", "connect"]
        await clock.advance(299.9)
        assert len(remote.calls) == 2


@pytest.mark.requirement("KNG-046")
@pytest.mark.requirement("KNG-047")
async def test_recovery_delivers_the_backlog_once_and_in_order_and_searches_are_hybrid_again(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    await stored(memory, clock, "one")
    await clock.settle()
    assert link_state(memory) == LinkState.OFFLINE
    await stored(memory, clock, "two", "three", "four", "five")
    assert (await memory.search("two")).source is Source.LOCAL_FALLBACK
    remote.down = False
    await clock.advance(300)
    assert (await memory.search("two")).source is Source.HYBRID
    assert held(remote) == ["one", "two", "three", "four", "five"]
    assert len(remote.effects) == 5


@pytest.mark.requirement("KNG-047")
async def test_memories_leased_when_the_link_breaks_keep_their_places(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    contents = [f"{number:02}" for number in range(40)]
    remote.down = True
    await memory.sync(timeout=1)
    await stored(memory, clock, *contents)
    remote.down = False
    remote.script(None, RemoteUnavailable("connection refused"))
    await clock.advance(630)
    assert delivered(remote) == ["00", *contents]


async def test_a_memory_that_brings_the_link_down_twice_lets_the_others_pass(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["crashes the parser"] = RemoteUnavailable("connection reset")
    await stored(memory, clock, "crashes the parser", "innocent", "bystander")
    for _ in range(3):
        await clock.advance(301)
    assert held(remote) == ["innocent", "bystander"]


@pytest.mark.requirement("KNG-047")
async def test_sync_brings_the_others_past_memories_that_break_the_connection(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    for key in ("breaks", "breaks too"):
        remote.against[key] = RemoteUnavailable("connection reset")
    await stored(memory, clock, "breaks", "breaks too", "innocent", "bystander")
    for _ in range(4):
        await memory.sync(timeout=1)
    assert held(remote) == ["innocent", "bystander"]
    for number in range(3):  # nor does what was stored later wait for them
        await stored(memory, clock, f"later {number}")
        await memory.sync(timeout=1)
        assert held(remote)[-1] == f"later {number}"


async def test_sync_tries_in_turn_what_has_failed_more_than_once(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    breaks = RemoteUnavailable("connection reset")
    remote.against = {"breaks": breaks, "unlucky": breaks}
    await stored(memory, clock, "breaks", "unlucky")
    for _ in range(4):
        await memory.sync(timeout=1)
    del remote.against["unlucky"]
    for _ in range(2):
        await memory.sync(timeout=1)
    assert held(remote) == ["unlucky"]


@pytest.mark.requirement("KNG-047")
async def test_what_met_the_outage_first_goes_first_when_sync_finds_it_over(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["first"] = RemoteUnavailable("connection reset")
    await stored(memory, clock, "first", "second", "third")
    await clock.settle()
    assert link_state(memory) == LinkState.OFFLINE
    remote.against.clear()
    await memory.sync(timeout=1)
    assert held(remote) == ["first", "second", "third"]


async def test_ten_routers_on_one_home_probe_once_per_interval(tmp_path: Path, clock: ManualClock) -> None:
    home, remote = tmp_path / "home", FakeRemote(clock=clock)
    home.mkdir(mode=0o700)
    remote.down = True
    async with AsyncExitStack() as windows:
        for _ in range(10):
            lead = Leadership(home / "deliver.lock")
            window = router_over(PromptStore(home), remote, clock, leads=lead.take, stop_leading=lead.give_up)
            await windows.enter_async_context(window)
            await clock.settle()
        before = len(remote.calls)
        await clock.advance(900)
        assert len(remote.calls) - before == 3


async def test_a_recovery_that_one_router_finds_is_every_routers(tmp_path: Path, clock: ManualClock) -> None:
    home, remote = tmp_path / "home", FakeRemote(clock=clock)
    remote.down = True
    async with router_over(PromptStore(home), remote, clock) as first:
        await clock.settle()
        async with router_over(PromptStore(home), remote, clock, leads=lambda: False) as second:
            remote.down = False
            await first.sync(timeout=1)
            assert link_state(second) == LinkState.CONNECTED


@pytest.mark.parametrize("jump", [-YEAR, -HOUR, HOUR, YEAR])
async def test_no_jump_of_the_wall_clock_delays_a_probe_beyond_its_interval(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock, jump: float
) -> None:
    remote.down = True
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        clock.jump(jump)
        remote.down = False
        await clock.advance(301)
        assert link_state(memory) == LinkState.CONNECTED


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-YEAR, -HOUR, -200.0, HOUR, YEAR])
async def test_no_jump_of_the_wall_clock_delays_a_delivery_beyond_five_minutes(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock, jump: float
) -> None:
    remote.against["late"] = BUSY
    await stored(memory, clock, "late")
    await clock.advance(250)
    remote.against.clear()
    clock.jump(jump)
    await clock.advance(312)
    assert held(remote) == ["late"]


async def test_retry_after_holds_everybody_back_and_no_longer_than_wished(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.script(RemoteUnavailable("HTTP 429", retry_after_s=120, reached=True))
    await stored(memory, clock, "first", "second")
    await clock.advance(119)
    assert delivered(remote) == ["first"]
    await clock.advance(11)
    assert sorted(held(remote)) == ["first", "second"]
    assert link_state(memory) == LinkState.CONNECTED


async def test_retry_after_of_aeons_is_five_minutes(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.script(RemoteUnavailable("HTTP 429", retry_after_s=1e9, reached=True))
    await stored(memory, clock, "patient")
    await clock.advance(310)
    assert held(remote) == ["patient"]


async def test_retry_after_of_nothing_brings_no_storm(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["hot"] = RemoteUnavailable("HTTP 429", retry_after_s=0, reached=True)
    await stored(memory, clock, "hot")
    await clock.advance(60)
    assert 2 <= len(delivered(remote)) <= 8


async def test_a_memory_that_backs_off_never_holds_the_others(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["slow"] = BUSY
    await stored(memory, clock, "slow", "quick", "brisk")
    await clock.settle()
    assert held(remote) == ["quick", "brisk"]
    remote.against.clear()
    await clock.advance(20)
    assert held(remote) == ["quick", "brisk", "slow"]


async def test_an_outage_of_days_kills_nothing(disk: PromptStore, remote: ChoosyRemote, clock: ManualClock) -> None:
    remote.down = True
    async with router_over(
        disk, remote, clock, settings=replace(CALM, pace=replace(CALM.pace, poll_s=300.0))
    ) as memory:
        (one,) = await stored(memory, clock, "survivor")
        await clock.advance(2 * 24 * HOUR)
        assert [entry.id for entry in await memory.outbox(["pending"])] == [one]
        remote.down = False
        await clock.advance(301)
    assert held(remote) == ["survivor"]


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_poisonous_memory_dies_after_ten_refusals_and_the_others_pass(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["poison"] = PERHAPS_NOT
    (poison, *_) = await stored(memory, clock, "poison", "wholesome")
    await clock.advance(HOUR)
    assert held(remote) == ["wholesome"]
    assert delivered(remote).count("poison") == 10
    assert [entry.id for entry in await memory.outbox(["dead"])] == [poison]


async def test_a_clear_refusal_kills_at_once_and_a_retry_revives(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.against["poison"] = CLEARLY_NOT
    (poison,) = await stored(memory, clock, "poison")
    await clock.settle()
    assert [(entry.id, entry.last_error) for entry in await memory.outbox(["dead"])] == [(poison, "HTTP 422")]
    remote.against.clear()
    assert await memory.outbox_retry() == 1
    await clock.settle()
    assert held(remote) == ["poison"]


async def test_a_refused_revision_does_not_take_the_newer_one_with_it(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.hang()
    await memory.store("malformed", key="k")
    await clock.settle()
    await memory.store("mended", key="k")
    remote.script(CLEARLY_NOT)
    remote.go_on()
    await clock.advance(10)
    assert held(remote) == ["mended"]


async def test_a_forgetting_survives_the_refusal_of_the_revision_before_it(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    await memory.store("one", key="k")
    await clock.settle()
    remote.hang()
    await memory.store("two", key="k")
    await clock.settle()
    await memory.forget("k")
    remote.script(CLEARLY_NOT)
    remote.go_on()
    await clock.advance(10)
    assert held(remote) == []


async def test_a_refused_token_pauses_everything_and_nothing_dies(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.script(RemoteUnauthorised(401))
    await stored(memory, clock, "first", "second")
    await clock.settle()
    status = await memory.status()
    assert (status["link"]["state"], status["outbox"]["pending"], status["outbox"]["dead"]) == ("offline", 2, 0)
    assert "token" in status["link"]["last_error"]
    assert delivered(remote) == ["first"]
    await clock.advance(300)
    assert held(remote) == ["first", "second"]


# --- unknown outcomes, revisions, forgetting --------------------------------------------------------------------------


async def test_a_revision_after_a_lost_first_reply_follows_as_an_update(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.script(NO_REPLY)
    (one,) = await stored(memory, clock, "key")
    await clock.settle()
    await memory.store("second", key="key")
    report = await memory.sync(timeout=5)
    assert (report.pending, report.reason) == (0, None)
    assert held(remote) == ["second"]
    assert remote.effects == [one, f"{one}.2"]
    assert [call.arguments["repeated"] for call in remote.named("store")] == [False, True, False]


async def test_a_revision_made_while_the_first_is_under_way_follows_it(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.hang()
    await memory.store("first", key="k")
    await clock.settle()
    await memory.store("second", key="k")
    await memory.store("third", key="k")
    remote.go_on()
    await clock.settle()
    assert delivered(remote) == ["first", "third"]
    assert held(remote) == ["third"]


async def test_forgetting_before_delivery_sends_nothing_at_all(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    await memory.sync(timeout=1)
    await stored(memory, clock, "secret")
    await memory.forget("secret")
    remote.down = False
    await memory.sync(timeout=1)
    assert {call.name for call in remote.calls} == {"connect"}
    assert (await memory.status())["outbox"] == {"pending": 0, "leased": 0, "dead": 0, "oldest_s": None}


@pytest.mark.parametrize("outcome", [None, NO_REPLY], ids=["known", "unknown"])
async def test_forgetting_after_delivery_reaches_the_remote_and_restoring_brings_it_back(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock, outcome: Lost | None
) -> None:
    remote.script(outcome)
    await stored(memory, clock, "boomerang")
    await clock.settle()
    assert held(remote) == ["boomerang"]
    await memory.forget("boomerang")
    await memory.sync(timeout=1)
    assert held(remote) == []
    await memory.restore("boomerang")
    await memory.sync(timeout=1)
    assert held(remote) == ["boomerang"]


async def test_what_is_forgotten_or_lowered_while_it_waits_in_a_lease_is_not_sent(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    await memory.sync(timeout=1)
    await stored(memory, clock, "first", "forgotten", "lowered", "revised", "last")
    remote.down = False
    remote.hang()
    remote.script(None)
    await clock.advance(300)
    remote.go_on()
    remote.hang()
    await clock.settle()
    await memory.forget("forgotten")
    await memory.store("private now", key="lowered", significance=0.3)
    await memory.store("revision", key="revised")
    remote.go_on()
    await clock.settle()
    assert delivered(remote) == ["first", "last", "revision"]
    assert held(remote) == ["first", "last", "revision"]


@pytest.mark.requirement("KNG-002")
async def test_a_revision_that_falls_to_the_threshold_stays_here_and_one_that_rises_is_sent(
    memory: MemoryRouter, remote: ChoosyRemote, clock: ManualClock
) -> None:
    for content, significance in (("loud", 0.31), ("hushed", 0.3), ("louder", 0.9)):
        await memory.store(content, key="k", significance=significance)
        await clock.settle()
    assert delivered(remote) == ["loud", "louder"]
    assert held(remote) == ["louder"]


# --- shutting down, crashing, taking over -----------------------------------------------------------------------------


async def test_shutdown_while_a_send_hangs_ends_at_once_and_the_memory_is_sent_later_under_the_same_key(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock, tmp_path: Path
) -> None:
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        remote.hang()
        await memory.store("interrupted")
        await clock.settle()
    assert remote.closed
    remote.go_on()
    async with router_over(PromptStore(tmp_path / "home"), remote, clock):
        await clock.settle()
    first, second = remote.named("store")
    assert first.arguments["idempotency_key"] == second.arguments["idempotency_key"]
    assert second.arguments["repeated"]
    assert held(remote) == ["interrupted"]


async def test_what_a_dead_process_had_leased_is_taken_back_at_once(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock, tmp_path: Path
) -> None:
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        remote.hang()
        (one,) = await stored(memory, clock, "orphan")
        await clock.settle()
        disk.die()
    remote.go_on()
    heir = PromptStore(tmp_path / "home")
    facet = facet_of(heir, one)
    assert facet is not None
    assert facet.state is DeliveryState.LEASED
    async with router_over(heir, remote, clock):
        await clock.settle()
    assert held(remote) == ["orphan"]


async def test_another_router_takes_over_when_the_leader_goes(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    first_lead, second_lead = Leadership(home / "deliver.lock"), Leadership(home / "deliver.lock")
    first = router_over(PromptStore(home), remote, clock, leads=first_lead.take, stop_leading=first_lead.give_up)
    second = router_over(PromptStore(home), remote, clock, leads=second_lead.take, stop_leading=second_lead.give_up)
    async with second:
        async with first:
            await stored(first, clock, "by the leader")
            await clock.settle()
        await stored(second, clock, "by the heir")
        await clock.advance(100)
    assert held(remote) == ["by the leader", "by the heir"]


async def test_earlier_memories_arrive_even_if_the_process_that_was_to_deliver_them_dies(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    home = tmp_path / "home"
    async with router_over(PromptStore(home), None, clock) as alone:
        await stored(alone, clock, "before the remote")
    dying = PromptStore(home)
    router = router_over(dying, remote, clock, earlier=True)
    async with router:
        dying.die()
    async with router_over(PromptStore(home), remote, clock):
        await clock.settle()
    assert held(remote) == ["before the remote"]


async def test_sync_by_a_router_that_does_not_lead_has_the_leader_send(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    home = tmp_path / "home"
    async with (
        router_over(
            PromptStore(home), remote, clock, settings=replace(CALM, pace=replace(CALM.pace, poll_s=0.01))
        ) as leader,
        router_over(PromptStore(home), remote, clock, leads=lambda: False) as other,
    ):
        await clock.settle()
        remote.script(BUSY)
        await stored(leader, clock, "waits")
        await clock.settle()
        assert held(remote) == []
        syncing = asyncio.ensure_future(other.sync(timeout=60))
        await clock.advance(5)
        report = await syncing
        assert (report.pending, held(remote)) == (0, ["waits"])


async def test_sync_by_a_router_that_does_not_lead_brings_the_others_past_one_that_breaks_the_connection(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    home = tmp_path / "home"
    remote.against["breaks"] = RemoteUnavailable("connection reset")
    async with (
        router_over(
            PromptStore(home), remote, clock, settings=replace(CALM, pace=replace(CALM.pace, poll_s=0.01))
        ) as leader,
        router_over(PromptStore(home), remote, clock, leads=lambda: False) as other,
    ):
        await clock.settle()
        await stored(leader, clock, "breaks", "innocent")
        for _ in range(3):
            syncing = asyncio.ensure_future(other.sync(timeout=60))
            await clock.advance(1)
            await clock.advance(60)
            await syncing
    assert held(remote) == ["innocent"]


async def test_a_sync_that_another_process_carries_out_counts_refusals_on(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    home = tmp_path / "home"
    remote.against["nonsense"] = RemoteRefused("what?", clear=False)
    async with (
        router_over(
            PromptStore(home), remote, clock, settings=replace(CALM, pace=replace(CALM.pace, poll_s=0.01))
        ) as leader,
        router_over(PromptStore(home), remote, clock, leads=lambda: False) as other,
    ):
        await stored(leader, clock, "nonsense")
        for _ in range(10):
            syncing = asyncio.ensure_future(other.sync(timeout=1))
            await clock.advance(2)
            await syncing
        outbox = (await leader.status())["outbox"]
        assert (outbox["pending"], outbox["dead"]) == (0, 1)


@pytest.mark.requirement("KNG-047")
async def test_what_fails_on_an_outage_that_is_over_by_then_keeps_its_place(
    disk: PromptStore, clock: ManualClock
) -> None:
    stuck = Stuck(clock)
    async with router_over(disk, stuck, clock) as memory:
        await clock.settle()
        await stored(memory, clock, "first", "second", "third")
        await stuck.begun.wait()
        clock.tick(0.001)
        syncing = asyncio.ensure_future(memory.sync(timeout=30))
        await clock.settle()
        stuck.let_go.set()
        await syncing
    assert held(stuck) == ["first", "second", "third"]


async def test_looking_at_an_empty_outbox_writes_nothing(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    seen: list[Event] = []
    async with router_over(disk, remote, clock, observers=(seen.append,)):
        await clock.advance(HOUR)
    assert not any(isinstance(event, DeliveryStarted) for event in seen)


async def test_sync_outlives_a_batch_that_was_failing_before_it_asked(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    stuck = Stuck(clock)
    async with router_over(disk, stuck, clock) as memory:
        await clock.settle()
        receipt = await memory.store("kept", significance=0.9)
        await stuck.begun.wait()
        syncing = asyncio.ensure_future(memory.sync(timeout=30))
        await clock.settle()
        stuck.let_go.set()
        report = await syncing
        assert (report.pending, [one.id for one in stuck.memories.values()]) == (0, [receipt.id])
