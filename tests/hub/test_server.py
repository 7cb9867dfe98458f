"""The hub over HTTP: who is let in, what is refused, and what survives a kill."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import anyio
import httpx
import pytest

from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidSetting
from kingly_memory.home.place import hub_home
from kingly_memory.hub.access import Caller
from kingly_memory.hub.engine import Engine, answered
from kingly_memory.hub.grants import Grant
from kingly_memory.hub.process import HubDidNotStart, HubProcess
from kingly_memory.hub.serve import run_hub
from kingly_memory.models import JsonObject
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run
from tests.hub.stub import in_process


def client(hub: HubProcess) -> httpx.Client:
    return httpx.Client(base_url=hub.url, trust_env=False, timeout=60)


def call(web: httpx.Client, method: str, headers: dict[str, str] | None = None, **params: object) -> JsonObject:
    reply = web.post("/mcp/call", json={"method": method, "params": params}, headers=headers)
    assert reply.status_code == 200, reply.text
    answer: JsonObject = reply.json()
    return answer


def find(web: httpx.Client, query: str, headers: dict[str, str] | None = None) -> list[str]:
    while (reply := call(web, "search_semantic_memories", headers, query=query)).get("partial"):
        """A loaded machine may have had no time for all of it."""
    return [memory["content"] for memory in reply["memories"]]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A hub without tokens."""
    with HubProcess(tmp_path_factory.mktemp("hub") / "home") as hub, client(hub) as web:
        yield web


async def test_stores_that_wait_for_their_commit_keep_nobody_who_searches_waiting(tmp_path: Path) -> None:
    """There are more of them than worker threads."""
    may_commit, store = threading.Event(), DiskStore(tmp_path, durability="process")
    with contextlib.closing(store):
        store.write(lambda _: may_commit.wait())
        async with in_process(Engine(store, ManualClock(), "1")) as web, asyncio.TaskGroup() as calls:
            bodies = ({"method": "store_memory", "params": {"content": f"tea {number}"}} for number in range(50))
            stores = [calls.create_task(web.post("/mcp/call", json=body)) for body in bodies]
            search = {"method": "search_semantic_memories", "params": {"query": "tea"}}
            try:
                async with asyncio.timeout(30):
                    while "in_progress 51" not in (await web.get("/metrics")).text:  # noqa: ASYNC110
                        await asyncio.sleep(0)  # until all have begun, of which nothing else tells
                    assert (await web.post("/mcp/call", json=search)).json()["memories"] == []
                assert not any(one.done() for one in stores)
            finally:
                may_commit.set()
        assert {one.result().status_code for one in stores} == {200}


@pytest.mark.parametrize("length", [10, 70_000])
async def test_what_takes_long_to_make_ready_is_left_to_a_thread(length: int) -> None:
    threads, params = list[threading.Thread](), {"content": "tea", "metadata": {"said": "x" * length}}

    def answer() -> JsonObject:
        threads.append(threading.current_thread())
        return {}

    async with in_process(answer) as web:
        await web.post("/mcp/call", json={"method": "store_memory", "params": params})
        tool = {"name": "store_memory", "arguments": params}
        await web.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool})
    assert [one is threading.main_thread() for one in threads] == [length == 10] * 2


async def test_what_is_stored_for_a_caller_who_hangs_up_is_in_the_audit(tmp_path: Path) -> None:
    may_commit, store = threading.Event(), DiskStore(tmp_path / "home", durability="process")
    engine = Engine(store, ManualClock(), "1", AuditFiles(tmp_path / "audit"))
    caller, params = Caller(Grant("ada"), "app"), {"content": "tea"}
    with contextlib.closing(store):
        store.write(lambda _: may_commit.wait())
        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(answered, engine, caller, "store_memory", params, size=0, worded=dict))
            await asyncio.sleep(0)
            calls.cancel_scope.cancel()
            may_commit.set()
    assert "StoreMemory" in (tmp_path / "audit" / "changes.jsonl").read_text()


# --- talking ----------------------------------------------------------------------------------------------------------


def test_health_says_who_is_there(web: httpx.Client) -> None:
    reply = web.get("/health")
    assert (reply.status_code, reply.json()["status"], reply.json()["server"]) == (200, "ok", "kingly-hub")


def test_a_page_that_calls_the_hub_by_a_name_of_its_own_learns_nothing(web: httpx.Client) -> None:
    for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)):
        assert web.get("/health", headers=headers).status_code == status
        call = web.post("/mcp/call", headers=headers, json={"method": "initialize_memory_system"})
        assert call.status_code == status


def test_a_search_finds_other_forms_of_the_words_that_were_stored(web: httpx.Client) -> None:
    for text in ("lunch was a cheese sandwich", "rolled back the deploys", "the cellist plays tonight"):
        call(web, "store_memory", {"Kingly-Project": "forms"}, content=text)
    assert find(web, "when was it deployed", {"Kingly-Project": "forms"}) == ["rolled back the deploys"]


