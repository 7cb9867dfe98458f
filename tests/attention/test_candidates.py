"""What a focus names comes into view only while it is there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import MemoryStatus
from kingly_memory.ports import Transaction
from kingly_memory.settings import Lifetimes
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

BRIEF = Settings(durability="process", lifetimes=Lifetimes(working=60.0), local_search_s=30.0, embedder="none")


async def shown(memory: MemoryRouter) -> list[str]:
    """The texts of what is considered for a prompt that nothing is about."""
    found = await memory.inject("what is for lunch?")
    considered = [await memory.get(one) for one in (*found.put_in, *found.left_out)]
    return [one.content for one in considered if one is not None]


@pytest.mark.parametrize("context", [None, "garden"])
@pytest.mark.parametrize("fate", ["there", "forgotten", "archived", "over"])
async def test_a_memory_that_is_gone_is_not_brought_back_by_a_focus_on_it(
    tmp_path: Path, fate: str, context: str | None
) -> None:
    clock, store = ManualClock(), PromptStore(tmp_path / "home")
    async with router_over(store, None, clock, settings=BRIEF) as memory:
        stored = await memory.store("Tomatoes grow in April", type="working", origin="user", context_id=context)
        await memory.attention.focus(stored.id, 1.0)
        if context is not None:
            await memory.attention.focus(context, 1.0)
        if fate == "forgotten":
            await memory.forget(stored.id)
        elif fate == "archived":
            store.write(lambda transaction: transaction.set_status([stored.id], MemoryStatus.ARCHIVED)).result()
        elif fate == "over":
            clock.jump(3_600)
        assert await shown(memory) == (["Tomatoes grow in April"] if fate == "there" else [])


def test_facets_of_several_names_are_those_of_each(tmp_path: Path) -> None:
    store = PromptStore(tmp_path / "home")
    owners = [f"o{at}" for at in range(600)]
    for name, step in (("thread", 2), ("ratings", 3)):
        store.write(partial(put_all, name, owners[::step])).result()
    found = store.reader.facets_of({"thread": owners, "ratings": owners[:10], "attention": owners, "usage": []})
    assert found["thread"] == store.reader.facets("thread", owners) == {one: {"of": one} for one in owners[::2]}
    assert found["ratings"] == {one: {"of": one} for one in owners[:10:3]}
    assert (found["attention"], found["usage"]) == ({}, {})


def put_all(name: str, owners: list[str], transaction: Transaction) -> None:
    for one in owners:
        transaction.set_facet(name, one, {"of": one})
