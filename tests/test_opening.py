"""A router is usable at once: its first verb opens it, and what nobody closes is closed in the end."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput, KinglyMemoryError, MemoryRouter, RouterClosed, Settings, SyncMemoryRouter
from kingly_memory.home.place import user_data_folder
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over
from tests.scripted.remote import ScriptedRemote

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))


def opened(home: Path, remote: str | bool = False) -> MemoryRouter:
    return MemoryRouter.open(home, remote, project="app", settings=QUICK)


def opened_sync(home: Path, remote: str | bool = False) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(home, remote, project="app", settings=QUICK)


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kingly")}


@pytest.mark.requirement("N17")
@pytest.mark.parametrize("router", [MemoryRouter, SyncMemoryRouter])
@pytest.mark.parametrize("told", [(), ("home",), (Path("home"),)])
def test_a_router_made_without_open_says_how_one_is_opened(router: Callable[..., object], told: tuple[object]) -> None:
    with pytest.raises(TypeError, match=r"^Open a router with (Sync)?MemoryRouter\.open\(home\)\.$"):
        router(*told)


@pytest.mark.requirement("N17")
@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ({"token": 5}, "token: expected text, or a text for each remote by name, not int"),
        ({"deliver_earlier": 5}, "deliver_earlier: expected True or False, not int"),
        ({"embedder": 5}, "embedder: expected a function that gives texts a vector each, or an Embedder, not int"),
        (
            {"embedder": object()},
            "embedder: expected a function that gives texts a vector each, or an Embedder, not object",
        ),
        ({"settings": 5}, "settings: expected Settings, not int"),
    ],
)
def test_what_no_router_can_be_opened_with_is_refused_by_name(
    tmp_path: Path, argument: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        MemoryRouter.open(tmp_path / "home", **argument)
    assert (str(refused.value), (tmp_path / "home").exists()) == (says, False)


@pytest.fixture
def before() -> set[threading.Thread]:
    """What other tests have left running."""
    return our_threads()


def uses(memory: SyncMemoryRouter) -> int:
    """How often the memory under `k` was used, by what is in the store."""
    told = memory.explain("k")
    assert told is not None
    return int(told["uses"]["accesses"])


def run(program: str, folder: Path) -> str:
    """What a program of its own printed. It ended by itself, in peace, and left no warning."""
    strict = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(strict, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- the first verb opens ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("N15")
async def test_the_first_awaited_verb_opens_and_close_ends_it(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    await memory.store("fog at sea", key="k")
    assert [hit.memory.key for hit in await memory.search("fog")] == ["k"]
    await memory.close()
    await memory.close()
    for verb in (memory.get("k"), memory.search("fog"), memory.status(), memory.sweep(), memory.__aenter__()):
        with pytest.raises(RouterClosed, match=r"^this memory router was closed; open one with MemoryRouter\.open"):
            await verb


@pytest.mark.requirement("N15")
@pytest.mark.parametrize("verb", ["sweep", "compact", "weak", "stats", "sync", "list", "threads"])
async def test_any_verb_may_be_the_first(tmp_path: Path, verb: str) -> None:
    memory = opened(tmp_path)
    await (memory.threads.list() if verb == "threads" else getattr(memory, verb)())
    assert memory._engine.runtime.is_open
    await memory.close()


@pytest.mark.requirement("N15")
async def test_several_first_verbs_open_it_once_and_one_that_gives_up_stops_no_other(tmp_path: Path) -> None:
    remote = FakeRemote()
    memory = router_over(PromptStore(tmp_path / "home"), remote, ManualClock())
    first = asyncio.create_task(memory.search("fog"))
    others = [asyncio.create_task(memory.store(f"fog {number}")) for number in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    assert len(await asyncio.gather(*others)) == 5
    assert [task.get_name() for task in memory._engine.runtime._tasks].count("kingly-flush") == 1
    assert (await memory.status())["memories"]["total"] == 5
    await memory.close()


@pytest.mark.requirement("N15")
def test_another_event_loop_is_told_so(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    with asyncio.Runner() as one, asyncio.Runner() as other:
        one.run(memory.store("fog"))
        with pytest.raises(RouterClosed, match="was opened in another event loop; open one here with MemoryRouter"):
            other.run(memory.search("fog"))
        one.run(memory.close())


@pytest.mark.requirement("N15")
def test_where_no_event_loop_of_asyncio_runs_a_verb_says_what_needs_none(tmp_path: Path) -> None:
    with pytest.raises(KinglyMemoryError, match="needs asyncio, whose event loop does not run here"):
        opened(tmp_path).store("fog").send(None)  # as trio would


@pytest.mark.requirement("N15")
@pytest.mark.parametrize("first", ["goes on", "stands still", "is closed"])
def test_another_event_loop_may_close_it(tmp_path: Path, before: set[threading.Thread], first: str) -> None:
    memory, loop = opened(tmp_path), asyncio.new_event_loop()
    loop.run_until_complete(memory.store("fog"))
    if first == "is closed":
        loop.close()
    running = threading.Thread(target=loop.run_forever)
    if first == "goes on":
        running.start()
    asyncio.run(memory.close())
    if first == "goes on":
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        assert not asyncio.all_tasks(loop)
    assert our_threads() <= before
    loop.close()


@pytest.mark.requirement("N15")
def test_code_that_does_not_await_needs_no_with(tmp_path: Path, before: set[threading.Thread]) -> None:
    memory = opened_sync(tmp_path)
    memory.store("fog at sea", key="k")
    assert memory.status()["memories"]["total"] == 1
    unread, begun = memory.export(), memory.export()
    next(begun)
    memory.close()
    memory.close()
    for late in (lambda: memory.get("k"), lambda: next(unread), lambda: next(begun)):
        with pytest.raises(RouterClosed, match="was closed"):
            late()
    with pytest.raises(RouterClosed, match="was closed"), memory:
        pass
    assert our_threads() <= before


@pytest.mark.requirement("N15")
def test_leaving_with_ends_what_a_verb_has_opened(tmp_path: Path, before: set[threading.Thread]) -> None:
    memory = opened_sync(tmp_path)
    memory.store("fog at sea", key="k")
    with memory:
        assert memory.get("k") is not None
    assert our_threads() <= before
    with pytest.raises(RouterClosed):
        memory.search("fog")


@pytest.mark.requirement("N15")
def test_what_was_never_used_is_closed_in_peace(tmp_path: Path, before: set[threading.Thread]) -> None:
    opened_sync(tmp_path).close()
    asyncio.run(opened(tmp_path).close())
    assert our_threads() <= before


# --- what nobody closes -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("N15")
def test_the_end_of_the_event_loop_closes_what_nobody_closed(tmp_path: Path, before: set[threading.Thread]) -> None:
    async def use() -> MemoryRouter:
        memory = opened(tmp_path)
        await memory.store("fog at sea", key="k")
        assert await memory.get("k") is not None
        return memory

    memory = asyncio.run(use())
    assert memory._engine.runtime.is_closed
    assert our_threads() <= before
    with opened_sync(tmp_path) as again:
        assert uses(again) == 1, "the use of it was written down"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # asyncio's, of the connection that the loop left
@pytest.mark.requirement("N15")
def test_an_event_loop_that_was_closed_with_its_router_keeps_no_other_from_delivering(
    tmp_path: Path, before: set[threading.Thread]
) -> None:
    async def deliver() -> str:
        async with opened(tmp_path, server.url) as memory:
            return (await memory.store("more fog", wait=20)).delivery

    with ScriptedRemote() as server:
        loop = asyncio.new_event_loop()
        memory = opened(tmp_path, server.url)
        assert loop.run_until_complete(memory.store("fog at sea", key="k", wait=20)).delivery == "delivered"
        assert loop.run_until_complete(memory.get("k")) is not None
        loop.close()
        assert asyncio.run(deliver()) == "delivered"
    del memory, loop
    gc.collect()
    assert our_threads() <= before
    with opened_sync(tmp_path) as again:
        assert uses(again) == 1, "the use of it was written down"


PROGRAM = """
from kingly_memory import SyncMemoryRouter
memory = SyncMemoryRouter.open("home", {remote!r}, project="app")
memory.store("fog at sea", key="k", significance=0.9)
assert memory.get("k").content == "fog at sea"
"""
ASYNC_PROGRAM = """
import asyncio
from kingly_memory import MemoryRouter
async def main():
    memory = MemoryRouter.open("home", {remote!r}, project="app")
    await memory.store("fog at sea", key="k", significance=0.9)
    assert (await memory.get("k")).content == "fog at sea"