def test_projects_are_kept_apart_by_the_header(web: httpx.Client) -> None:
    names = ["café/ünï", "café", "100%", "default"]
    for name in names:
        call(web, "store_memory", {"Kingly-Project": quote(name, safe="")}, content=f"tea in {name}")
    assert [find(web, "tea", {"Kingly-Project": quote(name, safe="")}) for name in names] == [
        [f"tea in {name}"] for name in names
    ]
    assert find(web, "tea") == ["tea in default"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "JSON"),
        (b"\xff", 400, "JSON"),
        (b"", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b'{"method": NaN}', 400, "JSON"),
        (b"[]", 422, "body"),
        (b"{}", 422, "method"),
        (b'{"method": "store_memory", "params": 5}', 422, "params"),
        (b'{"method": "store_memory", "params": {"content": 5}}', 422, "content"),
        (b'{"method": "divine", "params": {}}', 404, "Unknown method: divine"),
        (b'{"method": "\\ud800", "params": {}}', 404, "Unknown method"),
        (b'{"method": "search_memories"}', 404, "search_memories; did you mean 'search_semantic_memories'?"),
        (b'{"method": "update_memory", "params": {"memory_id": "x", "content": "y"}}', 404, "nothing is stored"),
    ],
)
def test_a_bad_call_is_refused_with_the_reason(web: httpx.Client, body: bytes, status: int, error: str) -> None:
    reply = web.post("/mcp/call", content=body)
    answer = reply.json()
    assert (reply.status_code, answer["success"]) == (status, False)
    assert error in answer["error"]
    assert status != 422 or answer["field"] == error


@pytest.mark.parametrize(("verb", "path", "status"), [("GET", "/mcp/call", 405), ("POST", "/", 404)])
def test_other_places_say_where_to_go(web: httpx.Client, verb: str, path: str, status: int) -> None:
    reply = web.request(verb, path)
    assert reply.status_code == status
    assert "/mcp/call" in reply.json()["error"]


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A19")
def test_a_hub_that_runs_goes_by_the_token_that_replaced_another_in_the_file(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.touch(mode=0o600)
    tokens.write_text('{"the-first-token-of-ada": "ada"}')
    first, second = ({"Authorization": f"Bearer the-{which}-token-of-ada"} for which in ("first", "second"))
    with HubProcess(tmp_path / "home", options=("--tokens-file", str(tokens))) as hub, client(hub) as web:
        call(web, "store_memory", first, content="tea of ada")
        tokens.write_text('{"the-second-token-of-ada": "ada"}')
        assert web.post("/mcp/call", json={}, headers=first).status_code == 401
        assert find(web, "tea", second) == ["tea of ada"]


@pytest.mark.requirement("N7")
def test_the_command_says_how_many_memories_came_from_other_machines(tmp_path: Path, run: Run) -> None:
    laptop, desktop = (("--home", str(tmp_path / name), "--project", "app") for name in ("laptop", "desktop"))
    with HubProcess(tmp_path / "hub") as hub:
        for home in (laptop, desktop):
            assert run("remotes", "add", "home", hub.url, *home).code == 0
        run("store", "The port is 1", *laptop)
        assert "received" not in run("sync", *laptop).out
        lines = run("sync", *desktop).out.splitlines()
        assert lines == ["0 memories delivered, 0 waiting, 0 dead", "1 change received from other machines"]


# --- living and dying -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("N7")
def test_status_says_what_of_other_machines_was_left_out_and_how_to_have_it_read_again(
    tmp_path: Path, run: Run
) -> None:
    options = ("--home", str(tmp_path / "a"), "--project", "app")
    with HubProcess(tmp_path / "hub") as hub:
        call = {"method": "store_memory", "params": {"content": "x" * 1_100_000}}
        httpx.post(f"{hub.url}/mcp/call", json=call, headers={"Kingly-Project": "app"}, trust_env=False, timeout=60)
        run("remotes", "add", "home", hub.url, *options)
        run("sync", *options)
        told = run("status", *options).out
    assert "left out     1 change of other machines cannot be read here, or no reply has room for it; with a" in told


@pytest.mark.requirement("UNI-010")
def test_acknowledged_memories_survive_a_kill_and_a_stop_on_the_same_port(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path / "home", token="s3cret-of-the-hub")
    headers = {"Authorization": "Bearer s3cret-of-the-hub"}
    with hub:
        address = hub.url
        with client(hub) as web:
            call(web, "store_memory", headers, content="kept through a kill", idempotency_key="k1")
        hub.kill()
        assert not hub.running
        hub.start()
        assert hub.url == address
        with client(hub) as web:
            call(web, "store_memory", headers, content="kept through a stop", idempotency_key="k2")
            assert call(web, "store_memory", headers, content="x", idempotency_key="k1")["idempotency_hit"] is True
        assert hub.stop() == 0
        hub.start()
        with client(hub) as web:
            assert find(web, "kept through a stop", headers) == ["kept through a stop", "kept through a kill"]


def test_a_home_has_one_hub_and_a_port_one_listener(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        with pytest.raises(InvalidSetting, match="another hub"):
            run_hub(tmp_path / "home", port=0)
        with pytest.raises(InvalidSetting, match=str(hub.port)):
            run_hub(tmp_path / "other", port=hub.port)


STARTER = """
import sys
from pathlib import Path
from kingly_memory.hub.process import HubProcess

hub = HubProcess(Path(sys.argv[1]))
hub.start()
print(hub.port, flush=True)
sys.stdin.read()
"""


def test_a_hub_ends_with_whoever_started_it_even_by_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "home")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            starter.kill()
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""  # the hub hangs up: it is about to end


def test_a_hub_that_cannot_start_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        hub = HubProcess(tmp_path / "home", port=taken.getsockname()[1])
        with pytest.raises(HubDidNotStart, match="cannot be listened on"):
            hub.start()
    assert not hub.running


def test_the_hub_lives_with_the_user_unless_told_otherwise(tmp_path: Path) -> None:
    assert hub_home() == tmp_path / "user" / "data" / "kingly" / "hub"
