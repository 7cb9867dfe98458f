"""Going through the hits of a search page by page, while memories are stored, corrected and forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.app.reading import open_reader
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import ManualClock

QUICK = Settings(durability="process", embedder="none", pace=Pace(closing_s=0.0), local_search_s=2.0)


@pytest.fixture
async def memory(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK, clock=clock) as opened:
        yield opened


async def pages(memory: MemoryRouter, meanwhile: Any = None, **how: Any) -> list[list[str]]:
    """The keys on each page; between two of them something happens."""
    found: list[list[str]] = []
    after = None
    while not found or after is not None:
        results = await memory.search("deploy", after=after, **how)
        found.append([str(hit.memory.key) for hit in results])
        after = results.next
        if meanwhile is not None:
            await meanwhile(len(found))
    return found


@pytest.mark.parametrize("how", [{}, {"detail": "passages", "budget_tokens": 120}, {"limit": 3, "by_ranks": True}])
async def test_pages_repeat_nothing_and_leave_nothing_out(memory: MemoryRouter, how: dict[str, Any]) -> None:
    for number in range(25):
        await memory.store(f"deploy {number} of berth {number % 7} {'now ' * (number % 5)}", key=f"k{number}")

    async def meanwhile(page: int) -> None:
        for number in range(4):  # better hits than any before, and another count of every word
            await memory.store(f"deploy deploy {page} {number}", key=f"new {page} {number}" if page < 3 else "other")
        await memory.store(f"deploy of berth 0, corrected {page}", key="k0")
        await memory.forget("k24")

    found = await pages(memory, meanwhile, **how)
    shown = [key for page in found for key in page]
    assert len(shown) == len(set(shown))
    assert {f"k{number}" for number in range(24)} <= set(shown)
    assert all(found[:-1])


async def test_the_last_page_says_so_and_repeats_folded_into_a_hit_do_not_come_back(memory: MemoryRouter) -> None:
    for number in range(12):
        await memory.store("deploy went through", key=f"same {number}")
    for number in range(3):
        await memory.store(f"deploy of item {number}", key=f"other {number}")
    assert [len(page) for page in await pages(memory, limit=2)] == [2, 2, 0]
    assert (await memory.search("deploy", limit=20)).next is None
    assert "next" not in (await memory.search("deploy", limit=20)).to_json()


async def test_what_has_ended_does_not_come_after_what_is_alive(memory: MemoryRouter, clock: ManualClock) -> None:
    for number in range(4):
        await memory.store(f"deploy {number}", key=f"k{number}", ttl="1d" if number == 3 else None)
    clock.jump(2 * 86_400)
    assert await pages(memory, limit=3) == [["k2", "k1", "k0"], []]


async def test_a_typing_error_in_a_word_of_what_has_ended_alone_is_repaired_too(
    memory: MemoryRouter, clock: ManualClock, tmp_path: Path
) -> None:
    await memory.store("The xylophone stands in the cellar", ttl="1d")
    clock.jump(2 * 86_400)
    await memory.sweep()
    by_router = await memory.search("xylofone")
    with closing(open_reader(Place(tmp_path / "home", "app", None), QUICK)) as reader:
        by_reader = reader.search("xylofone")
    for found in (by_router, by_reader):
        assert found.repaired == {"xylofone": "xylophone"}
        assert [hit.archived for hit in found] == [True]


async def test_a_reader_goes_on_where_a_router_was(memory: MemoryRouter, tmp_path: Path) -> None:
    for number in range(6):
        await memory.store(f"deploy {number}", key=f"k{number}")
    first = await memory.search("deploy", limit=3)
    with closing(open_reader(Place(tmp_path / "home", "app", None), QUICK)) as reader:
        second = reader.search("deploy", limit=3, after=first.next)
    assert {hit.memory.key for hit in (*first, *second)} == {f"k{number}" for number in range(6)}


@pytest.mark.parametrize(
    ("after", "how", "problem"),
    [
        ("", {}, "is no `next` of a search"),
        ("a1234567", {}, "is no `next` of a search"),
        ("x12345678", {}, "is no `next` of a search"),
        ("a" + "12345678" * 1_001, {}, "is no `next` of a search"),
        (7, {}, "is no `next` of a search"),
        ("a12345678", {"mode": "broad"}, "does not go with a mode"),
    ],
)
async def test_a_next_that_is_none_is_refused(memory: MemoryRouter, after: Any, how: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await memory.search("deploy", after=after, **how)
