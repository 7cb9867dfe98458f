"""The turn to probe belongs to whoever uses it, and only a remote that had its time counts as late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pytest

from kingly_memory.errors import RemoteError, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import LinkState, Memory
from kingly_memory.ports import LocalStore, Remote, RemoteInfo, Transaction
from kingly_memory.router.delivery.link import Link
from kingly_memory.router.delivery.routes import UNNAMED, Route
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.search.remote_cache import RemoteCache
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.services import RemotePart, Services
from kingly_memory.testing import FakeRemote, ManualClock
from kingly_memory.testing.fakes import FakeCall
from tests.router_bench import CALM, REMOTE, PromptStore, nothing_new

T = TypeVar("T")


class SlowToTell(PromptStore):
    """Says of its first change only later that it is durable."""

    told = False

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        done = super().write(change)
        if self.told:
            return done
        self.told = True
        silent: Future[T] = Future()
        silent.set_running_or_notify_cancel()
        return silent


class SlowToBegin(PromptStore):
    """Begins its first change only when it is told to."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._waiting: list[Callable[[], None]] = []
        self._is_first = True

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        if not self._is_first:
            return super().write(change)
        self._is_first = False
        done: Future[T] = Future()
        self._waiting.append(lambda: done.set_result(PromptStore.write(self, change).result()))
        return done

    def begin(self) -> None:
        for waiting in self._waiting:
            waiting()


def keeper(store: LocalStore, clock: ManualClock, remote: FakeRemote | None = None) -> LinkKeeper:
    route = Route(REMOTE, UNNAMED, "http://fake")
    part = RemotePart(route, remote or FakeRemote(clock=clock), lambda: True, lambda: None)
    return LinkKeeper(part, Services(store, clock, CALM, (), lambda: 0.5, lambda _: 0))


def offline(store: PromptStore, clock: ManualClock) -> None:
    link = Link(LinkState.OFFLINE, next_probe=clock.now().timestamp(), last_error="down")
    store.write(lambda tx: tx.set_facet("link", REMOTE, link.to_json())).result()


async def test_process_that_ends_while_it_takes_its_turn_to_probe_gives_it_back(tmp_path: Path) -> None:
    clock, home = ManualClock(), tmp_path / "home"
    offline(PromptStore(home), clock)
    store = SlowToTell(home)
    leaving = keeper(store, clock)
    probing = asyncio.create_task(leaving.probe())
    await asyncio.sleep(0)  # it begins
    assert leaving.current().next_probe == clock.now().timestamp() + CALM.probe_interval_s
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert keeper(store, clock).seconds_to_probe() == 0


@pytest.mark.requirement("KNG-045")
async def test_a_process_that_waits_long_for_its_turn_does_not_probe_after_another_one(tmp_path: Path) -> None:
    clock, home = ManualClock(), tmp_path / "home"
    offline(PromptStore(home), clock)
    store = SlowToBegin(home)
    remote = FakeRemote(clock=clock)
    remote.down = True
    probing = asyncio.create_task(keeper(store, clock, remote).probe())
    await asyncio.sleep(0)  # it waits for the write lock
    await clock.advance(5)
    assert not await keeper(PromptStore(home), clock, remote).probe()
    asked = len(remote.calls)
    store.begin()
    assert not await probing
    assert len(remote.calls) == asked == 1


@pytest.mark.parametrize(
    ("error", "patient", "failures"),
    [
        (RemoteUnavailable("no complete answer in time", timed_out=True), True, 1),
        (RemoteUnavailable("no complete answer in time", timed_out=True), False, 0),
        (RemoteUnavailable("connection refused"), False, 1),
    ],
    ids=repr,
)
async def test_only_a_remote_that_had_its_time_is_late_and_one_that_refuses_has_failed_at_once(
    tmp_path: Path, error: RemoteError, patient: bool, failures: int
) -> None:
    clock = ManualClock()
    store = PromptStore(tmp_path / "home")
    link = keeper(store, clock)
    cache = RemoteCache(REMOTE, store=store, clock=clock)
    side = RemoteSide(link._part, link, cache, nothing_new)

    async def fail(_: Remote) -> None:
        raise error

    with pytest.raises(RemoteUnavailable):
        await side.ask("a question", fail, patient=patient)
    await side.settle()
    assert link.current().failures == failures


