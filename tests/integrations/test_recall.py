"""What the adapters of agent frameworks have in common: turns kept once, and what fits a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kingly_memory import InvalidInput, MemoryRouter, RouterClosed, Settings, SyncMemoryRouter
from kingly_memory.dataclass import replace
from kingly_memory.errors import StoreUnwritable
from kingly_memory.integrations.recall import FEW, Turn, asked, found, keep
from kingly_memory.testing import ManualClock
from tests.router_bench import CALM, PromptStore, router_over


@pytest.fixture
async def memory(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock) as opened:
        yield opened


def turn(name: str, text: str, session: str = "monday", speaker: str = "user") -> Turn:
    return Turn(session, name, text, speaker, {"author": speaker})


MANY = [turn(str(number), f"Beside {number}", "tuesday") for number in range(FEW)]
few_and_many = pytest.mark.parametrize("beside", [[], MANY], ids=["few", "many"])
"""Many are looked at before they are written too."""


async def texts(memory: MemoryRouter) -> list[str]:
    return sorted(one.content for one in await memory.list())


async def test_turns_are_kept_once_however_often_they_are_told_and_names_of_sessions_do_not_meet(
    memory: MemoryRouter,
) -> None:
    said = [turn("1", "To Graz"), turn("2", "Noted", speaker="clerk"), turn("3", " ")]
    await keep(memory, said[:1])
    await keep(memory, [*said, said[0]])
    await keep(memory, [turn("b/c", "One", "a"), turn("c", "Two", "a/b"), turn("ü\0\ud800", "Three", "\n")])
    assert await texts(memory) == ["Noted", "One", "Three", "To Graz", "Two"]
    first = await memory.get("monday/1")
    assert first is not None
    assert (first.revision, first.origin, first.scope.context_id, first.metadata) == (
        1,
        "user",
        "monday",
        {"author": "user"},
    )


@few_and_many
async def test_a_turn_that_is_told_again_is_not_written_again_unless_it_says_something_else(
    memory: MemoryRouter, beside: list[Turn]
) -> None:
    for text in ("To Graz", "To Graz", "To Linz"):
        await keep(memory, [*beside, turn("1", text)])
    kept = await memory.get("monday/1")
    assert kept is not None
    assert (kept.content, kept.revision, kept.sightings) == ("To Linz", 2, 1)


@few_and_many
async def test_what_was_forgotten_stays_so_when_its_session_is_told_again(
    memory: MemoryRouter, beside: list[Turn]
) -> None:
    said = [turn(str(i), f"Fact {i}") for i in range(6)]
    await keep(memory, said)
    await memory.forget_many(f"monday/{i}" for i in range(5))
    await keep(memory, [*beside, *said, turn("5", "Fact 5 again", "friday")])
    assert [one for one in await texts(memory) if one.startswith("Fact")] == ["Fact 5", "Fact 5 again"]


@few_and_many
async def test_a_turn_whose_end_has_come_is_kept_anew_when_it_is_told_again(
    memory: MemoryRouter, clock: ManualClock, beside: list[Turn]
) -> None:
    await keep(memory, [turn("1", "To Graz")])
    await memory.update("monday/1", ttl="1h")
    await clock.advance(3_601)
    assert await memory.get("monday/1") is None
    await keep(memory, [*beside, turn("1", "To Graz")])
    assert await memory.get("monday/1") is not None


async def test_a_turn_that_two_tell_at_once_is_kept_once(memory: MemoryRouter) -> None:
    await asyncio.gather(*(keep(memory, [turn("1", "To Graz")]) for _ in range(2)))
    kept = await memory.get("monday/1")
    assert kept is not None
    assert (kept.revision, kept.sightings) == (1, 1)


async def test_a_turn_without_its_secret_is_the_one_that_was_told_before(
    store: PromptStore, clock: ManualClock
) -> None:
    async with router_over(store, None, clock, settings=replace(CALM, redact_secrets=True)) as memory:
        for _ in range(2):
            await keep(memory, [turn("1", "The password is: hunter2hunter2")])
        kept = await memory.get("monday/1")
    assert kept is not None
    assert ("hunter2" in kept.content, kept.sightings) == (False, 1)


async def test_many_turns_of_which_all_were_kept_wait_for_no_writer(memory: MemoryRouter, store: PromptStore) -> None:
    said = [*MANY, turn("1", "To Graz")]
    await keep(memory, said)
    store.die()
    await keep(memory, said)
    with pytest.raises(StoreUnwritable):
        await keep(memory, [*said, turn("2", "To Linz")])


async def test_one_turn_that_cannot_be_kept_keeps_all_away(memory: MemoryRouter) -> None:
    with pytest.raises(InvalidInput, match="nothing was stored"):
        await keep(memory, [turn("1", "To Graz"), turn("2", "x" * 2**21)])
    with pytest.raises(InvalidInput):
        await keep(memory, [turn("1" * 600, "To Graz")])
    assert await texts(memory) == []


async def test_what_chance_words_have_found_is_left_out_and_nothing_is_asked_for_no_words(memory: MemoryRouter) -> None:
    await memory.store_many(["Parcels come to the office in Graz", "The office is closed on Mondays"])
    hits = await found(memory, "Where do parcels come to, Graz?", 1)
    assert [one.memory.content for one in hits] == ["Parcels come to the office in Graz"]
    assert [one for query in ("", " \n", "...", "the weather of Paris") for one in await found(memory, query, 5)] == []


def test_a_blocking_router_serves_several_event_loops(tmp_path: Path) -> None:
    router = SyncMemoryRouter.open(tmp_path / "home", remote=False, settings=Settings(durability="process"))
    for name in ("1", "2"):
        asyncio.run(asked(router.scoped(user="lydia"), partial(keep, turns=[turn(name, f"Parcel {name}")])))
    assert len(router.scoped(user="lydia").list()) == 2
    assert len(router.list()) == 0
    router.close()
    with pytest.raises(RouterClosed):
        asyncio.run(asked(router, partial(found, query="parcel", limit=1)))
