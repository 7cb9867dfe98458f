"""Putting memories away because somebody asks: whatever they are worth, with the reason, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Standing
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router.test_sweep_machine import LASTING
from tests.router_bench import PromptStore, router_over


@pytest.fixture
async def router(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock, settings=LASTING) as opened:
        yield opened


@pytest.mark.parametrize("is_swept", [False, True], ids=["not swept", "swept"])
async def test_what_has_ended_is_listed_on_request_as_it_is_found(
    router: MemoryRouter, clock: ManualClock, is_swept: bool
) -> None:
    for kind in ("working", "conversation_context"):
        await router.store(f"The port of {kind} is 6432", type=kind)
    clock.jump(40 * 86_400.0)
    if is_swept:
        await router.sweep(["lifetimes"])
    found = [hit.memory.content for hit in await router.search("port", include_archived=True)]
    listed = [one.content for one in (await router.list(include_archived=True)).memories]
    assert found == listed == ["The port of conversation_context is 6432"]
    assert [one.archived for one in await router.search("port", include_archived=True)] == [True]
    assert not len((await router.list()).memories)


@pytest.mark.requirement("ARG-035")
@pytest.mark.parametrize("significance", [0.1, 0.5, 1.0])
async def test_what_somebody_asks_to_rest_goes_to_the_archive_from_any_tier(
    router: MemoryRouter, significance: float
) -> None:
    receipt = await router.store("The port is 6432", key="port", significance=significance)
    before = await router.explain("port")
    gone = await router.archive("port", "we have moved")
    assert gone.id == receipt.id
    assert await router.get("port") is None
    assert not list(await router.search("port"))
    assert [hit.memory.id for hit in await router.search("port", include_archived=True)] == [gone.id]
    [entry] = (await router.archived()).entries
    assert entry.why is not None
    assert (entry.why.policy, entry.why.reason) == ("request", "we have moved")
    told = await router.explain("port")
    assert before is not None
    assert told is not None
    assert (told["standing"], told["archived"]["reason"]) == ("archived", "we have moved")
    assert await router.restore("port") == gone
    after = await router.explain("port")
    assert after is not None
    assert (after["standing"], after["archived"]) == ("live", None)
    assert after["tier"]["name"] == before["tier"]["name"]


async def test_asking_again_changes_nothing(router: MemoryRouter, clock: ManualClock) -> None:
    await router.store("The port is 6432", key="port")
    gone = await router.archive("port")
    clock.jump(60)
    assert await router.archive("port", "another reason") == gone
    [entry] = (await router.archived()).entries
    assert entry.why is not None
    assert entry.why.reason == "somebody asked for it to rest"


async def test_what_is_pinned_stays_and_says_so(router: MemoryRouter, store: PromptStore) -> None:
    receipt = await router.store("The port is 6432", key="port")
    store.write(lambda tx: tx.set_facet("attention", receipt.id, {"pinned": True}))
    with pytest.raises(InvalidInput, match="'port' is pinned, so it stays; unpin it first"):
        await router.archive("port")
    assert await router.get("port") is not None


async def test_what_is_not_there_cannot_be_put_away(router: MemoryRouter, store: PromptStore) -> None:
    for name in ("nobody", "gone"):
        await router.store("x", key="gone")
        await router.forget("gone")
        with pytest.raises(InvalidInput, match=f"nothing is stored under '{name}'"):
            await router.archive(name)
    copy = await router.store("held elsewhere")
    store.write(lambda tx: tx.restand([copy.id], Standing.CACHED))
    with pytest.raises(InvalidInput, match="only a copy of what the remote holds"):
        await router.archive(copy.id)


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", 7, "x" * 1_000])
async def test_a_reason_is_a_short_line(router: MemoryRouter, reason: Any) -> None:
    await router.store("x", key="x")
    with pytest.raises(InvalidInput, match="reason"):
        await router.archive("x", reason)
    assert await router.get("x") is not None


async def test_storing_under_its_key_brings_it_back_with_other_words(router: MemoryRouter) -> None:
    await router.store("The port is 6432", key="port")
    await router.archive("port")
    await router.store("The port is 5432", key="port")
    told = await router.explain("port")
    assert told is not None
    assert (told["standing"], told["archived"]) == ("live", None)


async def test_an_undone_sweep_leaves_what_was_put_away_by_hand(router: MemoryRouter, clock: ManualClock) -> None:
    await router.store("faded", significance=0.1)
    await router.store("by hand", key="hand", significance=0.1)
    await router.store("stays", significance=0.9)
    clock.jump(400 * 86_400)
    assert (await router.sweep(["strength"], dry_run=True)).archived == 2
    await router.archive("hand")
    await router.sweep(["strength"])
    assert await router.undo_sweep() == (1, 0)
    assert [entry.memory.key for entry in (await router.archived()).entries] == ["hand"]


async def test_the_remote_keeps_what_is_put_away_here(store: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock, settings=LASTING) as router:
        await router.store("The port is 6432", key="port")
        await router.sync()
        await router.archive("port")
        await router.sync()
        assert [one.key for one in remote.memories.values()] == ["port"]
        assert not list(await router.search("port"))
