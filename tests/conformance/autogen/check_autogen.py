"""AutoGen's memory over a router: the program of its docs, what `clear` forgets, and what is no text."""

from __future__ import annotations

from pathlib import Path

import pytest
from autogen_core.memory import MemoryContent, MemoryMimeType

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.integrations.autogen import KinglyMemory
from tests.conformance import programs
from tests.conformance.refusals import NOTHING, TOO_LARGE, closed, refused

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


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    router = MemoryRouter.open(tmp_path / "home", remote=False)
    memory = KinglyMemory(router)

    def content(said: object, mime_type: MemoryMimeType = MemoryMimeType.TEXT, **how: object) -> MemoryContent:
        return MemoryContent(content=said, mime_type=mime_type, **how)

    await refused(
        router,
        lambda: KinglyMemory(NOTHING),
        lambda: KinglyMemory(router, name="a\0"),
        lambda: memory.add(content(TOO_LARGE)),
        lambda: memory.add(content({"n": float("nan")}, MemoryMimeType.JSON)),
        lambda: memory.add(content("Oslo", metadata={"at": object()})),
        lambda: memory.query(None),
    )
    await closed(router, lambda: memory.query("Oslo"), lambda: memory.add(content("Oslo")), memory.clear)
