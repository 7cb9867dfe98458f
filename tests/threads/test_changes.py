"""Threads that several change at once: what was planned is done only as far as it is still so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.lifecycle.lifetimes import usual_lifetimes
from kingly_memory.models import MemoryStatus, Query
from kingly_memory.router.thread_lookup import Named, named
from kingly_memory.router.threads import changes
from kingly_memory.router.write import WriteContext
from kingly_memory.testing import ManualClock
from tests.router_bench import CALM, PromptStore, router_over
from tests.threads.samples import TOPICS, talk

HOUR_S = 3_600.0
OURS = ("thread", "attention", "ratings", "context")


def desk(clock: ManualClock) -> WriteContext:
    return WriteContext("app", None, None, usual_lifetimes(CALM.lifetimes), clock.now())


def thread(name: str) -> Named:
    return Named(name, owner("app", name))


async def said(memory: MemoryRouter, name: str, count: int) -> list[Any]:
    return [(await memory.store(f"{name} number {number}", context_id=name)).id for number in range(count)]


def split(store: PromptStore, clock: ManualClock, name: str, *shares: list[Any]) -> tuple[str, ...]:
    return store.write(changes.split(thread(name), shares, [name], desk(clock))).result()


async def counts(memory: MemoryRouter) -> list[int]:
    return sorted([(await memory.threads.get(one.id)).message_count for one in await memory.threads.list()])


# --- splitting --------------------------------------------------------------------------------------------------------


async def test_of_two_who_split_a_thread_at_once_the_second_takes_nothing_out_of_the_firsts(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    first, second, third, _ = await said(memory, "t", 4)
    [mine] = split(store, clock, "t", [first, second])
    [theirs] = split(store, clock, "t", [second, third])
    assert await counts(memory) == [1, 1, 2]
    assert [(await memory.threads.get(one)).message_count for one in (mine, theirs)] == [2, 1]


async def test_a_split_of_what_has_gone_elsewhere_is_refused_and_leaves_nothing(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    first, second, *_ = await said(memory, "t", 4)
    split(store, clock, "t", [first, second])
    before = [row for name in OURS for row in store.reader.facets_named(name, 100)]
    with pytest.raises(InvalidInput, match="meanwhile"):
        split(store, clock, "t", [first], [second])
    assert [row for name in OURS for row in store.reader.facets_named(name, 100)] == before


async def test_two_processes_that_split_at_once_lose_no_message_and_name_no_thread_that_is_gone(
    store: PromptStore, clock: ManualClock
) -> None:
    async with router_over(store, None, clock) as one, router_over(store, None, clock) as other:
        await talk(one, "t", *TOPICS["garden"], *TOPICS["orders"])
        both = (one.threads.split("t"), other.threads.split("t"))
        results = await asyncio.gather(*both, return_exceptions=True)
        found = [result for result in results if not isinstance(result, BaseException)]
        refused = [result for result in results if isinstance(result, BaseException)]
        assert found
        assert all(isinstance(result, InvalidInput) for result in refused)
        assert all([(await one.threads.get(part.id)).message_count for result in found for part in result.threads])
        assert sum(await counts(one)) == len((*TOPICS["garden"], *TOPICS["orders"]))


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("merged", "field"), [("a", "thread_a"), ("b", "thread_b")])
async def test_what_was_merged_elsewhere_meanwhile_is_not_merged(
    memory: MemoryRouter, store: PromptStore, merged: str, field: str
) -> None:
    for name in ("a", "b", "c"):
        await said(memory, name, 1)
    kept, gone = (named(store.reader, "app", one) for one in ("a", "b"))
    planned = changes.merge(kept, gone)
    await memory.threads.merge("c", merged)
    with pytest.raises(InvalidInput, match=f"{field}: '{merged}' was merged into 'c' meanwhile"):
        store.write(planned).result()
    assert (await memory.threads.get(merged)).into == "c"
    assert (await memory.threads.get("a" if merged == "b" else "b")).into is None


# --- what has ended ---------------------------------------------------------------------------------------------------


def everything(store: PromptStore) -> list[object]:
    """All memories, and all that is said of threads."""
    rows = store.reader.page(Query("", "app"), tuple(MemoryStatus), 1_000, None)
    return [*rows, *(facet for name in OURS for facet in store.reader.facets_named(name, 1_000))]


async def test_ended_working_memories_are_no_part_of_what_is_divided(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await talk(memory, "t", *TOPICS["garden"])
    await talk(memory, "t", *TOPICS["orders"], type="working")
    clock.jump(HOUR_S)
    before = everything(store)
    with pytest.raises(InvalidInput):
        await memory.threads.split("t")
    assert everything(store) == before


@pytest.mark.parametrize("verb", ["split", "rename", "merge", "merge into"])
async def test_of_what_nothing_is_left_nothing_is_changed(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock, verb: str
) -> None:
    await talk(memory, "t", "Ana is on the phone", type="working")
    await talk(memory, "u", "Bo is on the phone", type="working")
    await talk(memory, "garden", TOPICS["garden"][0])
    await memory.threads.merge("t", "u")
    clock.jump(HOUR_S)
    before = everything(store)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "split": lambda: memory.threads.split("t"),
        "rename": lambda: memory.threads.rename("t", "Calls"),
        "merge": lambda: memory.threads.merge("garden", "t"),
        "merge into": lambda: memory.threads.merge("t", "garden"),
    }
    with pytest.raises(InvalidInput, match="of 't' nothing is left"):
        await calls[verb]()
    assert everything(store) == before
