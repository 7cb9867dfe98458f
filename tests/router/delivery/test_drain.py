"""Delivery and the link over a real disk, with a remote that obeys and a clock that stands still."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory.app.parts import Leadership
from kingly_memory.errors import OVERTAKEN, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import DeliveryState, LinkState, Source
from kingly_memory.observe import DeliveryStarted, Event
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, ChoosyRemote, PromptStore, Scene, delivered, facet_of, held, router_over, stored

HOUR = 3_600.0
BUSY = RemoteUnavailable("HTTP 503", reached=True)
CLEARLY_NOT = RemoteRefused("HTTP 422", clear=True)
PERHAPS_NOT = RemoteRefused("HTTP 409", clear=False)
At = Scene[ChoosyRemote]


# --- the link ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-045")
async def test_an_offline_remote_is_tried_again_after_five_minutes_and_not_a_second_before(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    async with router_over(disk, remote, clock):  # and nobody uses it
        await clock.settle()
        assert [call.name for call in remote.calls] == ["connect"]
        await clock.advance(299)
        assert len(remote.calls) == 1
        await clock.advance(1)
        assert [call.name for call in remote.calls] == ["connect", "connect"]
        await clock.advance(299.9)
        assert len(remote.calls) == 2


@pytest.mark.requirement("N23")
@pytest.mark.parametrize("use", ["search", "store"])
async def test_a_used_client_is_back_within_fifteen_seconds_of_an_outage_of_under_a_minute(at: At, use: str) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    for second in range(74):
        at.remote.down = second < 59
        await (at.memory.search("fog") if use == "search" else at.memory.store(f"fog {second}"))
        await at.clock.advance(1)
    assert at.link_state == LinkState.CONNECTED
    assert len(at.remote.named("connect")) == 2 + 4


@pytest.mark.requirement("N23")
@pytest.mark.parametrize("use", ["search", "store"])
async def test_a_use_so_soon_after_a_try_that_it_brings_none_is_remembered_until_it_may(at: At, use: str) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    at.remote.down = False
    await at.clock.advance(5)
    await (at.memory.search("fog") if use == "search" else at.memory.store("fog"))
    await at.clock.advance(9.9)
    assert at.link_state == LinkState.OFFLINE
    await at.clock.advance(0.1)
    assert at.link_state == LinkState.CONNECTED


@pytest.mark.requirement("N23")
async def test_use_during_a_long_outage_probes_ever_less_often_and_waits_for_no_probe(at: At) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    at.remote.down = False
    at.remote.hang()
    began_s, probes = at.clock.monotonic(), list[float]()
    for _ in range(1_200):
        before, known = at.clock.monotonic(), len(at.remote.named("connect"))
        await at.memory.search("fog")
        assert at.clock.monotonic() == before
        await at.clock.advance(3)
        probes += [at.clock.monotonic() - began_s] * (len(at.remote.named("connect")) - known)
    pauses = [after - before for before, after in itertools.pairwise(probes)]
    assert min(pauses) >= 15
    assert all(after >= before - 3 for before, after in itertools.pairwise(pauses))
    assert 290 <= max(pauses) <= 310
    assert len(probes) < 40


@pytest.mark.requirement("KNG-046")
@pytest.mark.requirement("KNG-047")
async def test_recovery_delivers_the_backlog_once_and_in_order_and_searches_are_hybrid_again(at: At) -> None:
    at.remote.down = True
    await at.stored("one")
    await at.clock.settle()
    assert at.link_state == LinkState.OFFLINE
    await at.stored("two", "three", "four", "five")
    assert (await at.memory.search("two")).source is Source.LOCAL_FALLBACK
    at.remote.down = False
    await at.clock.advance(300)
    assert (await at.memory.search("two")).source is Source.HYBRID
    assert held(at.remote) == ["one", "two", "three", "four", "five"]
    assert len(at.remote.effects) == 5


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("first", [True, False])
async def test_a_change_that_was_not_answered_and_arrives_late_overwrites_no_later_one(at: At, first: bool) -> None:
    if not first:
        await at.memory.store("opens at five", key="gate", wait=5)
    at.remote.script(BUSY)
    await at.memory.store("opens at six", key="gate")
    await at.clock.settle()
    unanswered = at.remote.named("store")[-1]
    assert unanswered.arguments["memory"].content == "opens at six"
    await at.memory.store("opens at seven", key="gate")
    await at.memory.sync(timeout=5)
    assert at.outbox == (0, 0, 0)
    await at.remote.store(**unanswered.arguments)
    assert held(at.remote) == ["opens at seven"]


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("meanwhile", ["refused", "forgotten"])
async def test_an_update_that_arrives_late_overwrites_nothing_whatever_came_meanwhile(at: At, meanwhile: str) -> None:
    await at.memory.store("opens at five", key="gate", wait=5)
    at.remote.script(BUSY)
    await at.memory.store("opens at six", key="gate")
    await at.clock.settle()
    unanswered = at.remote.named("store")[-1]
    if meanwhile == "forgotten":
        await at.memory.forget("gate")
    else:
        await at.memory.store("opens at no time", key="gate")
        at.remote.script(None, CLEARLY_NOT)
    await at.memory.sync(timeout=5)
    await at.memory.restore("gate")
    await at.memory.store("opens at seven", key="gate")
    await at.memory.sync(timeout=5)
    assert (held(at.remote), at.outbox) == (["opens at seven"], (0, 0, 0))
    await at.remote.store(**unanswered.arguments)
    assert held(at.remote) == ["opens at seven"]


async def test_where_keys_are_not_honoured_an_update_that_was_not_answered_is_not_made_twice(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock, honours_keys=False)
    async with router_over(disk, remote, clock) as memory:
        await memory.store("opens at five", key="gate", wait=5)
        remote.script(BUSY)
        await memory.store("opens at six", key="gate")
        await clock.settle()
        await memory.store("opens at seven", key="gate")
        await memory.sync(timeout=5)
        assert delivered(remote) == ["opens at five", "opens at six", "opens at seven"]


@pytest.mark.requirement("KNG-047")
async def test_memories_leased_when_the_link_breaks_keep_their_places(at: At) -> None:
    contents = [f"{number:02}" for number in range(40)]
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await at.stored(*contents)
    at.remote.down = False
    at.remote.script(None, RemoteUnavailable("connection refused"))
    await at.clock.advance(630)
    assert delivered(at.remote) == ["00", *contents]


async def test_a_memory_that_brings_the_link_down_twice_lets_the_others_pass(at: At) -> None:
    at.remote.against["crashes the parser"] = RemoteUnavailable("connection reset")
    await at.stored("crashes the parser", "innocent", "bystander")
    for _ in range(3):
        await at.clock.advance(301)
    assert held(at.remote) == ["innocent", "bystander"]


async def test_sync_tries_in_turn_what_has_failed_more_than_once(at: At) -> None:
    breaks = RemoteUnavailable("connection reset")
    at.remote.against = {"breaks": breaks, "unlucky": breaks}
    await at.stored("breaks", "unlucky")
    for _ in range(4):
        await at.memory.sync(timeout=1)
    del at.remote.against["unlucky"]
    for _ in range(2):
        await at.memory.sync(timeout=1)
    assert held(at.remote) == ["unlucky"]


@pytest.mark.requirement("KNG-047")
async def test_what_met_the_outage_first_goes_first_when_sync_finds_it_over(at: At) -> None:
    at.remote.against["first"] = RemoteUnavailable("connection reset")
    await at.stored("first", "second", "third")
    await at.clock.settle()
    assert at.link_state == LinkState.OFFLINE
    at.remote.against.clear()
    await at.memory.sync(timeout=1)
    assert held(at.remote) == ["first", "second", "third"]


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


# --- waiting ----------------------------------------------------------------------------------------------------------


async def test_retry_after_holds_everybody_back_and_no_longer_than_wished(at: At) -> None:
    at.remote.script(RemoteUnavailable("HTTP 429", retry_after_s=120, reached=True))
    await at.stored("first", "second")
    await at.clock.advance(119)
    assert delivered(at.remote) == ["first"]
    await at.clock.advance(11)
    assert sorted(held(at.remote)) == ["first", "second"]
    assert at.link_state == LinkState.CONNECTED


async def test_retry_after_of_aeons_is_five_minutes(at: At) -> None:
    at.remote.script(RemoteUnavailable("HTTP 429", retry_after_s=1e9, reached=True))
    await at.stored("patient")
    await at.clock.advance(310)
    assert held(at.remote) == ["patient"]


async def test_retry_after_of_nothing_brings_no_storm(at: At) -> None:
    at.remote.against["hot"] = RemoteUnavailable("HTTP 429", retry_after_s=0, reached=True)
    await at.stored("hot")
    await at.clock.advance(60)
    assert 2 <= len(delivered(at.remote)) <= 8


async def test_a_memory_that_backs_off_never_holds_the_others(at: At) -> None:
    at.remote.against["slow"] = BUSY
    await at.stored("slow", "quick", "brisk")
    await at.clock.settle()
    assert held(at.remote) == ["quick", "brisk"]
    at.remote.against.clear()
    await at.clock.advance(20)
    assert held(at.remote) == ["quick", "brisk", "slow"]


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


async def test_a_poisonous_memory_dies_after_ten_refusals_and_the_others_pass(at: At) -> None:
    at.remote.against["poison"] = PERHAPS_NOT
    (poison, *_) = await at.stored("poison", "wholesome")
    await at.clock.advance(HOUR)
    assert held(at.remote) == ["wholesome"]
    assert delivered(at.remote).count("poison") == 10
    assert [entry.id for entry in await at.memory.outbox(["dead"])] == [poison]


async def test_of_many_refusals_alike_three_are_told_one_by_one(at: At, caplog: pytest.LogCaptureFixture) -> None:
    texts = [f"poison {number}" for number in range(5)]
    at.remote.against.update(dict.fromkeys(texts, CLEARLY_NOT))
    at.remote.down = True
    await at.stored(*texts)
    at.remote.down = False
    caplog.clear()
    assert (await at.memory.sync()).dead == 5
    told = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert (len(told), told[-1]) == (4, "2 more deliveries failed likewise: HTTP 422")


async def test_a_clear_refusal_kills_at_once_and_a_retry_revives(at: At) -> None:
    at.remote.against["poison"] = CLEARLY_NOT
    (poison,) = await at.stored("poison")
    await at.clock.settle()
    assert [(entry.id, entry.last_error) for entry in await at.memory.outbox(["dead"])] == [(poison, "HTTP 422")]
    at.remote.against.clear()
    assert await at.memory.outbox_retry() == 1
    await at.clock.settle()
    assert held(at.remote) == ["poison"]


async def test_what_the_remote_holds_otherwise_is_sent_again_at_once_and_not_in_a_circle(at: At) -> None:
    at.remote.script(*[RemoteRefused(OVERTAKEN, clear=False, code=OVERTAKEN)] * 9)
    await at.memory.store("contested")
    await at.clock.settle()
    assert len(at.remote.named("store")) == 4


@pytest.mark.requirement("A19")
async def test_a_process_that_ends_before_a_wrong_token_is_answered_leaves_what_earlier_ones_heard(at: At) -> None:
    at.remote.script(RemoteUnauthorised(401))
    await at.memory.sync(timeout=1)
    before = (await at.memory.status())["link"]
    await at.memory._engine.remotes.connections[0]._link.given_up(at.clock.monotonic())
    after = (await at.memory.status())["link"]
    assert (after["last_error"], after["state"]) == (before["last_error"], "offline")
    assert "401" in after["last_error"]


async def test_a_refused_token_pauses_everything_and_nothing_dies(at: At) -> None:
    at.remote.script(RemoteUnauthorised(401))
    await at.stored("first", "second")
    await at.clock.settle()
    status = await at.memory.status()
    assert (status["link"]["state"], status["outbox"]["pending"], status["outbox"]["dead"]) == ("offline", 2, 0)
    assert "token" in status["link"]["last_error"]
    assert delivered(at.remote) == ["first"]
    await at.clock.advance(300)
    assert held(at.remote) == ["first", "second"]


# --- unknown outcomes, revisions, forgetting --------------------------------------------------------------------------


async def test_forgetting_before_delivery_sends_nothing_at_all(at: At) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await at.stored("secret")
    await at.memory.forget("secret")
    at.remote.down = False
    await at.memory.sync(timeout=1)
    assert {call.name for call in at.remote.calls} == {"connect"}
    assert (await at.memory.status())["outbox"] == {"pending": 0, "leased": 0, "dead": 0, "oldest_s": None}


async def test_what_is_forgotten_or_lowered_while_it_waits_in_a_lease_is_not_sent(at: At) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await at.stored("first", "forgotten", "lowered", "revised", "last")
    at.remote.down = False
    at.remote.hang()
    at.remote.script(None)
    await at.clock.advance(300)
    at.remote.go_on()
    at.remote.hang()
    await at.clock.settle()
    await at.memory.forget("forgotten")
    await at.memory.store("private now", key="lowered", significance=0.3)
    await at.memory.store("revision", key="revised")
    at.remote.go_on()
    await at.clock.settle()
    assert delivered(at.remote) == ["first", "last", "revision"]
    assert held(at.remote) == ["first", "last", "revision"]


@pytest.mark.requirement("KNG-002")
async def test_a_revision_that_falls_to_the_threshold_stays_here_and_one_that_rises_is_sent(at: At) -> None:
    for content, significance in (("loud", 0.31), ("hushed", 0.3), ("louder", 0.9)):
        await at.memory.store(content, key="k", significance=significance)
        await at.clock.settle()
    assert delivered(at.remote) == ["loud", "louder"]
    assert held(at.remote) == ["louder"]


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


async def test_sync_by_a_router_that_does_not_lead_has_the_leader_send(at: At) -> None:
    async with router_over(PromptStore(at.disk.home), at.remote, at.clock, leads=lambda: False) as other:
        at.remote.script(BUSY)
        await at.stored("waits")
        await at.clock.settle()
        assert held(at.remote) == []
        syncing = asyncio.ensure_future(other.sync(timeout=60))
        await at.clock.advance(30)
        assert ((await syncing).pending, held(at.remote)) == (0, ["waits"])


async def test_a_sync_that_another_process_carries_out_counts_refusals_on(at: At) -> None:
    at.remote.against["nonsense"] = RemoteRefused("what?", clear=False)
    async with router_over(PromptStore(at.disk.home), at.remote, at.clock, leads=lambda: False) as other:
        await at.stored("nonsense")
        for _ in range(10):
            syncing = asyncio.ensure_future(other.sync(timeout=15))
            await at.clock.advance(16)
            await syncing
        assert at.outbox == (0, 0, 1)


async def test_looking_at_an_empty_outbox_writes_nothing(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    seen: list[Event] = []
    async with router_over(disk, remote, clock, observers=(seen.append,)):
        await clock.advance(HOUR)
    assert not any(isinstance(event, DeliveryStarted) for event in seen)
