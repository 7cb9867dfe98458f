"""Parting threads of which not everything is left: what is there is parted and shown, and who fails changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore
from tests.threads.samples import TOPICS, talk

HOUR_S = 3_600.0
BESIDE = ("thread", "ratings", "attention", "context", "course", "topic")


def put(store: PromptStore, name: str, context_id: str, facet: JsonObject) -> None:
    whose = owner("app", context_id)
    store.write(lambda transaction: transaction.set_facet(name, whose, facet)).result()


def beside(store: PromptStore, context_id: str) -> dict[str, JsonObject]:
    whose = owner("app", context_id)
    return {name: facet for name in BESIDE for facet in store.reader.facets(name, [whose]).values()}


def everything(store: PromptStore) -> list[object]:
    """All memories, and all that is said of threads."""
    rows = store.reader.page(Query("", "app"), tuple(Standing), 1_000, None)
    return [*rows, *(facet for name in BESIDE for facet in store.reader.threads.named(name, 1_000))]


async def merged(memory: MemoryRouter, kept: str, *others: str) -> None:
    """Each with two messages; those of the first are forgotten once the others go on as it."""
    own = await talk(memory, kept, *TOPICS["travel"][:2])
    for name in others:
        await talk(memory, name, *TOPICS[name][:2])
        await memory.threads.merge(kept, name)
    for one in own:
        await memory.forget(one)


def counts(threads: Any) -> dict[str, int]:
    return {one.id: one.message_count for one in threads}


@pytest.mark.parametrize("said", ["kept", "garden"])
@pytest.mark.parametrize("topics", [None, ["garden"]])
async def test_a_thread_whose_own_memories_were_forgotten_is_parted_from_what_it_took_in(
    memory: MemoryRouter, said: str, topics: list[str] | None
) -> None:
    await merged(memory, "kept", "garden")
    parted = await memory.threads.split(said, topics)
    assert counts(parted.threads) == {"garden": 2}
    assert parted.message == "Parted garden (2 messages) from kept, of which nothing else is left"
    assert [(one.id, one.status) for one in await memory.threads.list()] == [("garden", "active")]
    with pytest.raises(InvalidInput, match="there is no thread 'kept'"):
        await memory.threads.get("kept")


async def test_when_the_last_is_named_those_of_which_nothing_is_left_are_parted_as_well(
    memory: MemoryRouter, store: PromptStore
) -> None:
    await merged(memory, "kept", "garden", "orders")
    for row in store.reader.page(Query("", "app", context_id="orders"), (Standing.LIVE,), 10, None):
        await memory.forget(row.memory.id)
    assert counts((await memory.threads.split("kept", ["garden"])).threads) == {"garden": 2}
    assert beside(store, "kept").keys() <= {"context"}
    assert "into" not in beside(store, "orders").get("thread", {})


async def test_what_was_said_of_a_thread_goes_when_nothing_is_left_of_it(
    memory: MemoryRouter, store: PromptStore
) -> None:
    await merged(memory, "kept", "garden")
    await memory.threads.rename("kept", "Zebrafish plan")
    put(store, "attention", "kept", {"weight": 1.3, "pinned": True})
    put(store, "ratings", "kept", {"ratings": [{"useful": True, "timestamp": "2026-01-01T08:00:00+00:00"}]})
    await memory.threads.split("kept")
    left = beside(store, "kept")
    assert left.keys() == {"attention", "context"}, "these stay beside what is forgotten"
    assert left["attention"] == {"weight": 1.3, "pinned": True}
    assert (await memory.threads.get("garden")).title == TOPICS["garden"][0]


async def test_nothing_at_all_stays_beside_a_thread_whose_own_memories_were_erased(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await talk(memory, "kept", "Ana is on the phone", type="working")
    await talk(memory, "garden", *TOPICS["garden"])
    await memory.threads.merge("kept", "garden")
    put(store, "attention", "kept", {"weight": 1.3})
    clock.jump(HOUR_S)
    assert (await memory.sweep(["lifetimes"])).erased == 1
    assert counts((await memory.threads.split("kept")).threads) == {"garden": 5}
    assert beside(store, "kept") == {}


async def test_ended_working_memories_are_no_part_of_what_is_divided(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await talk(memory, "t", *TOPICS["garden"])
    await talk(memory, "t", *TOPICS["orders"], type="working")
    clock.jump(HOUR_S)
    before = everything(store)
    for topics in (None, ["partitions"]):
        with pytest.raises(InvalidInput):
            await memory.threads.split("t", topics)
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
