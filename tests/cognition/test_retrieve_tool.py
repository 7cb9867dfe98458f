"""The tool with which an agent recalls what it lived through, as a client meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import MemoryRouter
from tests.mcp_sessions import QUICK, session


async def lived(home: Path, agent_id: str = "H001", floods: int = 9) -> None:
    """An agent with an episode in each year, and something in working memory."""
    async with MemoryRouter.open(home, False, project="app", settings=QUICK) as router:
        memory = await router.cognitive(agent_id)
        for year in range(floods):
            memory.add_episodic(f"Year {year}: the river rose", 0.9, year, ["flood"])
        memory.add_working("the cellar is dry", 0.4, floods)


@pytest.mark.requirement("COG-023")
@pytest.mark.parametrize(("asked", "given"), [(50, 5), (5, 5), (2, 2), (0, 0)])
async def test_the_tool_never_gives_more_than_five_and_says_so(tmp_path: Path, asked: int, given: int) -> None:
    await lived(tmp_path / "home")
    async with session(tmp_path / "home") as client:
        found = await client.ok("retrieve_memory", agent_id="H001", top_k=asked, current_year=9)
    assert (found["count"], found["top_k"], found["limited"]) == (given, given, asked > 5)
    assert len(found["memories"]) == given


@pytest.mark.requirement("COG-023", "COG-058", "COG-059")
async def test_experiences_come_latest_first_and_can_be_narrowed(tmp_path: Path) -> None:
    await lived(tmp_path / "home")
    async with session(tmp_path / "home") as client:
        found = await client.ok("retrieve_memory", agent_id="H001")
        tagged = await client.ok("retrieve_memory", agent_id="H001", tags=["flood"], top_k=1)
        asked = await client.ok("retrieve_memory", agent_id="H001", query="is the cellar wet")
        nobody = await client.ok("retrieve_memory", agent_id="H999")
    assert found["memories"][:2] == ["the cellar is dry", "Year 8: the river rose"]
    assert tagged["memories"] == ["Year 8: the river rose"]
    assert asked["memories"] == ["the cellar is dry"]
    assert (nobody["memories"], nobody["count"]) == ([], 0)


@pytest.mark.requirement("COG-024")
async def test_retrieving_changes_nothing(tmp_path: Path) -> None:
    await lived(tmp_path / "home")
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as router:
        before = (await router.cognitive("H001")).serialize()
    async with session(tmp_path / "home") as client:
        await client.ok("retrieve_memory", agent_id="H001", query="river", current_year=50)
        await client.ok("retrieve_memory", agent_id="H002")
        [tool] = [one for one in (await client.client.list_tools()).tools if one.name == "retrieve_memory"]
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as router:
        assert (await router.cognitive("H001")).serialize() == before
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint
    assert not tool.annotations.destructive_hint


@pytest.mark.requirement("COG-022")
async def test_the_tool_is_in_a_toolset_of_its_own(tmp_path: Path) -> None:
    async with session(tmp_path / "home", toolsets=("cognition",)) as client:
        assert [one.name for one in (await client.client.list_tools()).tools] == ["retrieve_memory"]
