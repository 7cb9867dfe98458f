"""Adding a remote is an act: what reads sends it nothing but the question, and earlier memories stay unless said."""

from __future__ import annotations

import pytest

from kingly_memory.models import DeliveryState, MemoryType, RemoteUse
from tests.router_bench import PromptStore, Remotes, facet_at, held, name_of

ONCE, ASK = RemoteUse.ONCE, RemoteUse.ASK


def added(disk: PromptStore) -> list[str]:
    """The remotes that the home knows."""
    return [name for name, _ in disk.reader.facets_named("remote", 10)]


# --- asking ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_only_asked_gets_the_question_and_nothing_else(here: Remotes) -> None:
    async with here.opened({}) as memory:
        await memory.store("refunds take three days")
    async with here.opened({"team": here.team}, use=ASK) as memory:
        assert (await memory.search("refunds")).source == "hybrid"
        await here.clock.advance(1_000)
        assert (await memory.status())["outbox"]["pending"] == 0
        assert "earlier" not in (await memory.status())["outbox"]
    assert {call.name for call in here.team.calls} == {"connect", "search"}
    assert added(PromptStore(here.disk.home)) == []


# --- once -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_used_once_gets_what_is_stored_then_and_nothing_before_or_after(here: Remotes) -> None:
    async with here.opened({}) as memory:
        await memory.store("before")
    async with here.opened({"team": here.team}, use=ONCE) as memory:
        receipt = await memory.store("this", key="this")
        await memory.sync()
        assert (await memory.store("of no weight", significance=0.3)).delivery is DeliveryState.LOCAL_ONLY
        assert receipt.delivery is DeliveryState.PENDING
        [known] = await memory.remotes()
        assert (known.since, known.delivered, known.is_strange) == (None, 1, False)
    async with here.opened({}) as memory:
        after = await memory.store("after")
        assert facet_at(here.disk, "team", after.id) is None
        assert "elsewhere" not in (await memory.status())
    assert held(here.team) == ["this"]


@pytest.mark.requirement("N3")
async def test_a_remote_that_is_used_once_gets_also_what_waits_for_it_already(here: Remotes) -> None:
    here.team.down = True
    async with here.opened({"team": here.team}, use=ONCE) as memory:
        await memory.store("waits")
        await memory.sync()
    here.team.down = False
    async with here.opened({}) as memory:
        await memory.store("of this machine")
    async with here.opened({"team": here.team}, use=ONCE) as memory:
        await here.clock.advance(1_000)  # the link has recovered by then
        await memory.store("this", wait=5)
    assert sorted(held(here.team)) == ["this", "waits"]


@pytest.mark.requirement("N3")
async def test_what_follows_from_a_store_does_not_go_to_a_remote_that_is_used_once(here: Remotes) -> None:
    """What falls out of a full context is stored anew, as an episode; it was not what the caller said."""
    async with here.opened({}) as memory:
        for number in range(20):
            await memory.store(f"note {number}", type=MemoryType.WORKING, context_id="c")
    async with here.opened({"team": here.team}, use=ONCE) as memory:
        await memory.store("the last straw", type=MemoryType.WORKING, context_id="c")
        await memory.sync()
        assert len(await memory.list(types=["episodic"])) == 1
    assert held(here.team) == ["the last straw"]


# --- added ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N3")
async def test_an_earlier_memory_that_is_brought_back_stays_here_and_one_that_is_revised_goes(here: Remotes) -> None:
    async with here.opened({}) as memory:
        await memory.store("forgotten before", key="old")
        await memory.store("to be revised", key="revised")
        await memory.forget("old")
    await here.clock.advance(60)
    async with here.opened({"team": here.team}) as memory:
        await here.clock.settle()
        await memory.restore("old")
        await memory.store("revised now", key="revised")
        await memory.store("new", key="new")
        await memory.forget("new")
        await memory.restore("new")
        await memory.sync()
    assert sorted(held(here.team)) == ["new", "revised now"]


@pytest.mark.requirement("N3")
async def test_earlier_memories_may_be_asked_for_later_and_are_looked_for_once(here: Remotes) -> None:
    async with here.opened({}) as memory:
        await memory.store("early")
    async with here.opened({"team": here.team}) as memory:
        await memory.sync()
        assert held(here.team) == []
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.sync()
        assert held(here.team) == ["early"]
        assert [(one.since is None, one.earlier) for one in await memory.remotes()] == [(False, True)]
        waits = await memory.store("dropped")
        await memory.outbox_drop([waits.id])
    before = len(here.team.calls)
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.sync()
        assert "earlier" not in (await memory.status())["outbox"]
    assert {call.name for call in here.team.calls[before:]} == {"connect"}


@pytest.mark.requirement("L4")
@pytest.mark.parametrize("significance", [0.0, 0.3])
async def test_a_memory_of_03_is_settled_at_once_while_the_remote_is_down(here: Remotes, significance: float) -> None:
    here.team.down = True
    async with here.opened({}) as memory:
        early = await memory.store("early", significance=significance)
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.store("it matters", key="lowered", significance=0.9)
        lowered = await memory.store("it does not", key="lowered", significance=significance)
        stored = await memory.store("kept here", significance=significance)
        assert (stored.delivery, stored.layers) == (DeliveryState.LOCAL_ONLY, ("local",))
        await memory.sync()
        for receipt in (early, lowered, stored):
            assert facet_at(here.disk, "team", receipt.id) is None
        assert not await memory.outbox()
        assert (await memory.status())["outbox"]["pending"] == 0
        here.team.down = False
        await memory.sync()
        assert held(here.team) == []
        raised = await memory.store("kept here no more", key="raised", significance=0.3000001)
        assert facet_at(here.disk, "team", raised.id) is not None


# --- what the remote calls a memory ---------------------------------------------------------------------------------


@pytest.mark.requirement("L2")
@pytest.mark.requirement("KNG-009")
async def test_the_remotes_id_is_read_after_a_delivery_in_the_background_whoever_looks(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        there = await memory.store("there", key="there")
        await memory.sync()
        here.team.down = True
        waits = await memory.store("not yet there", key="here")
        assert there.remote_id is None
    [remote_id] = here.team.memories
    for remotes in ({}, {"team": here.team}):
        async with here.opened(remotes) as memory:
            page = await memory.list()
            assert page.remote_ids == {there.id: remote_id}
            ids = {one["id"]: one["remote_id"] for one in page.to_json()["memories"]}
            assert ids == {there.id: remote_id, waits.id: None}
            explained = await memory.explain("there")
            assert explained is not None
            told = {"endpoint": "fake://team", "delivery": "delivered", "remote_id": remote_id}
            assert explained["remotes"] == [told]
    assert name_of("team") in added(PromptStore(here.disk.home))


@pytest.mark.requirement("L2")
async def test_a_revision_that_waits_shows_what_the_remote_calls_the_memory(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        await memory.store("first", key="k")
        await memory.sync()
        here.team.down = True
        await memory.store("second", key="k")
        [entry] = await memory.outbox()
    assert [entry.to_json()["remote_id"]] == list(here.team.memories)
