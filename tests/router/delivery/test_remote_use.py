"""Enrolling a remote is an act: what reads sends it nothing but the question, and earlier memories stay unless said."""

from __future__ import annotations

import pytest

from kingly_memory.models import DeliveryState, MemoryType, RemoteUse
from kingly_memory.testing import FakeRemote, ManualClock
from tests.federation_bench import facet_at, federated, name_of
from tests.router_bench import PromptStore, held

ONCE, ASK = RemoteUse.ONCE, RemoteUse.ASK


def again(disk: PromptStore) -> PromptStore:
    return PromptStore(disk.home)


def enrolled(disk: PromptStore) -> list[str]:
    """The remotes that the home knows."""
    return [name for name, _ in disk.reader.threads.named("remote", 10)]


# --- asking ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_only_asked_gets_the_question_and_nothing_else(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {}, clock) as memory:
        await memory.store("refunds take three days")
    async with federated(again(disk), {"team": team}, clock, use=ASK) as memory:
        assert (await memory.search("refunds")).source == "hybrid"
        await clock.advance(1_000)
        assert (await memory.status())["outbox"]["pending"] == 0
        assert "earlier" not in (await memory.status())["outbox"]
    assert {call.name for call in team.calls} == {"connect", "search"}
    assert enrolled(again(disk)) == []


