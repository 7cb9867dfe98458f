"""An Ultimate server as a process of its own: replies that are lost, and kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory.errors import RemoteError
from kingly_memory.ids import MemoryId
from tests.cli_runner import ROOT
from tests.remote_samples import LIGHTHOUSE, revised
from tests.ultimate.server import MCP_PATH, UltimateServer
from tests.ultimate_samples import brought, ultimate_at

START_S = 60.0


class Process:
    """`python -m tests.ultimate.server`, started and killed at will on one port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.effects_file = folder / "effects.jsonl"
        self._port_file = folder / "port"
        self._options = options
        self._port = "0"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{MCP_PATH}"

    def start(self) -> None:
        self._port_file.unlink(missing_ok=True)
        files = ["--port-file", str(self._port_file), "--effects-file", str(self.effects_file)]
        command = [sys.executable, "-m", "tests.ultimate.server", "--port", self._port, *files, *self._options]
        self._process = subprocess.Popen(command, cwd=ROOT)
        end = time.monotonic() + START_S
        while not self._port_file.exists():
            assert time.monotonic() < end, "the server did not start"
            assert self._process.poll() is None, "the server ended"
            time.sleep(0.01)
        self._port = self._port_file.read_text()

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def held(self) -> list[str]:
        """The contents of all memories, by the effects of every process."""
        return sorted(row.content for row in UltimateServer(effects_file=self.effects_file).engine.live())


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    started = Process(tmp_path, "--drop-reply", "0.2", "--fail-500", "0.1", "--seed", "7")
    started.start()
    yield started
    started.kill()


@pytest.mark.requirement("KNG-079")
async def test_lost_replies_and_kills_leave_one_effect_of_each_memory(process: Process) -> None:
    remote = ultimate_at(process.url, tries=1)
    memories = [replace(LIGHTHOUSE, id=MemoryId(f"m-{number}"), content=f"fog {number}") for number in range(12)]
    remote_ids: dict[str, str] = {}
    failures = 0
    while len(remote_ids) < len(memories):
        one = memories[len(remote_ids)]
        try:
            remote_ids[one.id] = await brought(remote, one, repeated=failures > 0)
        except RemoteError:
            failures += 1
            if failures % 3 == 0:
                process.kill()
                process.start()
    assert failures > 0
    assert process.held() == sorted(one.content for one in memories)
    assert len(set(remote_ids.values())) == len(memories)
    await remote.aclose()


async def test_a_server_that_was_killed_knows_what_it_was_told(process: Process) -> None:
    remote = ultimate_at(process.url, tries=20)
    remote_id = await brought(remote)
    process.kill()
    process.start()
    how = {"remote_id": remote_id, "idempotency_key": f"{LIGHTHOUSE.id}.2"}
    assert await brought(remote, revised(), **how) == remote_id
    assert process.held() == [revised().content]
    await remote.aclose()


def test_it_says_where_it_listens_and_why_it_cannot(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = Process(tmp_path)
    first.start()
    try:
        assert capfd.readouterr().out == f"listening on {first.url}\n"
        port = first.url.removesuffix(MCP_PATH).rpartition(":")[2]
        command = [sys.executable, "-m", "tests.ultimate.server", "--port", port]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)
    finally:
        first.kill()
    assert second.returncode == 1
    assert second.stderr == f"port {port} cannot be listened on (Address already in use); name another --port\n"


def test_a_server_whose_file_is_gone_gives_none_of_its_ids_again(tmp_path: Path) -> None:
    effects_file = tmp_path / "effects.jsonl"
    lives = set()
    for _ in range(2):
        lives.add(UltimateServer(effects_file=effects_file).engine.life)
        lives.add(UltimateServer(effects_file=effects_file).engine.life)
        effects_file.unlink()
    assert len(lives) == 2