asyncio.run(main())
"""


@pytest.mark.requirement("N15")
@pytest.mark.parametrize("program", [PROGRAM, ASYNC_PROGRAM], ids=["sync", "async"])
@pytest.mark.parametrize("more", ["", "raise SystemExit(0)"])
def test_a_program_that_closes_nothing_ends_by_itself_and_loses_nothing(
    tmp_path: Path, program: str, more: str
) -> None:
    with ScriptedRemote() as server:
        run(program.format(remote=server.url) + more, tmp_path)
        with opened_sync(tmp_path / "home", server.url) as memory:
            assert uses(memory) == 1, "the use of it was written down"
            assert memory.sync(timeout=20).pending == 0
    assert len(server.semantic.memories) == 1


@pytest.mark.requirement("N15")
def test_a_router_that_nobody_refers_to_any_more_is_closed_in_the_end_too(tmp_path: Path) -> None:
    program = """
from kingly_memory import SyncMemoryRouter
for number in range(3):
    memory = SyncMemoryRouter.open("home", False, project="app")
    if not number:
        memory.store("fog", key="k")
    memory.get("k")
del memory
import gc; gc.collect()
"""
    run(program, tmp_path)
    with opened_sync(tmp_path / "home") as memory:
        assert uses(memory) == 3


@pytest.mark.requirement("N15")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_is_told_to_open_its_own_and_ends_in_peace(tmp_path: Path) -> None:
    program = """
