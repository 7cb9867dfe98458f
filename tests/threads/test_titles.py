"""Threads are found by what they are called, whatever was said in them."""

from __future__ import annotations

from kingly_memory import MemoryRouter
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over
from tests.threads.samples import TOPICS


async def talk(memory: MemoryRouter, *names: str) -> None:
    for name in names:
        for text in TOPICS[name]:
            await memory.store(text, context_id=name)


async def found(memory: MemoryRouter, topic: str, limit: int = 5) -> list[str]:
    return [one.id for one in (await memory.threads.recall(topic, limit)).threads]


async def test_who_is_called_just_that_comes_first_and_then_who_speaks_of_it(memory: MemoryRouter) -> None:
    await talk(memory, "garden", "orders", "travel", "printer")
    await memory.threads.rename("orders", "Tomatoes and more")
    await memory.threads.rename("travel", "tomatoes")
    assert await found(memory, "Tomatoes") == ["travel", "orders", "garden"]
    assert await found(memory, "Tomatoes", 2) == ["travel", "orders"]
    recalled = (await memory.threads.recall("Tomatoes")).threads
    assert [one.messages[0].memory.content for one in recalled] == [
        TOPICS["travel"][0],
        TOPICS["orders"][0],
        "Tomatoes go into the greenhouse in April",
    ]
    assert [len(one.messages) for one in recalled] == [3, 3, 3], "of several threads a few messages each"


async def test_of_threads_with_like_titles_the_latest_comes_first(memory: MemoryRouter) -> None:
    for number in range(4):
        await memory.store(f"about number{number}", context_id=f"t{number}")
        await memory.threads.rename(f"t{number}", f"Review {number}")
    assert await found(memory, "review") == ["t3", "t2", "t1", "t0"]


async def test_a_merged_threads_title_names_what_it_goes_on_as(memory: MemoryRouter) -> None:
    await talk(memory, "garden", "orders")
    await memory.threads.rename("garden", "Project Zebra")
    await memory.threads.merge("orders", "garden")
    assert await found(memory, "project zebra") == ["orders"]


async def test_a_single_memory_is_recalled_by_the_title_of_its_thread(memory: MemoryRouter) -> None:
    alone = (await memory.store("Ana likes tea")).id
    await memory.threads.rename(alone, "Project Zebra")
    assert await found(memory, "project zebra") == [alone]


async def test_titles_of_other_projects_and_of_what_is_forgotten_find_nothing(
    memory: MemoryRouter, store: PromptStore
) -> None:
    gone = (await memory.store("Ana likes tea", context_id="gone")).id
    alone = (await memory.store("Bo likes coffee")).id
    for name in ("gone", alone):
        await memory.threads.rename(name, "Project Zebra")
    await memory.forget(gone)
    async with router_over(store, None, ManualClock(), project="elsewhere") as other:
        await other.store("Cy likes milk", context_id="theirs")
        await other.threads.rename("theirs", "Project Zebra")
        assert await found(other, "project zebra") == ["theirs"]
        assert await found(memory, "project zebra") == [alone]
