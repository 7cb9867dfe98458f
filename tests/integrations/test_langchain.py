"""LangChain's chat history over the log of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory import InvalidInput, RouterClosed, Settings, SyncMemoryRouter

messages = pytest.importorskip("langchain_core.messages", reason="LangChain is not installed: the extra `langchain`")
from kingly_memory.integrations.langchain import KinglyChatMessageHistory  # noqa: E402  # needs LangChain


def opened(home: Path) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(home, remote=False, settings=Settings(durability="process"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with opened(tmp_path / "home") as router:
        yield router


TURN = [
    messages.SystemMessage("Be kind\0\n"),
    messages.HumanMessage([{"type": "text", "text": "Where is my parcel? 🎉"}], id="h1", name="lydia"),
    messages.AIMessage(
        "", tool_calls=[{"name": "track", "args": {"parcel": 17}, "id": "c1", "type": "tool_call"}],
        response_metadata={"model": "m"}, usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    messages.ToolMessage("in Oslo", tool_call_id="c1", artifact={"raw": [1, None]}),
]  # fmt: skip


def test_messages_come_back_the_same_and_in_order_in_another_router(memory: SyncMemoryRouter, tmp_path: Path) -> None:
    KinglyChatMessageHistory("chat\n17", memory).add_messages(TURN)
    KinglyChatMessageHistory("chat\n17", memory).add_user_message("And now?")
    with opened(tmp_path / "home") as other:
        assert KinglyChatMessageHistory("chat\n17", other).messages == [*TURN, messages.HumanMessage("And now?")]


def test_a_session_is_cleared_alone(memory: SyncMemoryRouter) -> None:
    one, other = (KinglyChatMessageHistory(name, memory) for name in ("one", "other"))
    for history in (one, other):
        history.add_messages(TURN)
    one.clear()
    assert (one.messages, other.messages) == ([], TURN)


async def test_it_can_be_awaited(memory: SyncMemoryRouter) -> None:
    history = KinglyChatMessageHistory("chat", memory)
    await history.aadd_messages(TURN)
    assert await history.aget_messages() == TURN
    await history.aclear()
    assert await history.aget_messages() == []


def test_of_messages_that_json_cannot_say_none_is_kept(memory: SyncMemoryRouter) -> None:
    history = KinglyChatMessageHistory("chat", memory)
    with pytest.raises(InvalidInput, match="items: is no JSON"):
        history.add_messages([*TURN, messages.ToolMessage("x", tool_call_id="c", artifact=object())])
    assert history.messages == []


def test_bad_sessions_and_closed_routers_say_what_is_wrong(memory: SyncMemoryRouter) -> None:
    with pytest.raises(InvalidInput, match="session"):
        KinglyChatMessageHistory("x" * 600, memory)
    history = KinglyChatMessageHistory("chat", memory)
    memory.close()
    with pytest.raises(RouterClosed):
        history.add_messages(TURN)
