"""The same text stored again without a key is one memory, seen twice (N30)."""

from __future__ import annotations

from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.ports import Change
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over

pytestmark = pytest.mark.requirement("N30")

TEXT = "Deploys need two reviews"
DAY_S = 86_400.0


def feed(store: PromptStore) -> list[str]:
    changes: list[Change] = store.reader.changes(0, 100)
    return [one.what for one in changes]


async def test_a_text_stored_again_is_the_same_memory_seen_twice(store: PromptStore, memory: MemoryRouter) -> None:
    first = await memory.store(TEXT, tags=["ops"])
    again = await memory.store(TEXT, tags=["ops"])
    assert (again.id, again.revision, again.sightings) == (first.id, 1, 2)
    assert (first.sightings, again.to_json()["sightings"], "sightings" in first.to_json()) == (1, 2, False)
    found = await memory.get(first.id)
    assert found is not None
    assert found.sightings == 2
    assert [one.sightings for one in await memory.list()] == [2]
    assert (await memory.explain(first.id) or {})["uses"]["sightings"] == 2
    assert feed(store) == ["stored", "seen"]
    await memory.search("reviews")
    await memory.sweep()  # a use that is written down later counts no sighting, and takes none away
    assert (await memory.store(TEXT)).sightings == 3


async def test_it_keeps_the_tags_of_both_and_the_higher_figures_that_were_said(memory: MemoryRouter) -> None:
    first = await memory.store(TEXT, tags=["ops", "a"], significance=0.2)
    await memory.store(TEXT, tags=["b", "a"], confidence=0.9)
    now = await memory.get(first.id)
    assert now is not None
    assert (now.tags, now.significance, now.confidence, now.revision) == (("ops", "a", "b"), 0.2, 0.9, 2)
    await memory.store(TEXT, significance=0.7, confidence=0.1)
    now = await memory.get(first.id)
    assert now is not None
    assert (now.significance, now.confidence, now.tags) == (0.7, 0.9, ("ops", "a", "b"))


@pytest.mark.parametrize(
    ("first", "second", "days"),
    [("2d", "7d", 7), ("7d", "2d", 7), ("7d", None, None), (None, "7d", None), ("7d", "usual", None)],
)
async def test_it_ends_when_the_later_of_both_would(
    memory: MemoryRouter, clock: ManualClock, first: str | None, second: str | None, days: int | None
) -> None:
    await memory.store(TEXT, ttl=first)
    receipt = await memory.store(TEXT, ttl=second)
    left_s = None if receipt.ends_at is None else (receipt.ends_at - clock.now()).total_seconds()
    assert left_s == (None if days is None else days * DAY_S)
    assert receipt.sightings == 2


@pytest.mark.parametrize(
    "other",
    [
        {"content": TEXT.upper()},
        {"type": "episodic"},
        {"title": "Deploys"},
        {"metadata": {"host": "a"}},
        {"origin": "user"},
        {"context_id": "elsewhere"},
        {"key": "deploy"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_says_something_else_of_itself_is_another_memory(
    memory: MemoryRouter, other: dict[str, Any]
) -> None:
    for said in ({}, other, {}, other):
        await memory.store(**{"content": TEXT, **said})
    found = await memory.list()
    assert sorted(one.sightings for one in found) == [2, 2]


async def test_another_agents_words_are_another_memory(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock, agent="ann") as ann, router_over(store, None, clock, agent="bob") as bob:
        for memory in (ann, bob, ann):
            await memory.store(TEXT)
        assert sorted(one.sightings for one in await ann.list()) == [1, 2]


async def test_what_is_out_of_sight_is_not_what_is_stored_now(memory: MemoryRouter, clock: ManualClock) -> None:
    forgotten = await memory.store(TEXT)
    await memory.forget(forgotten.id)
    ended = await memory.store(TEXT, ttl="1d")
    clock.jump(2 * DAY_S)
    live = await memory.store(TEXT)
    assert len({forgotten.id, ended.id, live.id}) == 3
    assert (await memory.store(TEXT)).id == live.id
    await memory.update(live.id, TEXT + ", and a green build")
    later = await memory.store(TEXT)
    assert later.id != live.id
    await memory.restore(live.id, 1)
    await memory.forget(later.id)
    assert (await memory.store(TEXT)).id == live.id, "the older one is the only one in sight"


async def test_repeats_within_one_transaction_are_folded(store: PromptStore, memory: MemoryRouter) -> None:
    receipts = await memory.store_many([TEXT, "Another", TEXT, {"content": TEXT, "tags": ["ops"]}])
    assert [one.sightings for one in receipts] == [1, 1, 2, 3]
    assert len({one.id for one in receipts}) == 2
    await memory.purge(receipts[0].id)
    assert (await memory.store(TEXT)).id != receipts[0].id


async def test_a_remote_hears_of_it_once_and_again_when_it_changes(store: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock) as memory:
        for tags in (["a"], ["a"], ["b"]):
            await memory.store(TEXT, tags=tags)
            await memory.sync(5.0)
        [there] = remote.memories.values()
        assert (there.revision, there.tags) == (2, ("a", "b"))


async def test_a_key_stored_again_with_the_same_words_counts_too(memory: MemoryRouter) -> None:
    await memory.store(TEXT, key="deploy")
    assert (await memory.store(TEXT, key="deploy")).sightings == 2
    assert (await memory.update("deploy", TEXT)).sightings == 1  # type: ignore[union-attr]  # to change nothing is no store
