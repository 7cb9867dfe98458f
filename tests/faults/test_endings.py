"""Processes that are told to end, or whose other end is gone: they end soon, leave nothing locked and nobody behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.folder import try_lock
from kingly_memory.hub.process import HubProcess
from kingly_memory.settings import Pace
from tests.cli_runner import ROOT, Run, environment
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, speaking
from tests.kill.harness import Diary, audit, finish, start
from tests.kill.remotes import ScriptedProcess
from tests.kill.writer import Order
from tests.scripted.remote import ScriptedRemote

ROOM_S = 20.0
"""A loaded machine's share; the figure says what it took."""


def children(pid: int) -> list[str]:
    """The processes that this one has started and that still run."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.faults)])
def test_a_sync_that_hangs_ends_when_it_is_told_to_and_locks_nothing(
    run: Run, tmp_path: Path, number: signal.Signals, dialect: str, tell: Tell
) -> None:
    home = tmp_path / "home"
    assert run("store", "a note", "--home", str(home), "--significance", "0.9").code == 0
    with ScriptedRemote(always="hang", **speaking(dialect)) as server:
        command = [sys.executable, "-m", "kingly_memory", "sync", "--timeout", "60", "--home", str(home)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(KINGLY_REMOTE=server.url),
        ) as running:
            server.wait_until(lambda one: len(one.requests) > 0, 30)
            began = time.monotonic()
            running.send_signal(number)
            _, complaints = running.communicate(timeout=ROOM_S)
            took_s = time.monotonic() - began
    assert "Traceback" not in complaints
    assert running.returncode != 0
    lock = try_lock(home / "write.lock")
    assert lock is not None
    os.close(lock)
    assert run("status", "--home", str(home), "--json").json["memories"]["total"] == 1
    tell(34, f"hung sync, {number.name}: {took_s:.2f} s")


def test_a_hub_that_is_busy_ends_when_it_is_told_to(tmp_path: Path, tell: Tell) -> None:
    hub = HubProcess(tmp_path / "hub")
    hub.start()
    settings = Settings(durability="process", pace=Pace(closing_s=0.0))

    async def busy() -> float:
        async with MemoryRouter.open(tmp_path / "home", hub.url, settings=settings) as memory:
            for number in range(50):
                await memory.store(f"memory {number}", significance=0.9)
            began = time.monotonic()
            assert await asyncio.to_thread(hub.stop) == 0
            took_s = time.monotonic() - began
            hub.start()
            assert (await memory.sync(timeout=30)).pending == 0
            return took_s

    took_s = asyncio.run(busy())
    assert hub.pid is not None
    assert children(hub.pid) == []
    hub.stop()
    assert took_s <= ROOM_S
    tell(34, f"busy hub, SIGTERM: {took_s:.2f} s")


@pytest.mark.requirement("UNI-010")
async def test_writers_that_are_told_to_end_lose_nothing(tmp_path: Path, tell: Tell) -> None:
    folder, diary = tmp_path / "writers", Diary()
    folder.mkdir()
    with ScriptedProcess(folder) as remote:
        order = Order(str(folder / "home"), remote.url, 0)
        for seed in range(3):
            writer = start(Order(order.home, order.url, seed, count=300))
            assert writer.stdout is not None
            diary.take_in([await asyncio.to_thread(writer.stdout.readline) for _ in range(20)])
            writer.send_signal(signal.SIGTERM)
            finish(writer, diary)
        found = await audit(order, diary, remote)
    assert found.blank(), found
    tell(34, f"3 writers, SIGTERM: {found.memories} memories, 0 lost")


def test_whoever_reads_a_command_may_go_away(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("store", "a note", "--home", str(home), "--project", "app")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kingly_memory", "list", "--home", str(home), "--project", "app"]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, env=environment(), timeout=60, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
