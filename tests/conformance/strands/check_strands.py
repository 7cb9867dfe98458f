"""Strands' memory store over a router: the program of its docs, and what its manager makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from strands.memory import MemoryManager

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.integrations.strands import KinglyMemoryStore
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, TOO_LARGE, closed, refused

MODEL = """
from strands.models import Model

class Scripted(Model):
    def update_config(self, **config): pass
    def get_config(self): return {}
    def structured_output(self, *_, **__): raise NotImplementedError
    async def stream(self, messages, tool_specs=None, system_prompt=None, **how):
        print(messages, [one["name"] for one in tool_specs])
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}

MODEL = Scripted()
"""


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as opened:
        yield opened


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told(
        "Strands Agents",
        MODEL,
        tmp_path,
        "I prefer parcels to come to the office in Graz",
        "Where should my parcel go?",
    )
    assert "<memory>" not in first
    assert "['search_memory', 'add_memory']" in first
    assert 'source="kingly"' in second
    assert programs.TEXTS[0] in second


async def test_statements_are_kept_once_however_often_they_are_written(memory: MemoryRouter) -> None:
    store = KinglyMemoryStore(memory, max_search_results=3)
    messages = [
        {"role": "user", "content": [{"text": "I prefer night trains to planes."}, {"image": {}}]},
        {"role": "assistant", "content": [{"text": "Shall I book one?"}]},
    ]
    await store.add_messages(messages)
    await store.add_messages(messages)
    assert (await store.add("The office is in Bergen", {"from": "crm"})).id == (
        await store.add("The office is in Bergen", {"from": "crm"})
    ).id
    assert len((await memory.list()).memories) == 2
    (found,) = await store.search("Where is the office?")
    assert (found.content, found.metadata["from"]) == ("The office is in Bergen", "crm")
    assert len(await MemoryManager(stores=[store]).search("night trains")) == 1


async def test_what_cannot_be_asked_or_written_says_so_and_writes_nothing(memory: MemoryRouter) -> None:
    store = KinglyMemoryStore(memory, writable=False)
    for wrong in (store.add("Oslo"), store.add_messages([]), store.search("Oslo", {"max_search_results": 0})):
        with pytest.raises(InvalidInput):
            await wrong
    with pytest.raises(InvalidInput):
        KinglyMemoryStore(memory, name=" ")
    with pytest.raises(InvalidInput):
        await KinglyMemoryStore(memory).add("x" * 2**21)
    assert (await memory.list()).memories == ()


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(memory: MemoryRouter) -> None:
    store = KinglyMemoryStore(memory)
    await refused(
        memory,
        lambda: KinglyMemoryStore(NOTHING),
        lambda: KinglyMemoryStore(memory, name=LONG),
        lambda: store.add(TOO_LARGE),
        lambda: store.add("Oslo", {"at": object()}),
        lambda: store.add_messages([{"role": "user", "content": [{"text": "I prefer tea."}]}, "no message"]),
        lambda: store.search(NOTHING),
    )
    await closed(memory, lambda: store.search("Oslo"), lambda: store.add("Oslo"), lambda: store.add_messages([]))
