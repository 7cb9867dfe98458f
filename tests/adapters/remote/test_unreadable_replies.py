"""A search reply in which nothing can be read as a memory is a failure of the remote; an empty list is an answer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

import pytest

from kingly_memory import MemoryRouter, Settings, Source
from kingly_memory.adapters.remote import ultimate_wire, wire
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import LinkState
from kingly_memory.settings import Pace
from tests.adapters.remote.test_remote_contexts import Saying
from tests.scripted.remote import ScriptedRemote

PATIENT = Settings(
    durability="process", local_search_s=5.0, remote_search_s=5.0, pace=Pace(send_pause_s=0.0, closing_s=0.0)
)
SAID = {"memory_id": "1", "content": "fog at sea", "relevance": 0.9}
GARBAGE: list[Any] = [
    [1, 2, 3],
    ["fog"],
    [{}],
    [[SAID]],
    {"results": "nope"},
    {"results": [1, 2]},
    {"results": 7},
    {"memories": {"error": "out of memory"}},
    {"memories": {"text": "fog"}},
    {"memories": [{"memory_id": "1"}, {"content": "fog"}, {"memory_id": "", "content": "fog"}]},
    {"data": {"memories": [None]}},
    {"answer": "fog"},
    {},
    "fog",
    7,
    None,
]
EMPTY: list[Any] = [[], {"memories": []}, {"results": []}, {"memories": None}, {"memories": {}}, {"data": []}]
Dialect = Literal["json-call", "mcp"]


@pytest.mark.requirement("L3", "KNG-019")
@pytest.mark.parametrize("reply", GARBAGE, ids=repr)
def test_a_reply_in_which_nothing_can_be_read_is_no_answer(reply: Any) -> None:
    with pytest.raises(RemoteUnavailable, match=r"no list of memories|nothing in the reply can be read as a memory"):
        wire.hits(reply)


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("reply", EMPTY, ids=repr)
def test_an_empty_list_is_an_answer(reply: Any) -> None:
    assert wire.hits(reply) == []


@pytest.mark.requirement("L3")
@pytest.mark.parametrize(
    "reply",
    [[SAID], {"results": [SAID]}, {"memories": {"1": {"content": "fog at sea"}}}, {"memories": {"a": [SAID]}}, SAID],
)
def test_a_list_of_memories_is_read_in_every_shape_it_comes_in(reply: Any) -> None:
    assert [(hit.remote_id, hit.content) for hit in wire.hits(reply)] == [("1", "fog at sea")]


@pytest.mark.requirement("L3")
def test_of_a_list_that_can_be_read_in_part_the_rest_is_left_out_and_counted_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert len(wire.hits([7, SAID, {"content": "SECRET"}, None])) == 1
        assert ultimate_wire.entries({"memories": [7, SAID, {"content": "SECRET"}, None]}) == [SAID]
    told = "3 of 4 entries in a reply are no memories and are left out"
    assert [record.getMessage() for record in caplog.records] == [told, told]


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("memories", [[1, 2], [{}], [{"memory_id": "1"}], [{"content": "fog"}], "nope", {"1": SAID}])
def test_an_ultimate_servers_reply_is_held_to_the_same(memories: Any) -> None:
    assert ultimate_wire.entries({"success": True, "memories": []}) == []
    with pytest.raises(RemoteUnavailable, match=r"no list of memories|nothing in the reply can be read as a memory"):
        ultimate_wire.entries({"success": True, "memories": memories})


@pytest.mark.requirement("L3", "KNG-003", "KNG-019", "KNG-079")
@pytest.mark.parametrize("dialect", ["json-call", "mcp"])
async def test_garbage_is_a_local_fallback_and_takes_the_link_down_and_an_empty_list_does_not(
    tmp_path: Path, dialect: Dialect
) -> None:
    server = ScriptedRemote(dialect=dialect)
    server.semantic = saying = Saying()
    with server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            receipt = await memory.store("fog at sea", wait=5)
            saying.replies["search_semantic_memories"] = {"memories": []}
            for _ in range(4):
                found = await memory.search("fog")
                assert (found.source, dict(found.failures)) == (Source.HYBRID, {})
            for reply in ([1, 2, 3], {"results": "nope"}, {"results": [1, 2]}):
                assert (await memory.status())["link"]["state"] == LinkState.CONNECTED
                saying.replies["search_semantic_memories"] = reply
                found = await memory.search("fog")
                assert [hit.memory.id for hit in found] == [receipt.id]
                assert found.source is Source.LOCAL_FALLBACK
                assert "of memories" in found.failures["remote"] or "as a memory" in found.failures["remote"]
            assert (await memory.status())["link"]["state"] == LinkState.OFFLINE


@pytest.mark.requirement("L3", "KNG-029")
async def test_garbage_for_a_working_context_is_a_local_fallback(tmp_path: Path) -> None:
    server = ScriptedRemote()
    server.semantic = saying = Saying()
    saying.replies["get_working_memory"] = {"working_memories": [1, 2]}
    with server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            await memory.store("fog at sea", context_id="watch", wait=5)
            context = await memory.working_context("watch")
    assert (context.source, len(context.items)) == (Source.LOCAL_FALLBACK, 1)
    assert context.reason == "nothing in the reply can be read as a memory"
