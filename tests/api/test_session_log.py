"""The log of a session: exact items in order, appended together, popped, replaced and branched."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore


async def test_items_come_back_in_order_and_exactly(memory: MemoryRouter) -> None:
    turns = [{"role": "user", "content": "Grüße 👋", "extra": [1, None, {"x": 1.5}]}, "plain", 3, None]
    log = memory.log("talk")
    ids = await log.append(turns)
    assert list(ids) == sorted(set(ids))
    assert await log.append([]) == ()
    assert await log.last() == turns
    assert await log.last(2) == [3, None]
    assert await log.last(0) == []
    assert [one.id for one in await log.items(2, before=ids[3])] == list(ids[1:3])
    assert not list(await memory.search("plain"))


async def test_the_last_item_is_taken_off_until_there_is_none(memory: MemoryRouter) -> None:
    log = memory.log("talk")
    await log.append(["a", "b"])
    assert [await log.pop(), await log.pop(), await log.pop()] == ["b", "a", None]
    await log.append(["c"])
    assert await log.last() == ["c"]


async def test_sessions_do_not_know_each_other(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.log("one").append([1, 2])
    await memory.log("two").append([3])
    assert await memory.log("one").clear() == 2
    assert await memory.log("two").last() == [3]
    assert [(one.session, one.items, one.last_at) for one in await memory.logs()] == [("two", 1, clock.now())]


async def test_an_end_is_replaced_and_a_beginning_is_copied(memory: MemoryRouter) -> None:
    log = memory.log("talk")
    _, second, _ = await log.append(["a", "b", "c"])
    assert await log.copy("branch", until=second) == 2
    assert len(await log.replace(["x", "y", "z"], first=second)) == 3
    await memory.log("branch").append(["other"])
    assert await log.last() == ["a", "x", "y", "z"]
    assert await memory.log("branch").last() == ["a", "b", "other"]
    await log.replace(["new"])
    assert await log.last() == ["new"]


async def test_what_many_append_at_once_is_all_there(memory: MemoryRouter) -> None:
    log = memory.log("talk")
    ids = await asyncio.gather(*(log.append([(number, 0), (number, 1)]) for number in range(40)))
    assert [one.id for one in await log.items()] == sorted(one for two in ids for one in two)
    found = await log.last()
    assert [first for first, _ in found[::2]] == [first for first, _ in found[1::2]]
    assert len(found) == 80


async def test_an_item_that_cannot_be_read_is_stepped_over(
    memory: MemoryRouter, store: PromptStore, caplog: pytest.LogCaptureFixture
) -> None:
    log = memory.log("talk")
    *_, last = await log.append(["a", "b", "c"])
    with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection, connection:
        connection.execute("UPDATE km_documents SET value = '{' WHERE key = ?", (last,))
    assert await log.last(2) == ["a", "b"]
    assert await log.pop() == "b"
    assert await log.last() == ["a"]
    assert "an item cannot be read and is left out" in caplog.text


@pytest.mark.parametrize("items", [{"role": "user"}, "hello", b"ab", None, 3])
async def test_one_item_is_not_taken_for_several(memory: MemoryRouter, items: Any) -> None:
    with pytest.raises(InvalidInput, match="items: are no list"):
        await memory.log("talk").append(items)
    assert await memory.log("talk").last() == []


async def test_an_item_that_is_no_json_keeps_all_of_them_out(memory: MemoryRouter) -> None:
    log = memory.log("talk")
    with pytest.raises(InvalidInput, match="items: is no JSON"):
        await log.append(["fine", {1, 2}])
    assert await log.last() == []
    for wrong in ({"session": ""}, {"session": "a\nb"}):
        with pytest.raises(InvalidInput, match="session"):
            memory.log(**wrong)
    with pytest.raises(InvalidInput, match="to: is this session itself"):
        await log.copy("talk")
