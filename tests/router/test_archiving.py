"""Putting memories away because somebody asks: whatever they are worth, with the reason, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryStatus
from kingly_memory.testing import ManualClock
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
    assert (told["status"], told["archived"]["reason"]) == ("archived", "we have moved")
    assert await router.restore("port") == gone
    after = await router.explain("port")
    assert after is not None
    assert (after["status"], after["archived"]) == ("live", None)
    assert after["tier"]["name"] == before["tier"]["name"]


async def test_what_is_pinned_stays_and_says_so(router: MemoryRouter, store: PromptStore) -> None:
    receipt = await router.store("The port is 6432", key="port")
    store.write(lambda tx: tx.set_facet("attention", receipt.id, {"pinned": True}))
    with pytest.raises(InvalidInput, match="'port' is pinned, so it stays; unpin it first"):
        await router.archive("port")
    assert await router.get("port") is not None


async def test_what_is_not_there_cannot_be_put_away(router: MemoryRouter, store: PromptStore) -> None:
    await router.store("x", key="gone")
    await router.forget("gone")
    for name, problem in (("nobody", "nothing is stored under 'nobody'"), ("gone", "'gone' was forgotten; restore it")):
        with pytest.raises(InvalidInput, match=problem):
            await router.archive(name)
    copy = await router.store("held elsewhere")
    store.write(lambda tx: tx.set_status([copy.id], MemoryStatus.CACHED))
    with pytest.raises(InvalidInput, match="only a copy of what the remote holds"):
        await router.archive(copy.id)


async def test_storing_under_its_key_brings_it_back_with_other_words(router: MemoryRouter) -> None:
    await router.store("The port is 6432", key="port")
    await router.archive("port")
    await router.store("The port is 5432", key="port")
    told = await router.explain("port")
    assert told is not None
    assert (told["status"], told["archived"]) == ("live", None)
