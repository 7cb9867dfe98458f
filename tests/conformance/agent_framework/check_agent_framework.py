"""The Agent Framework's providers over a router: the program of their docs, and messages that come back exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_framework import Content, Message

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.integrations.agent_framework import KinglyContextProvider, KinglyHistoryProvider
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, NUMBER, TOO_LARGE, closed, refused

MODEL = """
from agent_framework import BaseChatClient, ChatResponse, Message

class Scripted(BaseChatClient):
    async def _inner_get_response(self, *, messages, stream, options, **_):
        print([(one.role, one.text) for one in messages])
        return ChatResponse(messages=[Message(role="assistant", contents=["Noted."])])

MODEL = Scripted()
"""


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("Microsoft Agent Framework", MODEL, tmp_path, *programs.TEXTS)
    assert first.count("('user'") == 1
    assert f"('user', '{programs.TEXTS[0]}'), ('assistant', 'Noted.'), " in second
    assert second.count(programs.TEXTS[0]) == 2  # in the history and in the note
    assert second.rstrip().endswith(f"('user', '{programs.TEXTS[1]}')]\nNoted.")


async def test_messages_come_back_exactly_and_in_the_order_of_their_session(tmp_path: Path) -> None:
    said = [
        Message("user", ["Grüße 👋 \0"], author_name="lydia", additional_properties={"n": 1}),
        Message("assistant", [Content.from_function_call("c1", "track", arguments={"parcel": 17})]),
        Message("tool", [Content.from_function_result("c1", result="in Oslo")]),
    ]
    async with MemoryRouter.open(tmp_path / "home", remote=False) as memory:
        history = KinglyHistoryProvider(memory)
        await history.save_messages("mon\nday", said[:1])
        await history.save_messages("mon\nday", said[1:])
        read = await KinglyHistoryProvider(memory).get_messages("mon\nday")
        assert [one.to_dict() for one in read] == [one.to_dict() for one in said]
        assert await history.get_messages("friday") == []
        with pytest.raises(InvalidInput, match="run the agent with a session"):
            await history.save_messages(None, said)


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    memory = MemoryRouter.open(tmp_path / "home", remote=False)
    history, whole = KinglyHistoryProvider(memory), Message("user", ["The parcel goes to Graz"])
    await refused(
        memory,
        lambda: KinglyHistoryProvider(NOTHING),
        lambda: KinglyContextProvider(NOTHING),
        lambda: history.save_messages("monday", [whole, Message("user", [TOO_LARGE])]),
        lambda: history.save_messages(LONG, [whole]),
        lambda: history.save_messages(NUMBER, [whole]),
        lambda: history.get_messages(None),
    )
    await closed(memory, lambda: history.get_messages("monday"), lambda: history.save_messages("monday", [whole]))
