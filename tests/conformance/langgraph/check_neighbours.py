"""What others build on LangGraph's store works on ours without an embedding model: tools of langmem, files of
deepagents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from deepagents.backends.store import StoreBackend
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langmem import create_manage_memory_tool, create_search_memory_tool

from kingly_memory.integrations.langgraph import KinglyStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KinglyStore]:
    with KinglyStore.from_conn_string(str(tmp_path / "home")) as opened:
        yield opened


class Scripted(GenericFakeChatModel):
    """Says what is written down, and calls tools in it."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Self:
        return self


def turn(store: KinglyStore, tool: Any, **arguments: Any) -> str:
    """What a tool answers in a thread of its own, in which the model calls it."""
    call = {"name": tool.name, "args": arguments, "id": "c1", "type": "tool_call"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
    done = create_agent(model, [tool], store=store).invoke({"messages": ["Go on"]})
    assert done["messages"][-1].content == "Done."
    return str(done["messages"][-2].content)


def test_what_langmem_keeps_in_one_thread_it_finds_in_another(store: KinglyStore) -> None:
    place = ("memories", "lydia")
    kept = turn(store, create_manage_memory_tool(place), content="Lydia prefers trains to planes", action="create")
    turn(store, create_manage_memory_tool(place), content="The office is in Bergen", action="create")
    assert kept.startswith("created memory")
    assert "trains" in turn(store, create_search_memory_tool(place), query="trains or planes?", limit=1)
    key = kept.rsplit(maxsplit=1)[-1]
    turn(store, create_manage_memory_tool(place), id=key, content="Lydia prefers the night train", action="update")
    found = turn(store, create_search_memory_tool(place), query="train")
    assert "night train" in found
    assert "planes" not in found


def test_files_of_deepagents_lie_in_the_store(store: KinglyStore) -> None:
    files = StoreBackend(store=store, namespace=lambda _: ("files", "lydia"))
    files.write("/notes/plan.md", "first line\nsecond line\n")
    files.edit("/notes/plan.md", "second", "last")
    assert "last line" in str(files.read("/notes/plan.md"))
    assert [one["path"] for one in files.grep("last", path="/").matches or []] == ["/notes/plan.md"]
    assert [one["path"] for one in files.ls("/").entries or []] == ["/notes/"]
    for i in range(250):
        files.write(f"/many/{i}.txt", "x")
    assert len(files.glob("*.txt", path="/many").matches or []) == 250
