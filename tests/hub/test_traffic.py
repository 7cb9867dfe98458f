"""What an operator sees of a hub: whether it is ready, and how it is called, without what is said."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from kingly_memory.errors import StoreUnwritable
from kingly_memory.hub.access import CALLER, Access, Caller, Gate
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.grants import Grant
from kingly_memory.hub.process import HubProcess
from kingly_memory.hub.traffic import METHOD, Failure, Traffic
from tests.cli_runner import Run
from tests.hub.stub import StubEngine, in_process

TOKEN = "t0ken-of-the-test"


@pytest.mark.requirement("N24")
async def test_metrics_count_calls_by_method_and_status_and_repeat_nothing_that_a_caller_made_up() -> None:
    async with in_process(lambda: {"success": True}) as web:
        for method in ("list_changes", "list_changes", 'se"cret'):
            await web.post("/mcp/call", json={"method": method, "params": {}})
        await web.get("/se-cret")
        reply = await web.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.text.splitlines()
    assert 'kingly_hub_requests_total{method="list_changes",status="200"} 2' in lines
    assert 'kingly_hub_requests_total{method="other",status="404"} 2' in lines
    assert 'kingly_hub_sent_bytes_total{method="list_changes"} 32' in lines
    assert "kingly_hub_requests_in_progress 1" in lines
    assert "cret" not in reply.text


@pytest.mark.requirement("N24")
async def test_metrics_need_the_token_of_a_hub_that_has_one() -> None:
    async with in_process(dict, Gate(lambda: Access.of(TOKEN, None))) as web:
        assert (await web.get("/metrics")).status_code == 401
        assert (await web.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200


@pytest.mark.requirement("N24")
async def test_a_hub_is_ready_while_its_store_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(engine: Engine) -> None:
        raise StoreUnwritable("/secret", "error")

    async with in_process(dict) as web:
        monkeypatch.setattr(StubEngine, "check_store", lambda engine: None)
        assert (await web.get("/ready")).json() == {"status": "ready"}
        assert (await web.get("/ready", headers={"Host": "evil.example"})).status_code == 421
        monkeypatch.setattr(StubEngine, "check_store", broken)
        reply = await web.get("/ready")
    assert reply.status_code == 503
    assert "cannot be used at the moment; try again" in reply.json()["error"]
    assert "secret" not in reply.text


@pytest.mark.requirement("N24")
def test_status_says_how_a_hub_is_and_what_it_has_answered(run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    with HubProcess(tmp_path / "hub", token=TOKEN) as hub:
        for content in ("tea", ""):
            said = {"method": "store_memory", "params": {"content": content}}
            httpx.post(f"{hub.url}/mcp/call", json=said, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
        told = run("hub", "status", "--url", hub.url, "--token-file", str(token))
        assert "kingly-hub" in told.out
        assert ", ready" in told.out
        [line] = [one for one in told.out.splitlines() if one.startswith("store_memory")]
        assert line.split()[:3] == ["store_memory", "2", "1"]
        assert run("hub", "status", "--url", hub.url).out.endswith("told only with --token-file\n")
        token.write_text("another token of 16")
        told = run("hub", "status", "--url", hub.url, "--token-file", str(token))
        assert told.out.endswith(f"; the token in {token} was not accepted\n")
    gone = run("hub", "status", "--url", hub.url)
    assert (gone.code != 0, "no hub answers at" in gone.err) == (True, True)
    secretive = run("hub", "status", "--url", hub.url.replace("//", "//ana:secret1234@"))
    assert f"no hub answers at {hub.url} (Connection refused);" in secretive.err
    assert run("hub", "status", "--url", "localhost:8000").code == 2


@pytest.mark.requirement("N24")
async def test_failures_are_told_for_an_hour_by_method_status_and_whose_they_were() -> None:
    now_s = 0.0

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/mcp/call":
            scope[CALLER] = Caller(Grant("ada"))
            scope[METHOD]["name"] = "list_changes"
        await send({"type": "http.response.start", "status": 403 if scope["path"] == "/mcp/call" else 200})

    traffic = Traffic("kingly_hub", {"list_changes"}, monotonic=lambda: now_s)
    counted = traffic.counting(answer)

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        """To nobody."""

    for minute, path in ((0, "/mcp/call"), (59, "/mcp/call"), (59, "/health"), (59, "/page/machines")):
        now_s = minute * 60.0
        await counted({"type": "http", "path": path}, receive, send)
    now_s = 59 * 60.0 + 59
    refused = Failure("list_changes", 403, "default", "ada")
    assert traffic.failures() == {refused: (2, 0)}
    now_s = 70 * 60.0
    assert traffic.failures() == {refused: (1, 11)}
    now_s = 119 * 60.0
    assert traffic.failures() == {}
    assert [(one.method, one.calls, one.refused) for one in traffic.loads()] == [
        ("list_changes", 2, 2),
        ("health", 1, 0),
        ("page", 1, 0),
    ]
