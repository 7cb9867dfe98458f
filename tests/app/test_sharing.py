"""One process, many projects: one store for a home, and no more threads than for one project."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import KinglyMemoryError, MemoryRouter, RouterClosed, Settings, SyncMemoryRouter
from kingly_memory.app import parts
from kingly_memory.app.portal import on_the_loop
from kingly_memory.app.reading import open_reader
from kingly_memory.home.place import Place
from kingly_memory.settings import Pace

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))


def opened(home: Path, project: str) -> MemoryRouter:
    return MemoryRouter.open(home, False, project=project, settings=QUICK)


@pytest.fixture(autouse=True)
def threads_before() -> set[threading.Thread]:
    """Those of stores that other tests have left open."""
    return set(threading.enumerate())


def our_threads(before: set[threading.Thread]) -> list[str]:
    new = set(threading.enumerate()) - before
    return sorted(thread.name for thread in new if thread.name.startswith("kingly"))


@pytest.mark.requirement("N11")
async def test_twenty_projects_of_a_home_have_one_writer_and_few_readers(
    tmp_path: Path, threads_before: set[threading.Thread]
) -> None:
    routers = [opened(tmp_path / "home", f"p{number}") for number in range(20)]
    for number, memory in enumerate(routers):
        await memory.store(f"fog number {number}", key="k")
    await asyncio.gather(*(memory.search("fog") for memory in routers))
    names = our_threads(threads_before)
    assert names.count("kingly-writer") == 1
    assert len(names) <= 16
    assert [len(await memory.search("fog")) for memory in routers] == [1] * 20
    for memory in routers:
        await memory.close()
    assert our_threads(threads_before) == []


@pytest.mark.requirement("N11")
def test_twenty_blocking_routers_have_one_thread_for_all_their_loops(
    tmp_path: Path, threads_before: set[threading.Thread]
) -> None:
    routers = [SyncMemoryRouter.open(tmp_path / "home", False, project=f"p{n}", settings=QUICK) for n in range(20)]
    for number, memory in enumerate(routers):
        memory.store(f"fog number {number}")
    assert our_threads(threads_before).count("kingly-portal") == 1
    assert len(our_threads(threads_before)) <= 16
    first, *others = routers
    first.close()
    with pytest.raises(RouterClosed):
        first.search("fog")
    assert [len(memory.search("fog")) for memory in others] == [1] * 19
    for memory in others:
        memory.close()
    assert our_threads(threads_before) == []


@pytest.mark.requirement("N11")
def test_closing_a_blocking_router_ends_its_own_calls_alone(tmp_path: Path) -> None:
    """One that other threads still wait for ends; what another router does meanwhile goes on."""
    one, other = (SyncMemoryRouter.open(tmp_path / name, False, settings=QUICK) for name in ("one", "other"))
    begun, goes_on, ended = threading.Semaphore(0), threading.Event(), []

    def wait(memory: SyncMemoryRouter) -> None:
        async def held() -> str:
            begun.release()
            await asyncio.to_thread(goes_on.wait)
            return "went on"

        try:
            ended.append(memory._call(held))
        except RouterClosed:
            ended.append("closed")

    threads = [threading.Thread(target=wait, args=(memory,)) for memory in (one, other)]
    for thread in threads:
        thread.start()
        begun.acquire()
    one.close()
    threads[0].join()
    assert ended == ["closed"]
    goes_on.set()
    threads[1].join()
    assert ended == ["closed", "went on"]
    other.close()


@pytest.mark.requirement("N15")
def test_a_call_that_begins_while_another_thread_closes_the_router_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SyncMemoryRouter.open(tmp_path / "home", False, settings=QUICK)
    memory.store("fog", key="k")
    tell, closing = asyncio.run_coroutine_threadsafe, threading.Thread(target=memory.close)

    def tell_late(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
        if threading.current_thread() is not closing:
            closing.start()
            closing.join(0.2)  # if it can end, it does
        return tell(work, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", tell_late)
    with suppress(RouterClosed):
        assert memory.get("k") is not None
    closing.join()
    with pytest.raises(RouterClosed):
        memory.get("k")


@pytest.mark.requirement("N15")
async def test_a_verb_that_comes_when_python_ends_its_thread_pools_hears_that_the_router_is_closed(
    tmp_path: Path,
) -> None:
    """As the main thread ends, and another one goes on."""
    async with opened(tmp_path / "home", "app") as memory:
        await memory.store("fog at sea", key="k")
        assert await memory.get("k") is not None
        pool = memory._engine.runtime.threads._pool
        assert pool is not None
        pool.shutdown()
        with pytest.raises(RouterClosed):
            await memory.get("k")


@pytest.mark.requirement("N15")
def test_an_observer_that_calls_the_router_back_is_told_and_waits_for_nothing(tmp_path: Path) -> None:
    said: list[str] = []

    def observe(_: object) -> None:
        for name, words in {"get": ["k"], "close": []}.items():
            with pytest.raises(KinglyMemoryError, match="have another thread do that"):
                getattr(memory, name)(*words)
            said.append(name)

    memory = SyncMemoryRouter.open(tmp_path / "home", False, settings=QUICK, observers=(observe,))
    with memory:
        memory.store("fog", key="k")
    assert said == ["get", "close"]


@pytest.mark.requirement("N11")
async def test_a_loop_that_waits_for_a_blocking_router_hears_that_it_was_closed_and_of_its_own_cancellation(
    tmp_path: Path,
) -> None:
    router = SyncMemoryRouter.open(tmp_path / "home", False, project="fog", settings=QUICK)
    view = router.scoped(project="sea")
    assert await view.elsewhere(lambda awaiting: awaiting.list()) == view.list()
    assert await view.elsewhere(lambda awaiting: on_the_loop(lambda: awaiting.project)) == "sea"
    calls, here = [], asyncio.get_running_loop()
    for _ in range(2):
        begun = asyncio.Event()

        async def held(awaiting: object, begun: asyncio.Event = begun) -> None:
            here.call_soon_threadsafe(begun.set)
            await asyncio.Event().wait()

        calls.append(asyncio.ensure_future(view.elsewhere(held)))
        await begun.wait()
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    await asyncio.to_thread(router.close)
    with pytest.raises(RouterClosed):
        await calls[1]
    with pytest.raises(RouterClosed):
        await view.elsewhere(lambda awaiting: awaiting.list())


@pytest.mark.requirement("N11")
async def test_closing_one_router_of_a_home_leaves_the_others_open(
    tmp_path: Path, threads_before: set[threading.Thread]
) -> None:
    one, other = opened(tmp_path / "home", "one"), opened(tmp_path / "home", "other")
    await one.store("fog at sea")
    await other.store("fog on land", key="k")
    await one.close()
    await one.close()
    with pytest.raises(RouterClosed):
        await one.store("too late")
    assert await other.get("k") is not None
    await other.store("more fog")
    await other.close()
    assert our_threads(threads_before) == []


async def test_homes_and_durabilities_do_not_share_a_store(tmp_path: Path) -> None:
    place = Place(tmp_path / "home", "app", None)
    elsewhere = Place(tmp_path / "elsewhere", "app", None)
    stores = [
        parts.open_store(place, QUICK),
        parts.open_store(place, Settings(durability="power")),
        parts.open_store(elsewhere, QUICK),
    ]
    assert len(set(map(id, stores))) == 3
    assert parts.open_store(place, QUICK) is stores[0]
    for store in [*stores, stores[0]]:
        store.close()
    again = parts.open_store(place, QUICK)
    assert again is not stores[0]
    again.close()


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    program = f"""
import asyncio, os
from kingly_memory import MemoryRouter

