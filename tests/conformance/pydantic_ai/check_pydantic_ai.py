"""The memory store of Pydantic AI's harness over documents: the program of its docs, versions and operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    MetadataMemoryStore,
    SearchableMemoryStore,
)

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.integrations.pydantic_ai import KinglyMemoryStore
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, NUMBER, TOO_LARGE, closed, refused

MODEL = """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

def scripted(messages, info):
    print(messages)
    if len(messages) > 1 or "Where" in sys.argv[1]:
        return ModelResponse(parts=[TextPart("Noted.")])
    arguments = {"file": "MEMORY.md", "content": sys.argv[1]}
    return ModelResponse(parts=[ToolCallPart("write_memory", arguments)])

MODEL = FunctionModel(scripted)
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[KinglyMemoryStore]:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as opened:
        yield KinglyMemoryStore(opened)


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("Pydantic AI", MODEL, tmp_path, *programs.TEXTS)
    assert "write_memory" in first
    assert programs.TEXTS[0] in second


async def test_a_write_needs_the_version_that_was_read(store: KinglyMemoryStore) -> None:
    assert isinstance(store, MemoryStore)
    assert isinstance(store, MetadataMemoryStore)
    assert isinstance(store, SearchableMemoryStore)
    assert await store.read("lydia/a.md", max_chars=9) is None
    made = await store.write_with_metadata("lydia/a.md", "first text", expected_version=None, metadata={"by": "x"})
    assert (made.existed, made.replayed) == (False, False)
    file = await store.read("lydia/a.md", max_chars=5)
    assert file is not None
    assert (file.content, file.truncated, file.version, file.metadata) == ("first", True, made.version, {"by": "x"})
    again = await store.write("lydia/a.md", "second", expected_version=made.version)
    for wrong in (made.version, None, "0"):
        with pytest.raises(MemoryConflictError):
            await store.write("lydia/a.md", "third", expected_version=wrong)
        with pytest.raises(MemoryConflictError):
            await store.delete("lydia/a.md", expected_version=wrong)
    file = await store.read("lydia/a.md", max_chars=9)
    assert file is not None
    assert (file.content, file.metadata) == ("second", None)
    assert (await store.delete("lydia/a.md", expected_version=again.version)).existed
    remade = await store.write("lydia/a.md", "second", expected_version=None)
    assert remade.version not in (made.version, again.version)
    ended = await asyncio.gather(
        *(store.write("lydia/a.md", f"{i}", expected_version=remade.version) for i in range(5)), return_exceptions=True
    )
    assert sum(isinstance(one, MemoryConflictError) for one in ended) == 4


async def test_an_operation_is_done_once(store: KinglyMemoryStore) -> None:
    operation = MemoryOperation("run-1:2", "abc")
    assert await store.get_operation(operation) is None
    done = await store.write("a.md", "text", expected_version=None, operation=operation)
    told = await asyncio.gather(
        *(store.write("a.md", "text", expected_version=None, operation=operation) for _ in "12")
    )
    assert [(one.version, one.existed, one.replayed) for one in told] == [(done.version, False, True)] * 2
    assert await store.get_operation(operation) == told[0]
    file = await store.read("a.md", max_chars=9)
    assert file is not None
    assert file.operation_id == "run-1:2"
    with pytest.raises(MemoryOperationConflictError):
        await store.delete("a.md", expected_version=done.version, operation=MemoryOperation("run-1:2", "other"))
    gone = MemoryOperation("run-1:3", "abc")
    assert (await store.delete("a.md", expected_version=done.version, operation=gone)).version is None
    assert (await store.delete("a.md", expected_version="any", operation=gone)).replayed


async def test_paths_are_listed_in_order_and_found_by_words_below_a_prefix(store: KinglyMemoryStore) -> None:
    for path in ("lydia/b.md", "lydia/a.md", "lydia/old/c.md", "lydia.md", "oskar/a.md"):
        await store.write(path, f"Parcels of {path} go to Graz", expected_version=None)
    assert await store.list_paths(limit=9) == ["lydia.md", "lydia/a.md", "lydia/b.md", "lydia/old/c.md", "oskar/a.md"]
    assert await store.list_paths("lydia/", limit=2) == ["lydia/a.md", "lydia/b.md"]
    assert await store.list_paths("lyd", limit=1) == ["lydia.md"]
    bounds = {"limit": 5, "max_files": 50, "max_chars": 60, "max_file_chars": 1_000}
    found = await store.search("lydia/", "parcel Graz", **bounds)
    assert {one.path for one in found.matches} == {"lydia/a.md", "lydia/b.md"}
    assert sum(len(one.snippet) + len("a.md") for one in found.matches) <= 60
    assert (await store.search("lydia/", " ", **bounds)).matches == []
    assert (await store.search("lydia/", "invoice", **bounds)).matches == []
    for path in ("", "/", "../a", "a//b", "a/" * 40 + "b", "nul\0"):
        with pytest.raises(InvalidInput):
            await store.write(path, "text", expected_version=None)
    with pytest.raises(InvalidInput):
        await store.read("a.md", max_chars=0)


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    memory = MemoryRouter.open(tmp_path / "home", remote=False)
    store = KinglyMemoryStore(memory)
    operation = MemoryOperation("1", "abc")
    await refused(
        memory,
        lambda: KinglyMemoryStore(NOTHING),
        lambda: store.write("a.md", TOO_LARGE, expected_version=None, operation=operation),
        lambda: store.write("a.md", NOTHING, expected_version=None, operation=operation),
        lambda: store.write(NOTHING, "text", expected_version=None),
        lambda: store.write(LONG, "text", expected_version=None),
        lambda: store.write("a/./b.md", "text", expected_version=None),
        lambda: store.search("", NOTHING, limit=5, max_files=5, max_chars=60, max_file_chars=60),
        lambda: store.list_paths(NOTHING, limit=NUMBER),
    )
    assert await store.get_operation(operation) is None
    await closed(
        memory,
        lambda: store.read("a.md", max_chars=9),
        lambda: store.write("a.md", "text", expected_version=None),
        lambda: store.list_paths(limit=5),
    )
