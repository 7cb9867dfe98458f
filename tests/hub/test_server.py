"""The hub over HTTP: who is let in, what is refused, and what survives a kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from kingly_memory.errors import InvalidSetting, StoreBusy
from kingly_memory.hub.access import Access, is_loopback
from kingly_memory.hub.bodies import BODY_LIMIT_BYTES
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.methods import Request
from kingly_memory.hub.process import HubDidNotStart, HubProcess
from kingly_memory.hub.serve import default_home, run_hub
from kingly_memory.hub.server import application
from kingly_memory.models import JsonObject

ADA = {"Authorization": "Bearer ada-token"}
BOB = {"Authorization": "bearer bob-token"}


def client(hub: HubProcess) -> httpx.Client:
    return httpx.Client(base_url=hub.url, trust_env=False)


def call(web: httpx.Client, method: str, headers: dict[str, str] | None = None, **params: object) -> JsonObject:
    reply = web.post("/mcp/call", json={"method": method, "params": params}, headers=headers)
    assert reply.status_code == 200, reply.text
    answer: JsonObject = reply.json()
    return answer


def find(web: httpx.Client, query: str, headers: dict[str, str] | None = None) -> list[str]:
    while (reply := call(web, "search_semantic_memories", headers, query=query)).get("partial"):
        """A loaded machine may take a moment to load what it knows."""
    return [memory["content"] for memory in reply["memories"]]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A hub without tokens."""
    with HubProcess(tmp_path_factory.mktemp("hub") / "home") as hub, client(hub) as web:
        yield web


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A hub with one token for each of two namespaces."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens.json"
    tokens.touch(mode=0o600)
    tokens.write_text(json.dumps({"ada-token": "ada", "bob-token": "bob"}))
    with HubProcess(folder / "home", tokens_file=tokens) as hub, client(hub) as web:
        yield web


class StubEngine(Engine):
    """Answers every request with one function."""

    def __init__(self, answer: Callable[[], JsonObject]) -> None:
        self._stub = answer

    def answer(self, scope: str, request: Request) -> JsonObject:
        return self._stub()


def in_process(answer: Callable[[], JsonObject]) -> httpx.AsyncClient:
    hub = application(StubEngine(answer), Access({}), "1")
    return httpx.AsyncClient(transport=httpx.ASGITransport(hub), base_url="http://localhost")


def raising(error: Exception) -> Callable[[], JsonObject]:
    def fail() -> JsonObject:
        raise error

    return fail


# --- talking ----------------------------------------------------------------------------------------------------------


def test_health_says_who_is_there(web: httpx.Client) -> None:
    reply = web.get("/health")
    assert (reply.status_code, reply.json()["status"], reply.json()["server"]) == (200, "ok", "kingly-hub")


def test_a_search_finds_other_forms_of_the_words_that_were_stored(web: httpx.Client) -> None:
    for text in ("lunch was a cheese sandwich", "rolled back the deploys", "the cellist plays tonight"):
        call(web, "store_memory", {"Kingly-Project": "forms"}, content=text)
    assert find(web, "deployment rollback", {"Kingly-Project": "forms"})[0] == "rolled back the deploys"


def test_projects_are_kept_apart_by_the_header(web: httpx.Client) -> None:
    names = ["café/ünï", "café", "100%", "default"]
    for name in names:
        call(web, "store_memory", {"Kingly-Project": quote(name, safe="")}, content=f"tea in {name}")
    assert [find(web, "tea", {"Kingly-Project": quote(name, safe="")}) for name in names] == [
        [f"tea in {name}"] for name in names
    ]
    assert find(web, "tea") == ["tea in default"]


def test_the_loop_stays_free_while_the_engine_works() -> None:
    working, release = threading.Event(), threading.Event()

    def work() -> JsonObject:
        working.set()
        release.wait()
        return {"done": True}

    async def story() -> tuple[int, JsonObject]:
        async with in_process(work) as web:
            slow = asyncio.create_task(web.post("/mcp/call", json={"method": "initialize_memory_system"}))
            await asyncio.to_thread(working.wait)
            health = await web.get("/health")
            release.set()
            return health.status_code, (await slow).json()

    assert asyncio.run(story()) == (200, {"done": True})


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
        (b'{"method": "update_memory", "params": {"memory_id": "x", "content": "y"}}', 404, "nothing is stored"),
    ],
)
def test_a_bad_call_is_refused_with_the_reason(web: httpx.Client, body: bytes, status: int, error: str) -> None:
    reply = web.post("/mcp/call", content=body)
    answer = reply.json()
    assert (reply.status_code, answer["success"]) == (status, False)
    assert error in answer["error"]
    assert status != 422 or answer["field"] == error


