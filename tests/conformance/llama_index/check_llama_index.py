"""LlamaIndex's memory block over a router: the program of its docs, and what is flushed from the short-term memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from kingly_memory import MemoryRouter
from kingly_memory.integrations.llama_index import KinglyMemoryBlock
from tests.conformance import programs
from tests.conformance.refusals import LONG, TOO_LARGE, closed, refused

MODEL = """
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

class Scripted(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata()
    def complete(self, prompt, **_):
        print(prompt)
        return CompletionResponse(text="Noted.")
    def stream_complete(self, prompt, **_):
        raise NotImplementedError

MODEL = Scripted()
"""


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("LlamaIndex", MODEL, tmp_path, *programs.TEXTS)
    assert "KinglyMemory" not in first
    assert "<KinglyMemory>" in second
    assert programs.TEXTS[0] in second


async def test_what_the_short_term_memory_has_no_room_for_is_kept_once_and_comes_back(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as router:
        block = KinglyMemoryBlock(memory=router)
        memory = Memory.from_defaults(
            session_id="monday", memory_blocks=[block], tokenizer_fn=str.split, token_limit=60, token_flush_size=20
        )
        await memory.aput(ChatMessage(role="user", content="The parcel goes to the office in Graz"))
        await memory.aput(ChatMessage(role="assistant", content="Noted"))
        for i in range(12):
            await memory.aput(ChatMessage(role="user", content=f"Step {i} of the long report is done now"))
            await memory.aput(ChatMessage(role="assistant", content=f"Good, {i}"))
        kept = [one.content for one in await router.list()]
        assert "The parcel goes to the office in Graz" in kept
        await memory.aput(ChatMessage(role="user", content="Where does the parcel go, Graz?"))
        prompt = await memory.aget()
        assert "The parcel goes to the office in Graz" in str(prompt[0].content)
        await block.aput(await memory.aget_all(), session_id="monday")
        await block.aput(await memory.aget_all(), session_id="monday")
        kept = [one.content for one in await router.list()]
        assert len(kept) == len(set(kept)) == 27
        assert await block.aget([]) == await block.aget([ChatMessage(role="user", content=" ")]) == ""


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    router = MemoryRouter.open(tmp_path / "home", remote=False)
    block, said = KinglyMemoryBlock(memory=router), partial(ChatMessage, role="user")
    whole = said(content="The parcel goes to Graz")
    await refused(
        router,
        lambda: KinglyMemoryBlock(memory=None).aput([whole]),
        lambda: block.aput([whole, said(content=TOO_LARGE)]),
        lambda: block.aput([whole, said(content="To Linz", additional_kwargs={"session_id": 5})]),
        lambda: block.aput([whole, said(content="To Linz", additional_kwargs={"session_id": LONG})]),
    )
    await closed(router, lambda: block.aput([whole]), lambda: block.aget([whole]))
