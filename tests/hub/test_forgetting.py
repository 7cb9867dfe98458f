"""What one machine forgets, the others that found it at the hub forget too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.hub import engine
from kingly_memory.models import Query, Standing
from kingly_memory.validation import Imported, draft
from tests.hub.machines import Team, texts

SECRET = "the launch code is 7394"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    made = Team(tmp_path)
    yield made
    made.store.close()


async def copied(ours: MemoryRouter, theirs: MemoryRouter, text: str = SECRET) -> str:
    """A memory that ours has stored, and that theirs has found and kept a copy of. Its id on our machine."""
    receipt = await ours.store(text, significance=0.9, wait=5)
    assert text in await texts(theirs, text)
    await theirs._engine.flush()
    assert text in await texts(theirs, text, include_semantic=False)
    return receipt.id


def rows(memory: MemoryRouter) -> list[str]:
    """Everything that the machine's store has, whatever its standing."""
    return [row.memory.content for row in memory._engine.reader.page(Query("", "app"), list(Standing), 100, None)]


@pytest.mark.requirement("N2")
@pytest.mark.requirement("D3")
async def test_the_first_search_of_a_new_process_shows_no_copy_of_what_was_forgotten_elsewhere(team: Team) -> None:
    async with team.machine("ours") as ours:
        async with team.machine("theirs") as theirs:
            memory_id = await copied(ours, theirs)
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        async with team.machine("theirs", is_synced=False) as theirs:
            assert await texts(theirs, SECRET) == []
            assert await texts(theirs, SECRET, include_semantic=False) == []
            assert rows(theirs) == []


@pytest.mark.requirement("N2")
async def test_a_router_that_stays_open_drops_its_copies_within_a_minute_or_with_a_sync(team: Team) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs, team.machine("third") as third:
        memory_id = await copied(ours, theirs)
        await copied(ours, third, "deploys need two reviews")
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        await third.sync(timeout=5)
        assert rows(third) == ["deploys need two reviews"]
        await team.clock.advance(120)
        assert rows(theirs) == []


@pytest.mark.requirement("N2")
async def test_a_copy_stays_findable_until_the_hub_is_reached_again(team: Team) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        memory_id = await copied(ours, theirs)
        team.wires["theirs"].is_down = True
        await ours.forget(memory_id)
        await ours.sync(timeout=5)
        await team.clock.advance(120)
        assert await texts(theirs, SECRET) == [SECRET]
        team.wires["theirs"].is_down = False
        await theirs.sync(timeout=5)
        assert await texts(theirs, SECRET) == []


@pytest.mark.requirement("N2")
async def test_what_was_restored_meanwhile_or_made_ones_own_stays(team: Team) -> None:
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        restored = await copied(ours, theirs)
        taken_over = await copied(ours, theirs, "the garden gate is green")
        copy = next(hit.memory for hit in await theirs.search("garden gate"))
        own = draft(copy.content, content_limit_bytes=1_000)
        await theirs.remember([Imported(own, id=copy.id)])
        for memory_id in (restored, taken_over):
            await ours.forget(memory_id)
        await ours.restore(restored)
        await ours.sync(timeout=5)
        await theirs.sync(timeout=5)
        assert set(rows(theirs)) == {SECRET, "the garden gate is green"}


async def test_a_long_list_is_told_in_parts_and_a_strange_cursor_begins_anew(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LISTED", 2)
    async with team.machine("ours") as ours, team.machine("theirs") as theirs:
        ids = [await copied(ours, theirs, f"secret number {number}") for number in range(5)]
        for memory_id in ids:
            await ours.forget(memory_id)
        await ours.sync(timeout=5)
        called = team.wires["theirs"].called
        called.clear()
        await theirs.sync(timeout=5)
        assert (rows(theirs), called.count("list_forgotten")) == ([], 3)
    for since in ("99", "-1", "x", "9" * 5_000, None):
        reply = await team.wires["theirs"].call("list_forgotten", {"since": since})
        assert (len(reply["memory_ids"]), reply["until"], reply["more"]) == (2, "2", True)
