"""The remote's working memory, in whatever words and shape a server of the seed's kind gives it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings, Source
from kingly_memory.adapters.remote import wire
from kingly_memory.models import JsonObject
from kingly_memory.testing.semantic import SemanticServer
from tests.scripted.remote import ScriptedRemote

PLAIN = {"memory_id": "x", "content": "plain", "memory_type": "working"}


class Saying(SemanticServer):
    """Answers some methods with the same words every time."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: dict[str, Any] = {}

    def call(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        return (self.replies[method], False) if method in self.replies else super().call(method, params)


@pytest.fixture
def saying() -> Saying:
    return Saying()


@pytest.fixture
def server(saying: Saying) -> Iterator[ScriptedRemote]:
    remote = ScriptedRemote()
    remote.semantic = saying
    with remote:
        yield remote


@pytest.fixture
async def memory(tmp_path: Path, server: ScriptedRemote) -> AsyncIterator[MemoryRouter]:
    settings = Settings(durability="process", remote_search_s=10.0)
    async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=settings) as router:
        await router.sync()
        yield router


async def held(memory: MemoryRouter, context_id: str = "deploy-42") -> list[tuple[str, str, str | None]]:
    context = await memory.working_context(context_id)
    assert (context.source, context.reason) == (Source.HYBRID, None)
    return [(one.content, one.type.value, one.scope.context_id) for one in context.remote]


@pytest.mark.requirement("KNG-023")
@pytest.mark.parametrize(
    "reply",
    [
        {"memories": [PLAIN]},
        {"memories": {"x": {"content": "plain", "memory_type": "working"}}},
        {"working_memory": [PLAIN]},
        {"working_memories": {"x": {"content": "plain", "memory_type": "working"}}},
        {"memories": [{**PLAIN, "context_id": "deploy-42"}]},
        {
            "memories": [
                {"id": "x", "content": "plain", "metadata": {"memory_type": "working", "context_id": "deploy-42"}}
            ]
        },
        {"memories": [{**PLAIN, "context_id": None, "metadata": {"context_id": None}}]},
        {"data": {"memories": [PLAIN]}},
    ],
    ids=str,
)
async def test_what_a_plain_server_holds_for_a_context_is_shown(
    memory: MemoryRouter, saying: Saying, reply: JsonObject
) -> None:
    saying.replies["get_working_memory"] = reply
    assert await held(memory) == [("plain", "working", "deploy-42")]
    assert await held(memory) == [("plain", "working", "deploy-42")]


@pytest.mark.parametrize("place", [{"context_id": "another"}, {"metadata": {"context_id": "another"}}], ids=str)
async def test_what_the_server_says_of_another_context_is_left_out(
    memory: MemoryRouter, saying: Saying, place: JsonObject
) -> None:
    saying.replies["get_working_memory"] = {"memories": [{**PLAIN, **place}, {**PLAIN, "memory_id": "y"}]}
    assert len(await held(memory)) == 1
    assert len(await held(memory, "another")) == 2


async def test_what_makes_no_context_or_type_costs_no_memory(memory: MemoryRouter, saying: Saying) -> None:
    odd: list[JsonObject] = [
        {"memory_type": "reasoning_step", "context_id": True},
        {"memory_type": ["working"], "context_id": ["deploy-42"]},
        {"memory_type": None, "context_id": ""},
        {"metadata": {"context_id": "two\nlines"}, "memory_type": 1.5},
    ]
    entries = [{"memory_id": str(number), "content": f"plain {number}", **one} for number, one in enumerate(odd)]
    saying.replies["get_working_memory"] = {"memories": entries}
    shown = await held(memory)
    assert shown == [(f"plain {number}", "semantic", "deploy-42") for number in range(4)]


def test_the_record_outranks_the_entry_around_it() -> None:
    record = {"id": "m", "type": "episodic", "scope": {"context_id": "inner", "agent": "a"}}
    entry = {"memory_id": "x", "content": "text", "record": record, "memory_type": "working", "context_id": "outer"}
    (hit,) = wire.hits({"memories": [entry]})
    assert (hit.record["type"], hit.record["scope"]) == ("episodic", {"context_id": "inner", "agent": "a"})
