"""Several deliveries under way at once: what goes beside what, what waits for what, and what trouble does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kingly_memory.errors import RemoteError, RemoteUnavailable
from kingly_memory.models import DeliveryState, LinkState, Memory
from kingly_memory.observe import DeliveryStarted, Event
from kingly_memory.ports import Transaction
from kingly_memory.router.remotes.sender import SendWindow
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore, Scene, at_work, facet_of, held, router_over

T = TypeVar("T")
BUSY = RemoteUnavailable("HTTP 503", reached=True)


class Turnstile(FakeRemote):
    """Every store waits until it is let through, with a success or an error."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.inside: dict[str, asyncio.Future[None]] = {}
        self.most = 0
        self.open = False

    async def store(self, memory: Memory, **said: Any) -> str:
        await self._pass(memory)
        return await super().store(memory, **said)

    async def record_thought(self, memory: Memory, **said: Any) -> str:
        await self._pass(memory)
        return await super().record_thought(memory, **said)

    def let(self, content: str, error: RemoteError | None = None) -> None:
        if error is None:
            self.inside[content].set_result(None)
        else:
            self.inside[content].set_exception(error)

    async def _pass(self, memory: Memory) -> None:
        if self.open:
            return
        self.inside[memory.content] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.inside))
        try:
            await self.inside[memory.content]
        finally:
            del self.inside[memory.content]


At = Scene[Turnstile]