def test_an_unknown_method_has_the_words_that_clients_know(web: httpx.Client) -> None:
    reply = web.post("/mcp/call", json={"method": "divine"})
    assert reply.json() == {"success": False, "error": "Unknown method: divine"}


@pytest.mark.parametrize(("verb", "path", "status"), [("GET", "/mcp/call", 405), ("POST", "/", 404)])
def test_other_places_say_where_to_go(web: httpx.Client, verb: str, path: str, status: int) -> None:
    reply = web.request(verb, path)
    assert reply.status_code == status
    assert "/mcp/call" in reply.json()["error"]


def test_a_body_at_the_limit_is_read_and_one_beyond_it_is_not(web: httpx.Client) -> None:
    frame = b'{"method": "store_memory", "params": {"content": "%s"}}'
    room = BODY_LIMIT_BYTES - len(frame) + 2
    headers = {"Kingly-Project": "big"}
    assert web.post("/mcp/call", content=frame % (b"x" * room), headers=headers).status_code == 422
    assert web.post("/mcp/call", content=frame % (b"x" * (room + 1)), headers=headers).status_code == 413
    chunks = (b"x" * 65_536 for _ in range(140))
    assert web.post("/mcp/call", content=chunks, headers=headers).status_code == 413


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.0.2.1", "", "localhost@evil.example"])
def test_a_foreign_host_name_is_refused_without_a_token(web: httpx.Client, host: str) -> None:
    assert web.get("/health", headers={"Host": host}).status_code == 421
    assert web.post("/mcp/call", headers={"Host": host}, json={"method": "initialize_memory_system"}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.8.8.8:80", "[::1]:8000"])
def test_loopback_names_are_let_in(web: httpx.Client, host: str) -> None:
    assert web.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example", 403), ("null", 403), ("http://localhost.evil.example", 403), ("http://localhost:3", 200)],
)
def test_a_foreign_web_page_is_refused_without_a_token(web: httpx.Client, origin: str, status: int) -> None:
    reply = web.post("/mcp/call", headers={"Origin": origin}, json={"method": "initialize_memory_system"})
    assert reply.status_code == status


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("canary at /secret/path"), 500), (StoreBusy(5.0), 503), (KeyError("canary"), 500)],
)
async def test_inner_trouble_shows_no_detail(error: Exception, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with in_process(raising(error)) as web:
        reply = await web.post("/mcp/call", json={"method": "store_memory", "params": {"content": "canary"}})
    assert (reply.status_code, reply.json()["success"]) == (status, False)
    assert "canary" not in reply.text + caplog.text
    assert type(error).__name__ in caplog.text


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "authorization", [None, "Bearer wrong", "Bearer", "Basic ada-token", "ada-token", "Bearer ada-token2", "Bearer é"]
)
def test_without_a_right_token_nothing_is_answered(guarded: httpx.Client, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    reply = guarded.post("/mcp/call", headers=headers, json={"method": "initialize_memory_system"})
    assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_health_needs_no_token(guarded: httpx.Client) -> None:
    assert guarded.get("/health", headers={"Host": "hub.example"}).status_code == 200


def test_namespaces_are_kept_apart_by_the_token(guarded: httpx.Client) -> None:
    mine = call(guarded, "store_memory", ADA, content="tea for Ada", idempotency_key="k")
    theirs = call(guarded, "store_memory", BOB, content="tea for Bob", idempotency_key="k")
    assert (mine["idempotency_hit"], theirs["idempotency_hit"]) == (False, False)
    assert (find(guarded, "tea", ADA), find(guarded, "tea", BOB)) == (["tea for Ada"], ["tea for Bob"])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "hub.example", ""])  # noqa: S104  # refused
def test_a_hub_without_a_token_stays_on_this_machine(host: str) -> None:
    with pytest.raises(InvalidSetting, match="KINGLY_HUB_TOKEN"):
        run_hub(host=host, port=0)
    Access.of("secret", None).check_bind(host)


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert [host for host in ("localhost", "127.0.0.1", "::1", "127.1.1.1") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example") if is_loopback(host)] == []  # noqa: S104


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"canary": 5}', '{"canary": ""}', '{"": "x"}', '{"can ary": "x"}'])
def test_a_tokens_file_that_makes_no_sense_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.touch(mode=0o600)
    tokens.write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        Access.of(None, tokens)
    assert "canary" not in str(refused.value).replace(str(tokens), "")


def test_a_missing_tokens_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"gone\.json"):
        Access.of(None, tmp_path / "gone.json")


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Access.of("secret", None))


# --- living and dying -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-010")
def test_acknowledged_memories_survive_a_kill_and_a_stop_on_the_same_port(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path / "home", token="s3cret")
    headers = {"Authorization": "Bearer s3cret"}
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
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
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
    assert default_home() == tmp_path / "user" / "data" / "kingly" / "hub"
