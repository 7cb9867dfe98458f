"""Pydantic AI's conversation store over documents: the program of its docs, and step by step what the framework's own
store in memory does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from kingly_memory import MemoryRouter
from kingly_memory.integrations.pydantic_ai_conversations import KinglyConversationStore
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, TOO_LARGE, closed, refused

MODEL = """
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

def scripted(messages, info):
    print(messages)
    return ModelResponse(parts=[TextPart("Noted.")])

MODEL = FunctionModel(scripted)
"""


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as opened:
        yield opened


def turn(text: str) -> list[Any]:
    return [ModelRequest(parts=[UserPromptPart(text)]), ModelResponse(parts=[TextPart(f"On {text}")])]


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("Pydantic AI's conversations", MODEL, tmp_path, *programs.TEXTS)
    assert programs.TEXTS[0] in first
    assert all(text in second for text in programs.TEXTS)


async def lived(store: ConversationStore) -> list[Any]:
    """Conversations that are saved, go on, branch, are forked and deleted; what is there after each step."""
    told: list[Any] = []

    async def tell(step: object) -> None:
        loaded = {name: await store.load(name) for name in ("monday", "fork", "again")}
        texts = {name: one and [part.content for m in one.messages for part in m.parts] for name, one in loaded.items()}
        records = [(one.conversation_id, one.scope, len(one.branches)) for one in await store.list_conversations()]
        told.append((step, texts, records, len(await store.list_conversations(scope="lydia", limit=1))))

    conversation = Conversation(conversation_id="monday", messages=turn("Graz"))
    entries = await store.save(conversation, scope="lydia")
    await tell(len(entries))
    stale = await store.load("monday")
    conversation.messages += turn("Linz \U0001f44b \0")
    await tell(len(await store.save(conversation)))
    with pytest.raises(ConversationConflict):
        await store.save(stale)
    assert await store.load("monday", scope="oskar") is None
    await tell([part.content for one in (await store.load("monday", limit=1)).messages for part in one.parts])
    await store.fork("monday", at=2, new_conversation_id="fork", scope="oskar")
    await tell("forked")
    branched = await store.branch("monday", at=2, expected_revision=conversation.revision)
    branched.messages += turn("Wels")
    await store.save(branched)
    await tell("branched")
    await store.delete("monday")
    await tell("deleted")
    await store.save(Conversation(conversation_id="again", messages=turn("Enns")))
    await store.delete("fork")
    await tell("all but one are gone")
    return told


async def test_it_does_what_the_frameworks_own_store_does_and_keeps_no_message_that_nobody_has(
    memory: MemoryRouter,
) -> None:
    assert await lived(KinglyConversationStore(memory)) == await lived(InMemoryConversationStore())
    assert len(await memory.documents.list("pydantic-ai-conversations/entries")) == 2
    with pytest.raises(KeyError):
        await KinglyConversationStore(memory).read_entry("none")


async def test_of_several_writers_one_wins_and_the_others_leave_nothing(memory: MemoryRouter) -> None:
    store = KinglyConversationStore(memory)
    told = [Conversation(conversation_id="monday", messages=turn(str(number))) for number in range(5)]
    ended = await asyncio.gather(*map(store.save, told), return_exceptions=True)
    assert sum(isinstance(one, ConversationConflict) for one in ended) == 4
    assert len(await memory.documents.list("pydantic-ai-conversations/entries")) == 2


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(memory: MemoryRouter) -> None:
    store = KinglyConversationStore(memory)
    whole = Conversation(conversation_id="monday", messages=turn("Graz"))
    await refused(
        memory,
        lambda: KinglyConversationStore(NOTHING),
        lambda: store.save(Conversation(conversation_id="monday", messages=[*turn("Graz"), *turn(TOO_LARGE)])),
        lambda: store.save(Conversation(conversation_id=LONG, messages=turn("Graz"))),
        lambda: store.load(NOTHING),
    )
    await closed(memory, lambda: store.load("monday"), lambda: store.save(whole), store.list_conversations)
