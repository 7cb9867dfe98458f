"""What one machine forgets, the others forget too, at their next contact with the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.hub.feed import Feed
from tests.hub.machines import Team, texts

SECRET = "the launch code is 7394"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    made = Team(tmp_path)
    yield made
    made.store.close()


async def shared(ours: MemoryRouter, theirs: MemoryRouter) -> str:
    """A memory that ours has stored and theirs has, too. Its id."""
    receipt = await ours.store(SECRET, significance=0.9, wait=5)
    await theirs.sync(timeout=5)
    assert await texts(theirs, SECRET, include_semantic=False) == [SECRET]
    return receipt.id


@pytest.mark.requirement("N2")
@pytest.mark.requirement("D3")
async def test_the_first_search_of_a_new_process_shows_nothing_that_was_forgotten_elsewhere(team: Team) -> None:
    async with team.machine("ours") as ours:
        async with team.machine("theirs") as theirs:
            memory_id = await shared(ours, theirs)
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        async with team.machine("theirs", is_synced=False) as theirs:
            assert await texts(theirs, SECRET) == []
            assert await texts(theirs, SECRET, include_semantic=False) == []


@pytest.mark.requirement("N7")
async def test_a_memory_that_comes_in_during_a_search_counts_as_found_here(team: Team) -> None:
    async with team.machine("ours") as ours:
        async with team.machine("theirs"):
            pass
        await ours.store("The depot in Porto closes at noon on Fridays", significance=0.9, wait=5)
        async with team.machine("theirs", is_synced=False) as theirs:
            first, second = [(await theirs.search("when does the depot close")).hits for _ in range(2)]
            assert first[0].relevance == pytest.approx(second[0].relevance)
            assert "local" in first[0].layers


@pytest.mark.requirement("N2")
async def test_a_router_that_stays_open_hears_of_what_others_did_within_a_minute(team: Team) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        memory_id = await shared(ours, theirs)
        await ours.forget(memory_id)
        await ours.store("Deploys need two reviews", wait=5)
        await ours.sync(timeout=5)
        await team.clock.advance(120)
        assert [one.content for one in await theirs.list()] == ["Deploys need two reviews"]


@pytest.mark.requirement("N2")
async def test_what_was_forgotten_stays_findable_until_the_hub_is_reached_again(team: Team) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        memory_id = await shared(ours, theirs)
        team.wires["theirs"].is_down = True
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        await team.clock.advance(120)
        assert await texts(theirs, SECRET) == [SECRET]
        team.wires["theirs"].is_down = False
        await theirs.sync(timeout=5)
        assert await texts(theirs, SECRET) == []


@pytest.mark.requirement("N2")
@pytest.mark.requirement("D3")
@pytest.mark.parametrize("is_forgotten_first", [True, False])
async def test_a_key_whose_memory_was_purged_names_a_new_one(team: Team, is_forgotten_first: bool) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        first = await ours.store(SECRET, key="launch-code", significance=0.9, wait=5)
        await theirs.sync(timeout=5)
        if is_forgotten_first:
            await ours.forget(first.id)
            await ours.sync(timeout=5)
        await ours.purge(first.id)
        await ours.sync(timeout=5)
        await theirs.sync(timeout=5)
        files = [one.read_bytes() for one in (team.folder / "hub").rglob("*") if one.is_file()]
        assert not [one for one in files if b"launch-code" in one or SECRET.encode() in one]
        await ours.store("the new code", key="launch-code", significance=0.9, wait=5)
        for one in (ours, theirs):
            await one.sync(timeout=5)
            assert [memory.content for memory in await one.list()] == ["the new code"]


@pytest.mark.requirement("N2")
async def test_what_a_hub_says_of_the_far_future_can_still_be_changed(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = "9999-12-31T23:59:59.999999+00:00"
    entry = Feed._entry
    monkeypatch.setattr(Feed, "_entry", lambda self, *what: {**entry(self, *what), "at": last})
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        memory_id = await shared(ours, theirs)
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        await theirs.sync(timeout=5)
        assert not list(await theirs.list())
        await theirs.restore(memory_id)
        await theirs.update(memory_id, "the code has changed")
        assert [one.content for one in await theirs.list()] == ["the code has changed"]
