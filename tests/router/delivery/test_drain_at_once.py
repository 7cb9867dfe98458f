"""Several deliveries under way at once: what goes beside what, what waits for what, and what trouble does to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.errors import RemoteError, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import DeliveryState, LinkState, Memory
from kingly_memory.observe import DeliveryStarted, Event
from kingly_memory.ports import Transaction
from kingly_memory.router.link import mended
from kingly_memory.router.sender import Sender, SendWindow
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore, facet_of, held, router_over

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


class LateStore(PromptStore):
    """While it is late, changes happen at once and their writers learn it when `arrive` is called. While it is busy,
    they happen then; who does not wait any more has it left undone."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.late = self.busy = False
        self._in_line: list[tuple[Callable[[], Future[Any]], Future[Any]]] = []

    def write(self, change: Callable[[Transaction], T]) -> Future[T]:
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


@pytest.fixture
async def memory(disk: LateStore, remote: Turnstile, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(disk, remote, clock) as router:
        await clock.settle()
        yield router


async def backlog(
    memory: MemoryRouter,
    remote: Turnstile,
    clock: ManualClock,
    *contents: str,
    of: Callable[[str], str] = str,
    **how: Any,
) -> None:
    """Store each under its own words as key, and in a context of its own or the one it is `of`, while the remote is
    down; then it is back, and the first is under way."""
    remote.down = True
    await memory.sync(timeout=1)
    for content in contents:
        await memory.store(content, **{"key": content, "context_id": of(content), **how})
        clock.tick(0.001)
    remote.down = False
    await clock.advance(300)


def outbox(memory: MemoryRouter) -> tuple[int, int, int]:
    """How many are pending, leased and dead."""
    counts = memory._engine.view.status()["outbox"]
    return counts["pending"], counts["leased"], counts["dead"]


def link_state(memory: MemoryRouter) -> str:
    state: str = memory._engine.view.status()["link"]["state"]
    return state


# --- an outage that is over -----------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-047")
async def test_what_failed_on_an_outage_that_is_over_goes_first_again_in_its_context(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    await backlog(memory, remote, clock, "first", "a1", "b1", "a2", "a3", of=lambda content: content[0])
    remote.let("first")
    await clock.settle()
    assert set(remote.inside) == {"a1", "b1"}
    clock.tick(1)
    syncing = asyncio.ensure_future(memory.sync(timeout=30))
    await clock.settle()
    remote.let("a1", RemoteUnavailable("cut off"))
    remote.let("b1")
    remote.open = True
    await syncing
    assert [content for content in held(remote) if content.startswith("a")] == ["a1", "a2", "a3"]


@pytest.mark.requirement("KNG-047")
async def test_order_holds_when_another_process_connects_while_the_failure_is_written_down(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backlog(memory, remote, clock, "first", "second", "third", "last", context_id="one")
    remote.let("first")
    await clock.settle()
    settle = Sender._settle

    async def and_then_somebody_connects(sender: Sender, *arguments: Any) -> Any:
        moved = await settle(sender, *arguments)
        if not sender._link.is_connected:
            await sender._link._change(lambda _: mended("exactly_once", "the same"))
        return moved

    monkeypatch.setattr(Sender, "_settle", and_then_somebody_connects)
    clock.tick(1)
    remote.let("second", RemoteUnavailable("cut off"))
    remote.open = True
    await clock.advance(30)
    assert held(remote) == ["first", "second", "third", "last"]


# --- how many ---------------------------------------------------------------------------------------------------------


def test_the_pace_doubles_up_to_its_most_and_a_failure_takes_it_back_to_one() -> None:
    window, seen = SendWindow(6), []
    for _ in range(5):
        seen.append(window.at_once)
        window.taken()
    window.failed()
    assert [*seen, window.at_once] == [1, 2, 4, 6, 6, 1]


async def test_a_backlog_goes_several_at_once_as_soon_as_the_remote_has_taken_one(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    await backlog(memory, remote, clock, *(f"{number:02}" for number in range(20)))
    seen = []
    while remote.inside:
        seen.append(len(remote.inside))
        remote.let(min(remote.inside))
        await clock.settle()
    assert seen == [1, 2, 3 + 1] + [4] * 14 + [3, 2, 1]
    assert held(remote) == [f"{number:02}" for number in range(20)]


async def test_with_one_at_once_everything_goes_one_by_one(
    disk: LateStore, remote: Turnstile, clock: ManualClock
) -> None:
    async with router_over(
        disk, remote, clock, settings=replace(CALM, pace=replace(CALM.pace, sends_at_once=1))
    ) as memory:
        await clock.settle()
        await backlog(memory, remote, clock, "one", "two", "three")
        while remote.inside:
            remote.let(next(iter(remote.inside)))
            await clock.settle()
    assert (remote.most, held(remote)) == (1, ["one", "two", "three"])


# --- what waits for what ----------------------------------------------------------------------------------------------


async def test_a_context_is_told_in_order_while_others_go_beside_it(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    remote.down = True
    await memory.sync(timeout=1)
    for content, context in (("first", None), ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")):
        await memory.store(content, context_id=context)
        clock.tick(0.001)
    remote.down = False
    await clock.advance(300)
    remote.let("first")
    await clock.settle()
    remote.let("b1")
    await clock.settle()
    assert sorted(remote.inside) == ["a1", "b2"]
    remote.let("b2")
    remote.let("a1", BUSY)
    await clock.settle()
    assert sorted(remote.inside) == ["a2"]
    remote.let("a2")
    await clock.settle()
    remote.let("a3")
    await clock.settle()
    assert held(remote) == ["first", "b1", "b2", "a2", "a3"]


@pytest.mark.requirement("KNG-047")
async def test_what_was_said_in_no_context_is_told_in_order_too(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    await backlog(memory, remote, clock, "one", "two", "three", context_id=None)
    while remote.inside:
        assert len(remote.inside) == 1
        remote.let(next(iter(remote.inside)))
        await clock.settle()
    assert held(remote) == ["one", "two", "three"]


@pytest.mark.requirement("KNG-047")
async def test_a_thought_is_not_sent_beside_the_one_it_follows(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    remote.down = True
    await memory.sync(timeout=1)
    await memory.store("before")
    because = await memory.record_thought("because")
    await memory.record_thought("therefore", chain_id=because.chain_id)
    await memory.store("after")
    remote.down = False
    await clock.advance(300)
    remote.let("before")
    await clock.settle()
    assert "because" in remote.inside
    assert "therefore" not in remote.inside
    remote.let("because")
    await clock.settle()
    assert "therefore" in remote.inside
    remote.open = True
    for content in list(remote.inside):
        remote.let(content)
    await clock.settle()
    (child,) = (call for call in remote.named("record_thought") if call.arguments["memory"].content == "therefore")
    assert child.arguments["parent_remote_id"] is not None


# --- trouble ----------------------------------------------------------------------------------------------------------


async def four_inside(memory: MemoryRouter, remote: Turnstile, clock: ManualClock) -> list[str]:
    """Ten are waiting, of which four are under way."""
    await backlog(memory, remote, clock, *(f"{number:02}" for number in range(10)))
    for _ in range(3):
        remote.let(min(remote.inside))
        await clock.settle()
    assert len(remote.inside) == 4
    return sorted(remote.inside)


async def test_failures_side_by_side_are_one_failure_of_the_link(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    inside = await four_inside(memory, remote, clock)
    clock.tick(1)
    remote.let(inside[0], BUSY)
    await clock.settle()
    for content in inside[1:]:
        clock.tick(0.01)
        remote.let(content, BUSY)
        await clock.settle()
    assert link_state(memory) == LinkState.CONNECTED
    assert len(remote.inside) == 1


async def test_one_that_breaks_connections_while_others_are_answered_does_not_break_the_link(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    crash, *others = await four_inside(memory, remote, clock)
    clock.tick(1)
    remote.let(others[0])
    await clock.settle()
    remote.let(crash, RemoteUnavailable("connection reset"))
    await clock.settle()
    assert link_state(memory) == LinkState.CONNECTED
    remote.open = True
    for content in list(remote.inside):
        remote.let(content)
    await clock.settle()
    assert outbox(memory) == (1, 0, 0)


async def test_the_link_breaks_when_all_that_is_under_way_breaks_and_everything_keeps_its_place(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    inside = await four_inside(memory, remote, clock)
    clock.tick(1)
    for content in inside:
        remote.let(content, RemoteUnavailable("connection reset"))
    await clock.settle()
    assert link_state(memory) == LinkState.OFFLINE
    assert outbox(memory) == (7, 0, 0)
    remote.open = True
    await clock.advance(300)
    assert held(remote) == [f"{number:02}" for number in range(10)]
    assert len(remote.effects) == 10


async def test_a_retry_after_holds_back_all_that_is_not_under_way_yet(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    inside = await four_inside(memory, remote, clock)
    remote.let(inside[0], RemoteUnavailable("HTTP 429", retry_after_s=120, reached=True))
    await clock.settle()
    remote.let(inside[1], RemoteUnavailable("HTTP 429", retry_after_s=5, reached=True))
    for content in inside[2:]:
        remote.let(content)
    await clock.settle()
    assert remote.inside == {}
    await clock.advance(119)
    assert (remote.inside, outbox(memory)) == ({}, (5, 0, 0))
    remote.open = True
    await clock.advance(12)
    assert outbox(memory) == (0, 0, 0)


async def test_a_refused_token_stops_everything_and_nothing_under_way_dies(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    for content in await four_inside(memory, remote, clock):
        remote.let(content, RemoteUnauthorised(401))
    await clock.settle()
    assert (link_state(memory), outbox(memory), remote.inside) == ("offline", (7, 0, 0), {})


async def test_who_waits_for_one_learns_of_it_while_others_of_its_lease_are_still_under_way(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    await backlog(memory, remote, clock, "one", "slow", "quick")
    remote.let("one")
    await clock.settle()
    quick = await memory.get("quick")
    assert quick is not None
    [connection] = memory._engine.remotes.connections
    waiting = asyncio.ensure_future(connection.wait_for(quick.id, 4))
    await clock.settle()
    remote.let("quick")
    await clock.settle()
    assert list(remote.inside) == ["slow"]
    assert waiting.done()


# --- being cut off ----------------------------------------------------------------------------------------------------


async def test_a_sync_that_is_cut_off_leaves_nothing_leased_and_what_was_under_way_is_known_to_be_a_repeat(
    memory: MemoryRouter, remote: Turnstile, clock: ManualClock
) -> None:
    await backlog(memory, remote, clock, *"abcdef")
    remote.let("a")
    await clock.settle()
    for content in list(remote.inside):
        remote.let(content, RemoteUnavailable("HTTP 429", retry_after_s=200, reached=True))
    await clock.settle()
    syncing = asyncio.ensure_future(memory.sync(timeout=3))
    await clock.settle()
    remote.let(next(iter(remote.inside)))
    await clock.settle()
    cut_off = set(remote.inside)
    await clock.advance(3)
    assert (await syncing).pending == 4
    assert (outbox(memory), len(cut_off)) == ((4, 0, 0), 2)
    remote.open = True
    assert (await memory.sync(timeout=3)).pending == 0
    assert cut_off <= {call.arguments["memory"].content for call in remote.named("store") if call.arguments["repeated"]}
    assert len(remote.effects) == 6


async def test_a_sync_that_is_cut_off_while_it_leases_gives_back_what_it_took(
    remote: Turnstile, disk: LateStore, clock: ManualClock
) -> None:
    def late_from_the_claim_on(event: Event) -> None:
        disk.late |= isinstance(event, DeliveryStarted)

    remote.down = True
    async with router_over(disk, remote, clock, observers=(late_from_the_claim_on,)) as memory:
        await clock.settle()
        await memory.store("not to be kept from anybody")
        await clock.settle()
        remote.down = False
        syncing = asyncio.ensure_future(memory.sync(timeout=3))
        await clock.settle()
        assert outbox(memory) == (0, 1, 0)
        await clock.advance(3)
        disk.arrive()
        assert (await syncing).pending == 1
        assert outbox(memory) == (1, 0, 0)
    assert remote.named("store") == []


async def test_an_acknowledgement_outlives_the_cutting_off_of_whoever_waits_for_it(
    memory: MemoryRouter, remote: Turnstile, disk: LateStore, clock: ManualClock
) -> None:
    memory_id = (await memory.store("one")).id
    await clock.settle()
    disk.busy = True
    remote.let("one")
    await clock.settle()
    closing = asyncio.ensure_future(memory.close())
    await clock.settle()
    disk.arrive()
    await closing
    facet = facet_of(PromptStore(disk.home), memory_id)
    assert facet is not None
    assert facet.state is DeliveryState.DELIVERED


async def test_closing_while_several_hang_ends_at_once_and_all_are_sent_later_under_their_keys(
    disk: LateStore, remote: Turnstile, clock: ManualClock, tmp_path: Path
) -> None:
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        inside = await four_inside(memory, remote, clock)
    remote.open = True
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as again:
        await clock.settle()
        await again.sync(timeout=3)
        assert outbox(again) == (0, 0, 0)
    assert len(remote.effects) == 10
    repeats = {call.arguments["memory"].content for call in remote.named("store") if call.arguments["repeated"]}
    assert repeats == set(inside)
