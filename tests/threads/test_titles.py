"""Threads are found by what they are called, whatever was said in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.models import Query
from kingly_memory.router.thread_lookup import MOST_TITLED
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over
from tests.threads.samples import TOPICS


async def talk(memory: MemoryRouter, *names: str) -> None:
    for name in names:
        for text in TOPICS[name]:
            await memory.store(text, context_id=name)


async def found(memory: MemoryRouter, topic: str, limit: int = 5) -> list[str]:
    return [one.id for one in (await memory.threads.recall(topic, limit)).threads]


@pytest.mark.parametrize("topic", ["Project Zebra", "project ZEBRA", "  zebra ", "Zeb", "Project  Zebra"])
async def test_a_renamed_thread_is_recalled_by_its_title(memory: MemoryRouter, topic: str) -> None:
    await talk(memory, "garden", "orders")
    await memory.threads.rename("garden", "Project Zebra")
    recalled = await memory.threads.recall(topic)
    [thread] = recalled.threads
    assert (thread.id, thread.recalls, thread.title) == ("garden", 1, "Project Zebra")
    assert [one.memory.content for one in thread.messages] == list(TOPICS["garden"])


async def test_titles_are_compared_as_a_focus_compares_them(memory: MemoryRouter) -> None:
    await talk(memory, "garden", "orders")
    await memory.threads.rename("garden", "Caf\u00e9 in der STRASSE")
    await memory.threads.rename("orders", "\u6625\u306e\u6771\u4eac\u65c5\u884c")
    assert await found(memory, "cafe\u0301 in der stra\u00dfe") == ["garden"]
    assert await found(memory, "\u6771\u4eac") == ["orders"]
    assert await found(memory, "aff\u00e9") == []


async def test_the_middle_of_a_word_in_a_title_is_no_topic(memory: MemoryRouter) -> None:
    await talk(memory, "garden")
    await memory.threads.rename("garden", "Where to start")
    assert await found(memory, "art") == []


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


async def test_a_title_that_is_a_threads_anyway_finds_it(memory: MemoryRouter) -> None:
    await memory.store("Slots are paid in lamports", title="To be or not", context_id="titled")
    await talk(memory, "garden")
    assert await found(memory, "to be or not") == ["titled"]
    assert (await found(memory, "tomatoes go into the GREENHOUSE in april"))[0] == "garden"


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


async def test_no_memory_is_read_of_threads_that_are_called_something_else(
    memory: MemoryRouter, store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_TITLED // 10):
        await memory.store(f"about number{number}", context_id=f"t{number}")
        await memory.threads.rename(f"t{number}", f"Review {number}")
    await memory.threads.rename("t3", "Project Zebra")
    read: set[str | None] = set()
    page = store.reader.page

    def noted(query: Query, *how: Any, **more: Any) -> Sequence[Any]:
        read.add(query.context_id)
        return page(query, *how, **more)

    monkeypatch.setattr(store.reader, "page", noted)
    assert await found(memory, "project zebra") == ["t3"]
    assert read <= {"t3", "project zebra"}