# --- once -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_used_once_gets_what_is_stored_then_and_nothing_before_or_after(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {}, clock) as memory:
        await memory.store("before")
    async with federated(again(disk), {"team": team}, clock, use=ONCE) as memory:
        receipt = await memory.store("this", key="this")
        await memory.sync()
        assert (await memory.store("of no weight", significance=0.3)).delivery is DeliveryState.LOCAL_ONLY
        assert receipt.delivery is DeliveryState.PENDING
        [known] = await memory.remotes()
        assert (known.since, known.delivered, known.is_strange) == (None, 1, False)
    async with federated(again(disk), {}, clock) as memory:
        after = await memory.store("after")
        assert facet_at(disk, "team", after.id) is None
        assert "elsewhere" not in (await memory.status())
    assert held(team) == ["this"]


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_used_once_gets_also_what_waits_for_it_already(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    team.down = True
    async with federated(disk, {"team": team}, clock, use=ONCE) as memory:
        await memory.store("waits")
        await memory.sync()
    team.down = False
    async with federated(again(disk), {}, clock) as memory:
        await memory.store("of this machine")
    async with federated(again(disk), {"team": team}, clock, use=ONCE) as memory:
        await clock.advance(1_000)  # the link has recovered by then
        await memory.store("this", wait=5)
    assert sorted(held(team)) == ["this", "waits"]


@pytest.mark.requirement("N3")
async def test_what_follows_from_a_store_does_not_go_to_a_remote_that_is_used_once(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    """What falls out of a full context is stored anew, as an episode; it was not what the caller said."""
    async with federated(disk, {}, clock) as memory:
        for number in range(20):
            await memory.store(f"note {number}", type=MemoryType.WORKING, context_id="c")
    async with federated(again(disk), {"team": team}, clock, use=ONCE) as memory:
        await memory.store("the last straw", type=MemoryType.WORKING, context_id="c")
        await memory.sync()
        assert len(await memory.list(types=["episodic"])) == 1
    assert held(team) == ["the last straw"]


@pytest.mark.requirement("N3")
async def test_what_was_sent_once_is_forgotten_there_too(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {"team": team}, clock, use=ONCE) as memory:
        await memory.store("this", key="this")
        await memory.sync()
    async with federated(again(disk), {}, clock) as memory:
        await memory.forget("this")
        assert (await memory.status())["elsewhere"] == [{"endpoint": "fake://team", "waiting": 1}]
    async with federated(again(disk), {"team": team}, clock, use=ONCE) as memory:
        await memory.sync()
    assert held(team) == []


async def test_a_link_between_two_that_were_sent_once_goes_there_when_it_is_made_so(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {"team": team}, clock, use=ONCE) as memory:
        for key in ("cause", "effect"):
            await memory.store(key, key=key)
        await memory.sync()
        await memory.link_memories("cause", "effect")
        await memory.sync()
    assert len(team.links) == 1


# --- enrolled -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_an_earlier_memory_that_is_brought_back_stays_here_and_one_that_is_revised_goes(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {}, clock) as memory:
        await memory.store("forgotten before", key="old")
        await memory.store("to be revised", key="revised")
        await memory.forget("old")
    await clock.advance(60)
    async with federated(again(disk), {"team": team}, clock) as memory:
        await clock.settle()
        await memory.restore("old")
        await memory.store("revised now", key="revised")
        await memory.store("new", key="new")
        await memory.forget("new")
        await memory.restore("new")
        await memory.sync()
    assert sorted(held(team)) == ["new", "revised now"]


@pytest.mark.requirement("N3")
async def test_earlier_memories_may_be_asked_for_later_and_are_looked_for_once(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {}, clock) as memory:
        await memory.store("early")
    async with federated(again(disk), {"team": team}, clock) as memory:
        await memory.sync()
        assert held(team) == []
    async with federated(again(disk), {"team": team}, clock, earlier=True) as memory:
        await memory.sync()
        assert held(team) == ["early"]
        assert [(one.since is None, one.earlier) for one in await memory.remotes()] == [(False, True)]
        waits = await memory.store("dropped")
        await memory.outbox_drop([waits.id])
    before = len(team.calls)
    async with federated(again(disk), {"team": team}, clock, earlier=True) as memory:
        await memory.sync()
        assert "earlier" not in (await memory.status())["outbox"]
    assert {call.name for call in team.calls[before:]} == {"connect"}


@pytest.mark.requirement("L4")
@pytest.mark.parametrize("significance", [0.0, 0.3])
async def test_a_memory_of_03_is_settled_at_once_while_the_remote_is_down(
    disk: PromptStore, clock: ManualClock, team: FakeRemote, significance: float
) -> None:
    team.down = True
    async with federated(disk, {}, clock) as memory:
        early = await memory.store("early", significance=significance)
    async with federated(again(disk), {"team": team}, clock, earlier=True) as memory:
        await memory.store("it matters", key="lowered", significance=0.9)
        lowered = await memory.store("it does not", key="lowered", significance=significance)
        stored = await memory.store("kept here", significance=significance)
        assert (stored.delivery, stored.layers) == (DeliveryState.LOCAL_ONLY, ("local",))
        await memory.sync()
        for receipt in (early, lowered, stored):
            assert facet_at(disk, "team", receipt.id) is None
        assert not await memory.outbox()
        assert (await memory.status())["outbox"]["pending"] == 0
        team.down = False
        await memory.sync()
        assert held(team) == []
        raised = await memory.store("kept here no more", key="raised", significance=0.3000001)
        assert facet_at(disk, "team", raised.id) is not None


# --- what the remote calls a memory ---------------------------------------------------------------------------------


@pytest.mark.requirement("L2")
@pytest.mark.requirement("KNG-009")
async def test_the_remotes_id_is_read_after_a_delivery_in_the_background_whoever_looks(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {"team": team}, clock) as memory:
        there = await memory.store("there", key="there")
        await memory.sync()
        team.down = True
        here = await memory.store("not yet there", key="here")
        assert there.remote_id is None
    [remote_id] = team.memories
    for remotes in ({}, {"team": team}):
        async with federated(again(disk), remotes, clock) as memory:
            page = await memory.list()
            assert page.remote_ids == {there.id: remote_id}
            ids = {one["id"]: one["remote_id"] for one in page.to_json()["memories"]}
            assert ids == {there.id: remote_id, here.id: None}
            explained = await memory.explain("there")
            assert explained is not None
            told = {"endpoint": "fake://team", "delivery": "delivered", "remote_id": remote_id}
            assert explained["remotes"] == [told]
    assert name_of("team") in enrolled(again(disk))


@pytest.mark.requirement("L2")
async def test_a_revision_that_waits_shows_what_the_remote_calls_the_memory(
    disk: PromptStore, clock: ManualClock, team: FakeRemote
) -> None:
    async with federated(disk, {"team": team}, clock) as memory:
        await memory.store("first", key="k")
        await memory.sync()
        team.down = True
        await memory.store("second", key="k")
        [entry] = await memory.outbox()
    assert [entry.to_json()["remote_id"]] == list(team.memories)