class LateStore(PromptStore):
    """While it is late, changes happen at once and their writers learn it when `arrive` is called. While it is busy,
    they happen then; who does not wait any more has it left undone."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.late = self.busy = False
        self._in_line: list[tuple[Callable[[], Future[Any]], Future[Any]]] = []

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        if not self.late and not self.busy:
            return super().write(change)
        awaited: Future[T] = Future()
        if self.busy:
            self._in_line.append((partial(super().write, change), awaited))
        else:
            done = super().write(change)
            self._in_line.append((lambda: done, awaited))
        return awaited

    def arrive(self) -> None:
        self.late = self.busy = False
        for write, awaited in self._in_line:
            if awaited.set_running_or_notify_cancel():
                awaited.set_result(write().result())


@pytest.fixture
def remote(clock: ManualClock) -> Turnstile:
    return Turnstile(clock=clock)


@pytest.fixture
def disk(tmp_path: Path) -> LateStore:
    return LateStore(tmp_path / "home")


async def backlog(
    at: At,
    *contents: str,
    of: Callable[[str], str] = str,
    **how: Any,
) -> None:
    """Store each under its own words as key, and in a context of its own or the one it is `of`, while the remote is
    down; then it is back, and the first is under way."""
    at.remote.down = True
    await at.memory.sync(timeout=1)
    for content in contents:
        await at.memory.store(content, **{"key": content, "context_id": of(content), **how})
        at.clock.tick(0.001)
    at.remote.down = False
    await at.clock.advance(300)


# --- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("P13")
@pytest.mark.parametrize(("answers", "wished", "pauses"), [(0, False, 1), (1, False, 0), (1, True, 1)])
async def test_there_is_no_pause_while_the_remote_takes_several_calls_unless_it_asks_for_one(
    clock: ManualClock, answers: int, wished: bool, pauses: int
) -> None:
    window = SendWindow(6)
    for _ in range(answers):
        window.taken()
    pausing = asyncio.create_task(window.pause(clock, 5, wished=wished))
    await clock.settle()
    assert (window.pausing, pausing.done()) == (pauses, not pauses)
    await clock.advance(5)
    assert (window.pausing, pausing.done()) == (0, True)


async def test_an_answer_ends_one_pause_of_several(clock: ManualClock) -> None:
    window = SendWindow(6)
    pausing = [asyncio.create_task(window.pause(clock, 5, wished=False)) for _ in range(2)]
    await clock.settle()
    window.taken()
    await clock.settle()
    assert [one.done() for one in pausing] == [True, False]
    await clock.advance(5)
    assert pausing[1].done()


def test_the_pace_doubles_up_to_its_most_and_a_failure_halves_it() -> None:
    window, seen = SendWindow(6), []
    for _ in range(4):
        seen.append(window.at_once)
        window.taken()
    for _ in range(4):
        seen.append(window.at_once)
        window.failed()
    assert seen == [1, 2, 4, 6, 6, 3, 1, 1]


@pytest.mark.requirement("KNG-047", "P13")
@pytest.mark.parametrize("context", ["one talk", None])
async def test_a_backlog_goes_several_at_once_in_its_order_as_soon_as_the_remote_has_taken_one(
    at: At, context: str | None
) -> None:
    await backlog(at, *(f"{number:02}" for number in range(20)), context_id=context)
    seen = []
    while at.remote.inside:
        seen.append(len(at.remote.inside))
        at.remote.let(min(at.remote.inside))
        await at.clock.settle()
    assert seen == [1, 2] + [4] * 15 + [3, 2, 1]
    assert held(at.remote) == [f"{number:02}" for number in range(20)]


async def test_with_one_at_once_everything_goes_one_by_one(
    disk: LateStore, remote: Turnstile, clock: ManualClock
) -> None:
    async with at_work(disk, remote, clock, settings=replace(CALM, pace=replace(CALM.pace, sends_at_once=1))) as at:
        await backlog(at, "one", "two", "three")
        while remote.inside:
            remote.let(next(iter(remote.inside)))
            await clock.settle()
    assert (remote.most, held(remote)) == (1, ["one", "two", "three"])


# --- what waits for what ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-047")
async def test_a_thought_is_not_sent_beside_the_one_it_follows(at: At) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await at.memory.store("before")
    because = await at.memory.record_thought("because")
    await at.memory.record_thought("therefore", chain_id=because.chain_id)
    await at.memory.store("after")
    at.remote.down = False
    await at.clock.advance(300)
    at.remote.let("before")
    await at.clock.settle()
    assert "because" in at.remote.inside
    assert "therefore" not in at.remote.inside
    at.remote.let("because")
    await at.clock.settle()
    assert "therefore" in at.remote.inside
    at.remote.open = True
    for content in list(at.remote.inside):
        at.remote.let(content)
    await at.clock.settle()
    (child,) = (call for call in at.remote.named("record_thought") if call.arguments["memory"].content == "therefore")
    assert child.arguments["parent_remote_id"] is not None


# --- trouble ----------------------------------------------------------------------------------------------------------


async def four_inside(at: At) -> list[str]:
    """Ten are waiting, of which four are under way."""
    await backlog(at, *(f"{number:02}" for number in range(10)))
    for _ in range(3):
        at.remote.let(min(at.remote.inside))
        await at.clock.settle()
    assert len(at.remote.inside) == 4
    return sorted(at.remote.inside)


async def test_failures_side_by_side_are_one_failure_of_the_link(at: At) -> None:
    inside = await four_inside(at)
    at.clock.tick(1)
    at.remote.let(inside[0], BUSY)
    await at.clock.settle()
    for content in inside[1:]:
        at.clock.tick(0.01)
        at.remote.let(content, BUSY)
        await at.clock.settle()
    assert at.link_state == LinkState.CONNECTED
    assert len(at.remote.inside) == 1


async def test_one_that_breaks_connections_while_others_are_answered_does_not_break_the_link(at: At) -> None:
    crash, *others = await four_inside(at)
    at.clock.tick(1)
    at.remote.let(others[0])
    await at.clock.settle()
    at.remote.let(crash, RemoteUnavailable("connection reset"))
    await at.clock.settle()
    assert at.link_state == LinkState.CONNECTED
    at.remote.open = True
    for content in list(at.remote.inside):
        at.remote.let(content)
    await at.clock.settle()
    assert at.outbox == (1, 0, 0)


async def test_the_link_breaks_when_all_that_is_under_way_breaks_and_everything_keeps_its_place(at: At) -> None:
    inside = await four_inside(at)
    at.clock.tick(1)
    for content in inside:
        at.remote.let(content, RemoteUnavailable("connection reset"))
    await at.clock.settle()
    assert at.link_state == LinkState.OFFLINE
    assert at.outbox == (7, 0, 0)
    at.remote.open = True
    await at.clock.advance(300)
    assert held(at.remote) == [f"{number:02}" for number in range(10)]
    assert len(at.remote.effects) == 10


async def test_a_retry_after_holds_back_all_that_is_not_under_way_yet(at: At) -> None:
    inside = await four_inside(at)
    at.remote.let(inside[0], RemoteUnavailable("HTTP 429", retry_after_s=120, reached=True))
    await at.clock.settle()
    at.remote.let(inside[1], RemoteUnavailable("HTTP 429", retry_after_s=5, reached=True))
    for content in inside[2:]:
        at.remote.let(content)
    await at.clock.settle()
    assert at.remote.inside == {}
    await at.clock.advance(119)
    assert (at.remote.inside, at.outbox) == ({}, (5, 0, 0))
    at.remote.open = True
    await at.clock.advance(12)
    assert at.outbox == (0, 0, 0)


async def test_who_waits_for_one_learns_of_it_while_others_of_its_lease_are_still_under_way(at: At) -> None:
    await backlog(at, "one", "slow", "quick")
    at.remote.let("one")
    await at.clock.settle()
    quick = await at.memory.get("quick")
    assert quick is not None
    [connection] = at.memory._engine.remotes.connections
    waiting = asyncio.ensure_future(connection.wait_for(quick.id, 4))
    await at.clock.settle()
    at.remote.let("quick")
    await at.clock.settle()
    assert list(at.remote.inside) == ["slow"]
    assert waiting.done()


# --- being cut off ----------------------------------------------------------------------------------------------------


async def test_a_sync_that_is_cut_off_leaves_nothing_leased_and_what_was_under_way_is_a_repeat(at: At) -> None:
    await backlog(at, *"abcdef")
    at.remote.let("a")
    await at.clock.settle()
    for content in list(at.remote.inside):
        at.remote.let(content, RemoteUnavailable("HTTP 429", retry_after_s=200, reached=True))
    await at.clock.settle()
    syncing = asyncio.ensure_future(at.memory.sync(timeout=3))
    await at.clock.settle()
    at.remote.let(next(iter(at.remote.inside)))
    await at.clock.settle()
    cut_off = set(at.remote.inside)
    await at.clock.advance(3)
    assert (await syncing).pending == 4
    assert (at.outbox, len(cut_off)) == ((4, 0, 0), 2)
    at.remote.open = True
    assert (await at.memory.sync(timeout=3)).pending == 0
    assert cut_off <= {
        call.arguments["memory"].content for call in at.remote.named("store") if call.arguments["repeated"]
    }
    assert len(at.remote.effects) == 6


async def test_a_sync_that_is_cut_off_while_it_leases_gives_back_what_it_took(
    remote: Turnstile, disk: LateStore, clock: ManualClock
) -> None:
    def late_from_the_claim_on(event: Event) -> None:
        disk.late |= isinstance(event, DeliveryStarted)

    remote.down = True
    async with router_over(disk, remote, clock, observers=(late_from_the_claim_on,)) as memory:
        at = Scene(memory, disk, remote, clock)
        await clock.settle()
        await memory.store("not to be kept from anybody")
        await clock.settle()
        remote.down = False
        syncing = asyncio.ensure_future(memory.sync(timeout=3))
        await clock.settle()
        assert at.outbox == (0, 1, 0)
        await clock.advance(3)
        disk.arrive()
        assert (await syncing).pending == 1
        assert at.outbox == (1, 0, 0)
    assert remote.named("store") == []


async def test_an_acknowledgement_outlives_the_cutting_off_of_whoever_waits_for_it(at: At, disk: LateStore) -> None:
    memory_id = (await at.memory.store("one")).id
    await at.clock.settle()
    disk.busy = True
    at.remote.let("one")
    await at.clock.settle()
    closing = asyncio.ensure_future(at.memory.close())
    await at.clock.settle()
    disk.arrive()
    await closing
    facet = facet_of(PromptStore(disk.home), memory_id)
    assert facet is not None
    assert facet.state is DeliveryState.DELIVERED
