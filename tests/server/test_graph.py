"""The knowledge graph as a client of the reference memory server meets it, and as everything else here does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import TextContent

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.graph import Entity, part
from kingly_memory.models import JsonObject
from kingly_memory.server import graph
from tests.cli_runner import Run
from tests.mcp_sessions import Session, process_session, session

ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea", "two\n- lines\n  here", ""]}
SHOP = {"name": "Shop", "entityType": "", "observations": []}
RELATIONS = [
    {"from": "Ann", "to": "Shop", "relationType": "runs"},
    {"from": "Ann", "to": "Shop", "relationType": "founded"},
    {"from": "Ann", "to": "nobody", "relationType": "knows"},
]
WHOLE = {"entities": [ANN, SHOP], "relations": RELATIONS}


TEXTS = st.text("a -\n()", max_size=8)


async def did(client: Session, tool: str, **arguments: Any) -> JsonObject:
    """The structured answer; the text has what is in it, or a sentence."""
    result = await client.client.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    answer: JsonObject = result.structured_content or {}
    [*_, inner] = answer.values()
    assert content.text == inner or json.loads(content.text) in (inner, answer)
    return answer


@given(TEXTS.filter(str.strip), TEXTS, st.lists(TEXTS, max_size=4))
def test_observations_come_back_from_the_text_as_they_were(name: str, kind: str, observed: list[str]) -> None:
    entity = Entity(name, kind, tuple(observed))
    assert part(name, entity.content, {"entityType": kind}) == entity


@pytest.mark.requirement("N20")
async def test_the_graph_is_made_of_memories_that_searches_find_and_restore_brings_back(tmp_path: Path) -> None:
    async with session(tmp_path / "home", toolsets=("graph", "memory", "lifecycle")) as client:
        created = await did(client, "create_relations", relations=[*RELATIONS, RELATIONS[0]])
        assert created == {"relations": RELATIONS}
        assert await did(client, "create_entities", entities=[ANN, SHOP, {**SHOP, "entityType": "twin"}]) == {
            "entities": [ANN, SHOP]
        }
        assert await did(client, "read_graph") == WHOLE
        [found] = (await client.ok("memory_hybrid_search", query="who likes tea", limit=1))["results"]
        assert (found["key"], found["tags"]) == ("Ann", ["graph", "person"])
        assert (await did(client, "search_nodes", query="who founded"))["entities"] == [ANN, SHOP]
        await did(client, "delete_entities", entityNames=["Ann"])
        assert await did(client, "read_graph") == {"entities": [SHOP], "relations": []}
        await client.ok("memory_restore", key_or_id="Ann")
        assert (await did(client, "open_nodes", names=["Ann"]))["entities"] == [ANN]


async def test_a_call_that_fails_changes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    async with session(tmp_path / "home", toolsets=("graph", "memory")) as client:
        await did(client, "create_entities", entities=[SHOP])
        asked = [{"entityName": "Shop", "contents": ["lost"]}, {"entityName": "Zed", "contents": ["x"]}]
        assert "Zed not found; create it first" in await client.error("add_observations", observations=asked)
        assert await did(client, "read_graph") == {"entities": [SHOP], "relations": []}
        said = await client.error("create_entities", entities=[{**ANN, "observations": [3]}])
        assert said == "entities[0].observations[0]: expected text"
        assert await client.error("create_entities", entities=[{"name": "x"}]) == "entities[0].entityType: is missing"
        await client.ok("memory_intelligent_store", key="mine", content="no entity")
        assert "take another name" in await client.error("create_entities", entities=[{**SHOP, "name": "mine"}])
        assert (await client.ok("memory_get", key_or_id="mine"))["memory"]["content"] == "no entity"


async def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    async with process_session(tmp_path / "home") as one, process_session(tmp_path / "home") as other:
        await did(one, "create_entities", entities=[SHOP])

        async def write(client: Session, name: str) -> None:
            for number in range(20):
                observed = [{"entityName": "Shop", "contents": [f"{name} {number}"]}]
                await did(client, "add_observations", observations=observed)

        await asyncio.gather(write(one, "one"), write(other, "other"))
        [shop] = (await did(one, "read_graph"))["entities"]
    assert sorted(shop["observations"]) == sorted(f"{name} {n}" for name in ("one", "other") for n in range(20))


@pytest.mark.requirement("N20")
async def test_the_file_of_the_reference_server_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "memory.jsonl"
    lines = [json.dumps({"type": "entity", **ANN}), json.dumps({"type": "relation", **RELATIONS[0]}), "no json"]
    file.write_text("\n".join(lines))
    monkeypatch.setenv(graph.FILE, str(file))
    async with session(tmp_path / "home", toolsets=("graph",)) as client:
        await did(client, "create_relations", relations=[])
        assert await did(client, "read_graph") == {"entities": [ANN], "relations": RELATIONS[:1]}
    assert "line 3" in caplog.text
    file.write_text("\n".join(lines[:2]))
    async with session(tmp_path / "home", toolsets=("graph",)) as client:
        await did(client, "read_graph")
        await did(client, "delete_entities", entityNames=["Ann"])
    async with session(tmp_path / "home", toolsets=("graph",)) as client:
        assert await did(client, "read_graph") == {"entities": [], "relations": []}


@pytest.mark.requirement("N20")
def test_what_is_exported_is_the_file_of_the_reference_server(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "entity", **one}) for one in (ANN, SHOP)]
    lines += [json.dumps({"type": "relation", **one}) for one in RELATIONS]
    (tmp_path / "memory.jsonl").write_text("\n".join(lines) + "\n")
    assert run("import", str(tmp_path / "memory.jsonl"), "--json").json["stored"] == 5
    run("store", "Something else")
    run("export", str(tmp_path / "again.jsonl"), "--layout", "graph")
    assert (tmp_path / "again.jsonl").read_text().splitlines() == lines


async def test_the_library_has_the_graph_too(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home") as memory:
        with pytest.raises(InvalidInput, match="name: is empty"):
            await memory.graph.create_entities([Entity(" ", "person")])
        await memory.graph.create_entities([Entity("Ann", "person", ("likes tea",))])
        assert await memory.graph.add_observations([("Ann", ["likes tea", "is 40"])]) == (("is 40",),)
        await memory.graph.delete_observations(json.loads('[["Ann", ["likes tea"]], ["nobody", ["x"]]]'))
        assert (await memory.graph.open_nodes(["Ann"])).entities == (Entity("Ann", "person", ("is 40",)),)
