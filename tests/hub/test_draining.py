"""A hub that was told to stop: who watches it hears so first, and what is under way is finished."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from kingly_memory.cli.main import main
from kingly_memory.hub import listening
from kingly_memory.hub.listening import Limits, listener, quiet_server
from kingly_memory.hub.process import HubProcess
from kingly_memory.hub.server import Draining
from tests.hub.test_limits import GET, Slow


@pytest.mark.requirement("N24")
def test_a_hub_that_is_watched_closes_its_port_when_the_watcher_has_heard_or_after_ten_seconds() -> None:
    now_s = 100.0
    unwatched, by_a_person, heard, unheard, forgotten = (Draining(lambda: now_s) for _ in range(5))
    assert unwatched.is_over()
    assert not any(by_a_person.asked() for _ in range(2))
    assert by_a_person.is_over()
    assert not any(one.asked() for one in (heard, unheard, forgotten) for _ in range(3))
    assert not heard.is_over()
    assert not unheard.is_over()
    assert [(heard.asked(), heard.is_over()) for _ in range(3)] == [(True, False), (True, False), (True, True)]
    now_s += 9.0
    assert not unheard.is_over()
    now_s += 1.0
    assert unheard.is_over()
    now_s += 50.0
    assert forgotten.is_over()


@pytest.mark.requirement("N24")
def test_a_watched_hub_says_that_it_is_not_ready_and_answers_until_that_was_heard(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub, httpx.Client(base_url=hub.url, trust_env=False, timeout=60) as web:
        assert [web.get("/ready").status_code for _ in range(3)] == [200] * 3
        os.kill(hub.pid or 0, signal.SIGTERM)
        while (reply := web.get("/ready")).status_code == 200:
            """The signal arrives within a tenth of a second."""
        assert (reply.status_code, "stopping" in reply.json()["error"]) == (503, True)
        body = {"method": "store_memory", "params": {"content": "stored while it leaves"}}
        assert web.post("/mcp/call", json=body).status_code == 200
        for _ in range(2):
            assert web.get("/ready").status_code == 503
        assert hub.stop() == 0


@pytest.mark.requirement("N24")
def test_a_hub_whose_status_was_asked_for_closes_its_port_at_once(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub, httpx.Client(base_url=hub.url, trust_env=False, timeout=60) as web:
        assert [main(["hub", "status", "--url", hub.url]) for _ in range(3)] == [0] * 3
        os.kill(hub.pid or 0, signal.SIGTERM)
        said = set[int]()
        with suppress(httpx.TransportError):  # the port is closed
            while True:
                said.add(web.get("/ready?once").status_code)
        assert 503 not in said, "it waited for somebody to hear that it stops"


@pytest.mark.requirement("N24")
@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_call_in_progress_is_finished_or_ended_after_its_time(
    is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_slow:
        monkeypatch.setattr(listening, "_GRACE_S", 0.05)
    slow = Slow()
    with listener("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        server = quiet_server(slow, limits=Limits(100))
        running = asyncio.create_task(server.serve(sockets=[taken]))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await slow.begun.acquire()
        server.should_exit = True
        while taken.fileno() >= 0:  # noqa: ASYNC110  # until the port is closed, which nothing tells of
            await asyncio.sleep(0)
        if not is_slow:
            slow.go_on.set()
        said = await reader.read()
        await running
        writer.close()
    assert (b"200 OK" in said, said.endswith(b"done")) == (not is_slow, not is_slow)
