"""AutoGen's memory over a router: the program of its docs, what `clear` forgets, and what is no text."""

from __future__ import annotations

from pathlib import Path

import pytest
from autogen_core.memory import MemoryContent, MemoryMimeType

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.integrations.autogen import KinglyMemory
from tests.conformance import programs

MODEL = """
from autogen_ext.models.replay import ReplayChatCompletionClient

class Scripted(ReplayChatCompletionClient):
    async def create(self, messages, **how):
        print([one.content for one in messages])
        return await super().create(messages, **how)

MODEL = Scripted(["Noted."])
"""


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("AutoGen", MODEL, tmp_path, *programs.TEXTS)
    assert "What is remembered" not in first
    assert f"- {programs.TEXTS[0]}" in second


async def test_clear_forgets_what_was_added_under_this_name_and_nothing_else(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as router:
        memory, other = KinglyMemory(router, name="clerk"), KinglyMemory(router, name="driver")
        await router.store("Graz has two offices")
        for one, content in ((memory, "The parcel goes to Graz"), (other, "The driver lives in Graz")):
            for _ in "12":
                await one.add(MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata={"n": 1}))
        await memory.add(MemoryContent(content={"city": "Graz"}, mime_type=MemoryMimeType.JSON))
        found = (await memory.query(MemoryContent(content="parcel Graz", mime_type="text/plain"))).results
        assert (found[0].content, (found[0].metadata or {})["n"]) == ("The parcel goes to Graz", 1)
        await memory.clear()
        assert {one.content for one in await router.list()} == {"Graz has two offices", "The driver lives in Graz"}
        with pytest.raises(InvalidInput, match="only text, Markdown and JSON"):
            await memory.add(MemoryContent(content=b"\0", mime_type=MemoryMimeType.BINARY))
        await memory.close()
        assert len((await router.list()).memories) == 2
