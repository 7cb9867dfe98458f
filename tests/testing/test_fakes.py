"""The public test kit does what its users will rely on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import kingly_memory.testing
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.testing import FakeRemote, Lost, ManualClock
from tests.remote_samples import LIGHTHOUSE, revised
from tests.scripted.remote import ScriptedRemote

ROOT = Path(__file__).parents[2]


def call(url: str, method: str, **params: Any) -> dict[str, Any]:
    """One json-call without our adapter."""
    body = json.dumps({"method": method, "params": params}).encode()
    request = urllib.request.Request(f"{url}/mcp/call", body)  # noqa: S310  # a loopback address of ours
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310  # the same
        answer: dict[str, Any] = json.load(reply)
        return answer


def lines(path: Path) -> list[tuple[str, str]]:
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(entry["line"], entry["params"].get("idempotency_key", entry["method"])) for entry in entries]


def test_the_menu_is_complete() -> None:
    assert kingly_memory.testing.__all__ == sorted(kingly_memory.testing.__all__)
    for name in kingly_memory.testing.__all__:
        assert getattr(kingly_memory.testing, name).__name__ == name


def test_scripted_faults_are_used_up_in_order_and_by_method() -> None:
    server = ScriptedRemote()
    server.script("hang", method="store_memory")
    server.script("reset", "status=500")
    methods = ["search", "store_memory", "store_memory", "search"]
    assert [server._next(method) for method in methods] == ["reset", "hang", "status=500", "ok"]


def test_it_runs_as_a_process(tmp_path: Path) -> None:
    port_file, effects = tmp_path / "port", tmp_path / "effects.jsonl"
    options = ["--port-file", str(port_file), "--effects-file", str(effects), "--script", "status=503", "ok"]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.scripted.remote", *options, "--without", "update_memory"],
        cwd=ROOT,
    )
    try:
        while not port_file.exists():
            assert process.poll() is None
            time.sleep(0.02)
        url = f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}"
        with pytest.raises(urllib.error.HTTPError, match="503") as busy:
            call(url, "store_memory", content="fog", idempotency_key="k1")
        call(url, "store_memory", content="fog", idempotency_key="k1")
        with pytest.raises(urllib.error.HTTPError, match="404") as unknown:
            call(url, "update_memory", memory_id="remote-1")
        busy.value.close()
        unknown.value.close()
    finally:
        process.terminate()
        process.wait()
    assert lines(effects) == [("request", "k1"), ("request", "k1"), ("effect", "k1"), ("request", "update_memory")]


async def test_the_fake_fails_as_scripted_and_then_works() -> None:
    lost = RemoteUnavailable("the reply was lost")
    remote = FakeRemote(RemoteRefused("no", clear=True), Lost(lost), None)
    with pytest.raises(RemoteRefused):
        await remote.store(LIGHTHOUSE, idempotency_key="k", remote_id=None, repeated=False)
    assert remote.effects == []
    with pytest.raises(RemoteUnavailable, match="lost"):
        await remote.store(LIGHTHOUSE, idempotency_key="k", remote_id=None, repeated=False)
    remote_id = await remote.store(LIGHTHOUSE, idempotency_key="k", remote_id=None, repeated=True)
    assert remote.effects == ["k"]
    assert remote.memories == {remote_id: LIGHTHOUSE}
    assert [one.arguments["repeated"] for one in remote.named("store")] == [False, False, True]


async def test_the_fake_without_keys_stores_twice() -> None:
    remote = FakeRemote(honours_keys=False)
    ids = {await remote.store(LIGHTHOUSE, idempotency_key="k", remote_id=None, repeated=True) for _ in range(2)}
    assert len(ids) == 2
    assert (await remote.connect()).honours_keys is False


async def test_the_fake_is_down_when_told() -> None:
    remote = FakeRemote()
    remote.down = True
    with pytest.raises(RemoteUnavailable, match="down"):
        await remote.connect()
    remote.down = False
    assert (await remote.connect()).server == "fake"


async def test_the_fake_hangs_until_the_clock_reaches_the_deadline() -> None:
    clock = ManualClock()
    remote = FakeRemote(clock=clock)
    remote.hang()
    search = asyncio.create_task(remote.search("fog", space="app", limit=1, types=None, timeout_s=0.15))
    await clock.advance(0.14)
    assert not search.done()
    await clock.advance(0.01)
    with pytest.raises(RemoteUnavailable):
        await search
    store = asyncio.create_task(remote.store(revised(), idempotency_key="k", remote_id=None, repeated=False))
    await clock.settle()
    remote.go_on()
    assert await store
