"""Real processes on one home: together they try an offline remote once per interval."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import JsonObject, LinkState
from kingly_memory.observe import Event, LinkChanged
from kingly_memory.ports import Transaction
from kingly_memory.settings import Pace
from tests.scripted.remote import ScriptedRemote

WINDOW = """
import asyncio, sys
from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace

async def stay_open(home, url):
    settings = Settings(pace=Pace(poll_s=0.02, closing_s=0.0), call_timeout_s=5.0, dialect="json-call")
    async with MemoryRouter.open(home, url, settings=settings):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(stay_open(*sys.argv[1:]))
"""
WINDOWS = 3
STATUSES = (500, 502, 504)
"""One per interval, so that each outcome can be told from the one before."""


@contextmanager
def window(home: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the home open until the test is over."""
    command = [sys.executable, "-c", WINDOW, str(home), url]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.communicate()


def probes(remote: ScriptedRemote) -> int:
    return sum(request.method == "initialize_memory_system" for request in remote.requests)


def let_the_interval_pass(store: DiskStore) -> None:
    """As if it were five minutes later."""

    def change(transaction: Transaction) -> None:
        (name,) = transaction.owners("link")
        link = transaction.facet("link", name)
        assert link is not None
        assert link["state"] == LinkState.OFFLINE
        assert 200 < link["next_probe"] - time.time() <= 300
        transaction.set_facet("link", name, {**link, "next_probe": time.time()})

    store.write(change).result()


@pytest.mark.requirement("KNG-045")
async def test_many_processes_try_an_offline_remote_once_per_interval(tmp_path: Path) -> None:
    home = tmp_path / "home"
    calm = Settings(pace=Pace(closing_s=0.0, send_tries=1), dialect="json-call")
    with ScriptedRemote(always="status=503") as remote, ExitStack() as windows:
        offline = asyncio.Event()

        def watch(event: Event) -> None:
            if isinstance(event, LinkChanged):
                offline.set()

        async with MemoryRouter.open(home, remote.url, settings=calm, observers=(watch,)):
            await offline.wait()
        assert probes(remote) == 1
        opened = [windows.enter_context(window(home, remote.url)) for _ in range(WINDOWS)]
        assert [process.stdout and process.stdout.readline() for process in opened] == ["open\n"] * WINDOWS
        store = DiskStore(home)
        for number, status in enumerate(STATUSES, 1):
            assert probes(remote) == number
            remote.always(f"status={status}")
            let_the_interval_pass(store)
            await heard(store, str(status))
        store.close()
    assert probes(remote) == 1 + len(STATUSES)


async def heard(store: DiskStore, word: str) -> None:
    """Wait until the outcome of a probe is written down, which says that word."""
    async with asyncio.timeout(60):
        while word not in str(link(store)["last_error"]):  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.02)


def link(store: DiskStore) -> JsonObject:
    """There is one, to the one remote."""

    def look(transaction: Transaction) -> JsonObject | None:
        (name,) = transaction.owners("link")
        return transaction.facet("link", name)

    found = store.write(look).result()
    assert found is not None
    return found