async def found():
    async with MemoryRouter.open({str(tmp_path / "home")!r}, False, project="app") as memory:
        return await memory.get("k") is not None

async def main():
    async with MemoryRouter.open({str(tmp_path / "home")!r}, False, project="app") as memory:
        await memory.store("fog at sea", key="k")
        assert await memory.get("k") is not None  # a reader thread runs
        child = os.fork()
        if child == 0:
            asyncio._set_running_loop(None)
            os._exit(0 if asyncio.run(found()) else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(asyncio.run(main()))
"""
    # From Python 3.12 on every fork beside threads warns, and that is what this is about.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


async def test_a_reader_that_is_closed_twice_closes_nobody_elses_store(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", "app") as memory:
        await memory.store("fog at sea")
        reader = open_reader(Place(tmp_path / "home", "app", None))
        reader.close()
        reader.close()
        await memory.store("more fog")
        assert len((await memory.list()).memories) == 2


async def test_an_opening_that_fails_leaves_no_store_in_use(
    tmp_path: Path, threads_before: set[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "meaning", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        opened(tmp_path / "home", "app")
    monkeypatch.undo()
    async with opened(tmp_path / "home", "app") as memory:
        await memory.store("fog at sea")
    assert our_threads(threads_before) == []


def test_a_forked_child_does_not_keep_the_turn_to_deliver(tmp_path: Path) -> None:
    leader = parts.Leadership(tmp_path / "turn.lock")
    assert leader.take()
    (told, tell), (heard, say) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say, b".")  # it runs, and has done what a child does first
        os.read(told, 1)
        os._exit(0)
    os.read(heard, 1)
    assert leader.descriptor is not None
    os.close(leader.descriptor)  # as a kill does, without unlocking
    leader.descriptor = None
    try:
        assert parts.Leadership(tmp_path / "turn.lock").take(), "the child holds no copy of the lock"
    finally:
        os.write(tell, b".")
        os.waitpid(child, 0)
        for descriptor in (told, tell, heard, say):
            os.close(descriptor)
