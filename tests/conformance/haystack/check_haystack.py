"""Haystack's memory store over a router: the program of its docs, users, filters, and what is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from haystack.dataclasses import ChatMessage
from haystack.errors import FilterError

from kingly_memory import InvalidInput, SyncMemoryRouter
from kingly_memory.integrations.haystack import KinglyMemoryStore
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, NUMBER, TOO_LARGE, closed, refused

MODEL = """
from haystack import component

@component
class Scripted:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools=None, **_):
        print([one.text for one in messages])
        return {"replies": [ChatMessage.from_assistant("Noted.")]}

MODEL = Scripted()
"""


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("Haystack", MODEL, tmp_path, *programs.TEXTS)
    assert first == f"['{programs.TEXTS[0]}']\nNoted.\n"
    assert second == f"['{programs.TEXTS[0]}', '{programs.TEXTS[1]}']\nNoted.\n"


def test_users_see_nothing_of_each_other_and_filters_compare_what_messages_say_of_themselves(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False) as router:
        store = KinglyMemoryStore(router)
        said = [
            ChatMessage.from_user("The parcel goes to Graz", meta={"n": 1}),
            ChatMessage.from_assistant("The parcel goes to Linz", meta={"n": 2}),
            ChatMessage.from_system("You are a clerk"),
        ]
        for user in ("lydia", "lydia", "o/s\nkar"):
            store.add_memories(messages=said, user_id=user)
        assert store.search_memories(query="parcel") == []
        found = store.search_memories(query="Where does the parcel go?", user_id="lydia")
        assert sorted(str(one.text) for one in found) == ["The parcel goes to Graz", "The parcel goes to Linz"]
        above: Any = {"field": "meta.n", "operator": ">", "value": 1}
        both: Any = {"operator": "AND", "conditions": [above, {"field": "n", "operator": "<=", "value": 2}]}
        for filters in (above, both):
            of_oskar = store.search_memories(filters=filters, user_id="o/s\nkar")
            assert [one.text for one in of_oskar] == ["The parcel goes to Linz"]
        for wrong in ({"operator": "OR", "conditions": [above]}, {"field": "n"}, {"operator": "~", "field": "n"}):
            with pytest.raises(FilterError, match="cannot be asked"):
                store.search_memories(filters=wrong, user_id="lydia")
        (hit,) = store.search_memories(filters=above, user_id="o/s\nkar")
        store.delete_memory(hit.meta["memory_id"])
        assert [one.text for one in store.search_memories(user_id="o/s\nkar")] == ["The parcel goes to Graz"]
        router.scoped(user="lydia").store("Lydia lives in Graz")
        store.delete_all_memories(user_id="lydia")
        assert [one.text for one in store.search_memories(user_id="lydia")] == ["Lydia lives in Graz"]
        assert len(store.search_memories(user_id="o/s\nkar")) == 1
        with pytest.raises(InvalidInput, match="whose memories"):
            store.delete_all_memories()


def test_a_store_is_written_into_a_pipeline_and_read_from_there(tmp_path: Path) -> None:
    store = KinglyMemoryStore(home=str(tmp_path / "home"), project="shop")
    store.add_memories(messages=[ChatMessage.from_user("The parcel goes to Graz")], user_id="lydia")
    again = KinglyMemoryStore.from_dict(store.to_dict())
    assert len(again.search_memories(query="parcel", user_id="lydia")) == 1


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    router = SyncMemoryRouter.open(tmp_path / "home", remote=False)
    store, whole = KinglyMemoryStore(router), ChatMessage.from_user("The parcel goes to Graz")
    await refused(
        router,
        lambda: KinglyMemoryStore(NUMBER),
        lambda: store.add_memories(messages=[whole, ChatMessage.from_user(TOO_LARGE)]),
        lambda: store.add_memories(messages=[whole, ChatMessage.from_user("Oslo", meta={"at": object()})]),
        lambda: store.add_memories(messages=[whole], user_id=LONG),
        lambda: store.search_memories(query=NUMBER),
        lambda: store.search_memories(top_k=0),
        lambda: store.delete_memory(NOTHING),
    )
    await closed(
        router, lambda: store.search_memories(query="Oslo"), lambda: store.add_memories(messages=[whole], user_id="a")
    )
