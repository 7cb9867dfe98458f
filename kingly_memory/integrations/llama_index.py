"""LlamaIndex: `Memory.from_defaults(memory_blocks=[KinglyMemoryBlock(memory=memory)])`."""

from __future__ import annotations

from functools import partial
from typing import Any

from kingly_memory.digests import sha256
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Turn, asked, either, keep

with needed("the memory block for LlamaIndex", "llama-index"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock

NO_SESSION = "messages"
"""Where messages are kept that belong to no session."""


class KinglyMemoryBlock(BaseMemoryBlock[str]):
    """What the short-term memory has no room for is kept, and what fits the last message is put into the prompt, marked
    as notes and not as instructions. Raises InvalidInput, StoreError, RouterClosed."""

    name: str = "KinglyMemory"
    memory: Any = Field(description="A MemoryRouter, a SyncMemoryRouter, or a scoped view of one.", exclude=True)
    budget_tokens: int = Field(default=1_000, description="The most tokens of the notes, about.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        questions = [message.content for message in messages or () if message.role.value == "user" and message.content]
        if not questions or not questions[-1].strip():
            return ""
        found = await asked(either(self.memory), lambda memory: memory.inject(questions[-1], self.budget_tokens))
        return str(found.text)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        turns = [
            Turn(
                message.additional_kwargs.get("session_id") or NO_SESSION,
                sha256(f"{message.role.value} {message.content}".encode(errors="replace")).hexdigest(),
                message.content,
                message.role.value,
                {"role": message.role.value},
            )
            for message in messages
            if message.content and message.role.value in ("user", "assistant")
        ]
        await asked(either(self.memory), partial(keep, turns=turns))