@pytest.mark.requirement("KNG-046")
@pytest.mark.parametrize("answered", ["call", "probe"])
@pytest.mark.parametrize("error", [RemoteUnavailable("connection reset"), RemoteUnauthorised(401)], ids=repr)
async def test_a_call_that_began_before_the_remote_answered_does_not_break_the_link_when_it_fails_later(
    tmp_path: Path, answered: str, error: RemoteError
) -> None:
    clock = ManualClock()
    store = PromptStore(tmp_path / "home")
    link = keeper(store, clock)
    began_s = clock.monotonic()
    clock.tick(1)
    if answered == "call":
        await link.succeeded()
    else:
        assert await link.probe(forced=True)
    clock.tick(1)
    await link.failed(error, tries=3, since_s=began_s)
    assert (link.is_connected, link.current().failures) == (True, 0)
    await link.failed(error, tries=3, since_s=clock.monotonic())
    assert not link.is_connected


async def test_a_call_that_was_beside_two_failures_in_a_row_counts_neither_again(tmp_path: Path) -> None:
    clock = ManualClock()
    link = keeper(PromptStore(tmp_path / "home"), clock)
    reset, first_s = RemoteUnavailable("connection reset"), clock.monotonic()
    for _ in range(2):
        clock.tick(1)
        began_s = clock.monotonic()
        clock.tick(1)
        await link.failed(reset, since_s=began_s)
    await link.failed(reset, tries=2, since_s=first_s)
    assert (link.is_connected, link.current().failures) == (True, 2)


@pytest.mark.requirement("KNG-046")
@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("error", [RemoteUnavailable("the reply is not JSON"), RemoteUnauthorised(401)], ids=repr)
async def test_a_failure_that_is_written_down_only_after_the_remote_has_answered_does_not_break_the_link(
    tmp_path: Path, error: RemoteError, each: bool
) -> None:
    """On a busy machine the store takes its time, and a remote may come back meanwhile."""
    clock = ManualClock()
    store = SlowToBegin(tmp_path / "home")
    link = keeper(store, clock)
    failing = asyncio.create_task(link.failed(error, tries=3, since_s=clock.monotonic(), each=each))
    await asyncio.sleep(0)
    clock.tick(1)
    assert await link.probe(forced=True)
    store.begin()
    await failing
    assert (link.is_connected, link.current().failures) == (True, 0)


@pytest.mark.requirement("KNG-046")
async def test_a_probe_that_began_before_the_remote_answered_another_one_does_not_break_the_link(
    tmp_path: Path,
) -> None:
    class Restarted(FakeRemote):
        """Breaks the first connection, and only when the second one stands."""

        def __init__(self) -> None:
            super().__init__(clock=clock)
            self.stands = asyncio.Event()

        async def connect(self) -> RemoteInfo:
            if not self.named("connect"):
                self.calls.append(FakeCall("connect", {}))
                await self.stands.wait()
                raise RemoteUnavailable("connection reset")
            return await super().connect()

    clock = ManualClock()
    remote = Restarted()
    link = keeper(PromptStore(tmp_path / "home"), clock, remote)
    first = asyncio.create_task(link.probe(forced=True))
    await clock.advance(1)
    assert await link.probe(forced=True)
    remote.stands.set()
    assert await first
    assert link.is_connected


@pytest.mark.requirement("KNG-046")
async def test_a_server_that_was_exchanged_is_known_by_its_new_name(tmp_path: Path) -> None:
    class Renamed(FakeRemote):
        called = "old"

        async def connect(self) -> RemoteInfo:
            return (await super().connect())._replace(server=self.called, dialect="mcp")

    clock = ManualClock()
    remote = Renamed(clock=clock)
    link = keeper(PromptStore(tmp_path / "home"), clock, remote)
    assert await link.probe(forced=True)
    assert link.current().server == "old over mcp"
    remote.called = "new"
    assert await link.probe(forced=True)
    assert link.current().server == "new over mcp"