import os, sys, warnings
from kingly_memory import RouterClosed, SyncMemoryRouter
memory = SyncMemoryRouter.open("home", False, project="app")
memory.store("fog")
warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(len(memory.search("fog")))
else:
    try:
        memory.search("fog")
    except RouterClosed as error:
        print(error, flush=True)
"""
    told = "this memory router was opened in another process; open one here with "
    assert run(program, tmp_path) == f"{told}MemoryRouter.open(...) or SyncMemoryRouter.open(...)\n1\n"


@pytest.mark.requirement("N8")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forks_beside_a_thread_that_writes_fail_no_store_of_parent_or_child(tmp_path: Path) -> None:
    program = """
import os, threading, warnings
from kingly_memory import SyncMemoryRouter
warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
memory = SyncMemoryRouter.open("home", False, project="app")
done, stored, ten_more = threading.Event(), [], threading.Semaphore(1)
def write():
    while not done.is_set():
        stored.append(memory.store(f"fog {len(stored)}").id)
        if len(stored) % 10 == 0:
            ten_more.release()
writer = threading.Thread(target=write)
writer.start()
for number in range(4):
    ten_more.acquire()
    if (child := os.fork()) == 0:
        with SyncMemoryRouter.open("home", False, project="app") as own:
            own.store(f"rain {number}")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
done.set()
writer.join()
print(memory.status()["memories"]["total"] - len(stored), len(memory.get_many(stored)) - len(stored))
"""
    assert run(program, tmp_path) == "4 0\n"


@pytest.mark.requirement("N8")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_waits_for_what_the_first_store_of_another_thread_loads(tmp_path: Path) -> None:
    program = """
import importlib.abc, os, sys, threading, warnings
from kingly_memory import SyncMemoryRouter
warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
memory = SyncMemoryRouter.open("home", False, project="app")
memory.documents.put("weather", "today", "fog")  # the store itself has loaded all that it needs
loading, forked = threading.Event(), threading.Event()
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "base64":  # the first thing that text.redaction imports: it is loaded by halves now
            loading.set()
            forked.wait(1)
sys.meta_path.insert(0, Slow())
sys.modules.pop("base64", None)
os.register_at_fork(after_in_parent=forked.set, after_in_child=forked.set)
storing = threading.Thread(target=memory.store, args=("fog",))
storing.start()
loading.wait()
if (child := os.fork()) == 0:
    with SyncMemoryRouter.open("home", False, project="app") as own:
        own.store("rain")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
storing.join()
print(memory.status()["memories"]["total"])
"""
    assert run(program, tmp_path) == "2\n"


# --- what it costs the event loop -------------------------------------------------------------------------------------


@pytest.mark.requirement("P6")
async def test_status_asks_the_store_nothing_on_the_event_loops_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_on: list[int] = []
    connect = sqlite3.connect

    def traced(*how: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*how, **more)
        connection.set_trace_callback(lambda _: asked_on.append(threading.get_ident()))
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    with ScriptedRemote() as server:
        async with opened(tmp_path, server.url) as memory:
            await memory.store("fog at sea", wait=5)
            await memory.attention.focus("fog")
            asked_on.clear()
            status = await memory.status()
            assert status["memories"]["total"] == 1
            assert asked_on
            assert threading.get_ident() not in asked_on


class Counting:
    """What embeds texts, though it is no subclass; it says how often its name was asked for."""

    dimensions, is_light, speaks, floor, scale, asked = 1, True, False, 0.1, 1.0, 0

    @property
    def name(self) -> str:
        self.asked += 1
        return "counting"

    def embed(self, texts: list[str], *, is_question: bool = False) -> list[list[float]]:
        return [[1.0] for _ in texts]


async def test_opening_asks_an_embedder_for_nothing(tmp_path: Path) -> None:
    embedder: Any = Counting()
    router = MemoryRouter.open(tmp_path / "home", False, project="app", embedder=embedder)
    assert embedder.asked == 0
    await router.close()


@pytest.fixture(scope="module")
def data_of_a_module() -> Path:
    return user_data_folder()


def test_what_a_modules_fixtures_open_is_not_noted_in_the_developers_own_folder(data_of_a_module: Path) -> None:
    assert data_of_a_module.parent.name.startswith("kingly-tests-")
