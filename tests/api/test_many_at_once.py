"""Many memories stored, read and forgotten in one transaction each: all of them or none."""

from __future__ import annotations

from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over


async def test_memories_are_stored_read_and_forgotten_together(memory: MemoryRouter) -> None:
    receipts = await memory.store_many(
        ["A plain text", {"content": "Two reviews", "key": "deploy", "tags": ["ops"], "ttl": "7d"}, {"content": "x"}]
    )
    assert [one.revision for one in receipts] == [1, 1, 1]
    assert receipts[1].ends_at is not None
    names = ["deploy", receipts[0].id, "nothing"]
    found = await memory.get_many(names)
    assert {name: one.content for name, one in found.items()} == {"deploy": "Two reviews", names[1]: "A plain text"}
    assert [hit.memory.key for hit in await memory.search("reviews")] == ["deploy"]
    assert [one.content for one in await memory.forget_many(names)] == ["Two reviews", "A plain text"]
    assert await memory.get_many(names) == {}
    assert [one.content for one in (await memory.list()).memories] == ["x"]
    await memory.restore("deploy")
    assert list(await memory.get_many(["deploy"])) == ["deploy"]


async def test_a_key_said_twice_is_revised(memory: MemoryRouter) -> None:
    receipts = await memory.store_many([{"content": str(number), "key": "k"} for number in range(3)])
    assert [one.revision for one in receipts] == [1, 2, 3]
    assert (await memory.get("k")).content == "2"  # type: ignore[union-attr]


async def test_what_is_significant_is_delivered(store: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock) as memory:
        await memory.store_many([{"content": f"note {number}", "significance": number / 10} for number in range(10)])
        await memory.sync(5.0)
        assert sorted(one.content for one in remote.memories.values()) == [f"note {number}" for number in range(4, 10)]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"content": 3}, r"memories\[1\].content: expected text, not int; nothing was stored"),
        ({}, r"memories\[1\].content: "),
        ({"content": "x", "wait": 3}, r"memories\[1\].wait: is nothing that `store` takes"),
        ({"content": "x", "ttl": 0}, r"memories\[1\].ttl: 0 is not more than 0"),
    ],
)
async def test_one_that_cannot_be_stored_keeps_all_of_them_out(
    memory: MemoryRouter, wrong: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await memory.store_many(["fine", wrong])
    assert not (await memory.list()).memories


async def test_no_more_than_ten_thousand_and_never_one_text_for_several(memory: MemoryRouter) -> None:
    with pytest.raises(InvalidInput, match="are more than 10,000"):
        await memory.store_many("x" for _ in range(10_001))
    for verb in (memory.store_many, memory.get_many, memory.forget_many):
        with pytest.raises(InvalidInput, match="expected several"):
            await verb("deploy")
    assert await memory.store_many([]) == ()
