"""The server over Streamable HTTP: who is let in, what is refused, and what a client does there."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from kingly_memory.errors import InvalidSetting
from kingly_memory.server.gate import TOKEN_FILE, Gate, check_bind, own_token, token_in
from tests.cli_runner import environment
from tests.mcp_sessions import ERAS, Session

TOKEN = "t0ken-of-the-test"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True, slots=True)
class Served:
    """A server on a port, and the process that it is."""

    url: str
    home: Path
    process: subprocess.Popen[str]

    def post(self, body: bytes | str, **headers: str) -> httpx.Response:
        with httpx.Client(trust_env=False) as web:
            return web.post(self.url, content=body, headers={**ACCEPT, **BEARER, **headers})


@contextmanager
def served(home: Path, *options: str, **changes: str) -> Iterator[Served]:
    asked = ["mcp", "--http", "--port", "0", "--tools", "all", "--home", str(home), *options]
    command = [sys.executable, "-m", "kingly_memory", *asked]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(environment(**changes))
    ) as process:
        try:
            assert process.stdout is not None
            yield Served(process.stdout.readline().rpartition(" ")[2].strip(), home, process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http") / "home", KINGLY_MCP_TOKEN=TOKEN) as web:
        yield web


@asynccontextmanager
async def connected(url: str, mode: str, token: str = TOKEN) -> AsyncIterator[Session]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Session(client)


def call(tool: str, arguments: str, asked: str = "1") -> str:
    parameters = f'{{"name":"{tool}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{asked},"method":"tools/call","params":{parameters}}}'


# --- talking --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-073")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_stores_searches_and_reads_over_http(web: Served, mode: str) -> None:
    async with connected(web.url, mode) as client:
        assert {tool.name for tool in (await client.client.list_tools()).tools} >= {"memory_hybrid_search", "recall"}
        text = f"The harbour opens at six ({mode})"
        await client.ok("memory_intelligent_store", key=f"h-{mode}", content=text, context_id=f"c-{mode}")
        found = await client.ok("memory_hybrid_search", query="harbour", context_id=f"c-{mode}")
        assert [hit["content"] for hit in found["results"]] == [text]
        assert (await client.ok("memory_get_working_context", context_id=f"c-{mode}"))["memory_count"] == 1
        assert (await client.error("memory_get", key_or_id="nobody")).startswith("key_or_id: nothing is stored")
        status = await client.client.read_resource("kingly://status")
        assert status.contents[0].uri == "kingly://status"


@pytest.mark.requirement("N12")
@pytest.mark.parametrize("mode", ERAS)
async def test_tools_and_prompts_that_are_not_there_are_protocol_errors_over_http(web: Served, mode: str) -> None:
    async with connected(web.url, mode) as client:
        for asking in (client.client.call_tool("divine", {}), client.client.get_prompt("divine")):
            with pytest.raises(MCPError) as unknown:
                await asking
            assert unknown.value.code == INVALID_PARAMS


@pytest.mark.parametrize("mode", ERAS)
async def test_a_mebibyte_of_emoji_comes_back_over_http(web: Served, mode: str) -> None:
    text = "\N{PILE OF POO}" * 262_144
    async with connected(web.url, mode) as client:
        await client.ok("memory_intelligent_store", key="emoji", content=text)
        assert (await client.ok("memory_get", key_or_id="emoji"))["memory"]["content"] == text


@pytest.mark.parametrize("sent", [r"a\ud800b", r"a\uD800b", r"\ud83d\ude00\udc00", r"a\u0000b"])
def test_hostile_text_in_an_argument_is_stored_and_the_next_call_answered(web: Served, sent: str) -> None:
    reply = web.post(call("memory_intelligent_store", f'{{"key":"x","content":"x{sent}"}}'))
    assert (reply.status_code, reply.json()["result"]["isError"]) == (200, False)
    kept = json.loads(f'"x{sent}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    got = web.post(call("memory_get", '{"key_or_id":"x"}')).json()["result"]["structuredContent"]["memory"]
    assert got["content"] == kept


async def test_a_server_that_was_started_again_goes_on_with_its_clients(tmp_path: Path) -> None:
    with served(tmp_path / "home", KINGLY_MCP_TOKEN=TOKEN) as first:
        port = first.url.rsplit(":", 1)[1].split("/")[0]
        async with connected(first.url, "legacy") as client:
            await client.ok("remember", key="k", value="v")
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(timeout=30) == 0
            with served(tmp_path / "home", "--port", port, KINGLY_MCP_TOKEN=TOKEN):
                assert (await client.ok("recall", key="k"))["value"] == "v"


# --- who is let in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "evil.example", "Authorization": "Bearer wrong"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": ""}, 401),
        ({"Origin": "http://localhost:6274"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:8001"}, 200),
        ({"Host": "localhost."}, 200),
        ({"Host": "127.0.0.2:8001"}, 200),
        ({"Origin": "http://LocalHost.:6274"}, 200),
    ],
)
def test_names_pages_and_tokens_are_checked_before_anything_is_read(
    web: Served, headers: dict[str, str], status: int
) -> None:
    reply = web.post(call("list", "{}"), **headers)
    assert reply.status_code == status
    assert TOKEN not in reply.text
    assert ("WWW-Authenticate" in reply.headers) == (status == 401)
    if status != 200:
        assert reply.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_no_method_gets_past_the_door_without_the_token(web: Served, method: str) -> None:
    assert httpx.request(method, web.url, headers=ACCEPT, trust_env=False).status_code == 401
    assert httpx.request(method, web.url.replace("/mcp", "/other"), headers=ACCEPT, trust_env=False).status_code == 401


def test_a_body_that_is_too_long_or_no_json_is_refused_and_the_next_one_read(web: Served) -> None:
    assert web.post(b"x" * 9_000_000).status_code == 413
    assert web.post(b"{").status_code == 400
    assert web.post(b"[" * 100_000).status_code == 400
    assert web.post(b"\xff").status_code == 400
    assert web.post(call("list", "{}")).status_code == 200


def test_a_server_makes_a_token_says_where_it_is_and_keeps_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served(home) as web:
        token = (home / TOKEN_FILE).read_text().strip()
        assert stat.S_IMODE((home / TOKEN_FILE).stat().st_mode) == 0o600
        assert web.post(call("list", "{}"), Authorization=f"Bearer {token}").status_code == 200
        assert web.post(call("list", "{}"), Authorization="Bearer x").status_code == 401
        web.process.send_signal(signal.SIGINT)
        said = web.process.communicate(timeout=30)
        assert f"callers need the bearer token in {home / TOKEN_FILE}" in said[1]
        assert token not in said[0] + said[1]
    assert own_token(home)[0] == token


def test_a_home_that_gets_a_token_first_is_kept_out_of_git(tmp_path: Path) -> None:
    own_token(tmp_path / "home")
    assert (tmp_path / "home" / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == [".gitignore", TOKEN_FILE, "store"]


def test_the_token_of_a_file_counts_and_not_that_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n")
    file.chmod(0o600)
    with served(tmp_path / "home", "--mcp-token-file", str(file), KINGLY_MCP_TOKEN=TOKEN) as web:
        assert web.post(call("list", "{}")).status_code == 401
        assert web.post(call("list", "{}"), Authorization="Bearer from-the-file").status_code == 200
    assert not (tmp_path / "home" / TOKEN_FILE).exists()


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda file: None, "cannot be read"),
        (lambda file: file.write_text(""), "is empty"),
        (lambda file: file.write_bytes(b"\xff"), "is not text"),
        (lambda file: (file.write_text("canary"), file.chmod(0o640)), "other users may read"),
    ],
)
def test_a_token_file_that_cannot_serve_is_refused_without_showing_it(tmp_path: Path, write: Any, problem: str) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    if write(file) is None and problem == "cannot be read":
        file.unlink()
    with pytest.raises(InvalidSetting, match=problem) as refused:
        token_in(file)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "two words", "tök", "a\n"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    with pytest.raises(InvalidSetting, match="visible ASCII"):
        Gate.of(token)


def test_the_gate_does_not_show_its_token() -> None:
    assert "secret" not in repr(Gate.of("secret"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "memory.example", ""])  # noqa: S104  # refused
def test_other_machines_need_a_token_that_was_given_and_a_name(host: str) -> None:
    with pytest.raises(InvalidSetting, match="no token is given"):
        check_bind(host, token_given=False, hosts=["memory.example"])
    with pytest.raises(InvalidSetting, match="no --allow-host"):
        check_bind(host, token_given=True, hosts=[])
    check_bind(host, token_given=True, hosts=["memory.example"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_alone_needs_neither(host: str) -> None:
    check_bind(host, token_given=False, hosts=[])


def test_a_named_host_is_let_in_and_no_other() -> None:
    gate = Gate.of(TOKEN, ["Memory.example"])
    bearer = {"authorization": f"bearer {TOKEN}"}
    assert gate.refusal({"host": "memory.EXAMPLE:8001", "origin": "https://memory.example", **bearer}) is None
    assert gate.refusal({"host": "127.0.0.1:8001", **bearer}) is None
    assert [gate.refusal({"host": host, **bearer}) is not None for host in ("example", "x.memory.example", "[::")] == [
        True, True, True,
    ]  # fmt: skip
    with pytest.raises(InvalidSetting, match="allow_host"):
        Gate.of(TOKEN, ["https://memory.example"])


@pytest.mark.parametrize("host", ["MyBox", "mybox.", "MYBOX:80", "[fd00:0::1]:80"])
def test_a_name_is_the_same_however_it_is_written(host: str) -> None:
    gate = Gate.of(TOKEN, ["MyBox", "FD00::1"])
    assert gate.refusal({"host": host, "origin": f"http://{host}", "authorization": f"Bearer {TOKEN}"}) is None


def test_a_dot_alone_is_no_name() -> None:
    with pytest.raises(InvalidSetting, match="allow_host"):
        Gate.of(TOKEN, ["."])


def test_a_server_on_another_address_of_this_machine_answers(tmp_path: Path) -> None:
    with served(tmp_path / "home", "--host", "127.0.0.2", KINGLY_MCP_TOKEN=TOKEN) as web:
        assert "//127.0.0.2:" in web.url
        assert web.post(call("list", "{}")).status_code == 200


def test_a_request_whose_id_makes_no_sense_is_refused(web: Served) -> None:
    for asked in ("1.5", "null", "true"):
        reply = web.post(call("list", "{}", asked))
        assert (reply.status_code, reply.json()["error"]["code"], reply.json()["id"]) == (400, -32600, None)


def test_nobodys_context_is_given_to_anybody_over_http(web: Served) -> None:
    result = web.post(call("memory_get_working_context", "{}")).json()["result"]
    assert (result["isError"], "name the context" in result["content"][0]["text"]) == (True, True)


def test_a_client_that_would_listen_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with served(tmp_path / "home", KINGLY_MCP_TOKEN=TOKEN) as web:
        reply = httpx.get(web.url, headers={**ACCEPT, **BEARER}, trust_env=False)
        assert (reply.status_code, reply.headers["Allow"]) == (405, "POST")
        web.process.send_signal(signal.SIGTERM)
        assert web.process.communicate(timeout=30)[1] == ""


def test_a_named_host_is_answered_by_the_server(tmp_path: Path) -> None:
    with served(tmp_path / "home", "--allow-host", "Memory.example", KINGLY_MCP_TOKEN=TOKEN) as web:
        assert web.post(call("list", "{}"), Host="memory.example:8001").status_code == 200
        assert web.post(call("list", "{}"), Host="MEMORY.example.").status_code == 200
        assert web.post(call("list", "{}"), Host="other.example").status_code == 421
