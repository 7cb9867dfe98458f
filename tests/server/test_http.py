"""The server over Streamable HTTP: who is let in, what is refused, and what a client does there."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kingly_memory.server.web import TOKEN_FILE, own_token
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
        with httpx.Client(trust_env=False, timeout=60) as web:
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
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http,
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


@pytest.mark.requirement("A19")
def test_a_home_that_was_moved_away_is_not_made_again_by_a_call(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served(home) as web:
        bearer = f"Bearer {own_token(home)[0]}"
        home.rename(tmp_path / "elsewhere")
        assert web.post(call("list", "{}"), Authorization="Bearer x").status_code == 401
        assert not home.exists()
        (tmp_path / "elsewhere").rename(home)
        assert web.post(call("list", "{}"), Authorization=bearer).status_code == 200


def test_a_home_that_gets_a_token_first_is_kept_out_of_git(tmp_path: Path) -> None:
    own_token(tmp_path / "home")
    assert (tmp_path / "home" / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == [".gitignore", TOKEN_FILE, "store"]


def test_nobodys_context_is_given_to_anybody_over_http(web: Served) -> None:
    result = web.post(call("memory_get_working_context", "{}")).json()["result"]
    assert (result["isError"], "name the context" in result["content"][0]["text"]) == (True, True)


async def test_metrics_count_calls_by_tool_and_say_what_the_memory_holds(tmp_path: Path) -> None:
    def metrics(web: Served, **headers: str) -> httpx.Response:
        with httpx.Client(trust_env=False, timeout=60) as asking:
            return asking.get(web.url.replace("/mcp", "/metrics"), headers=headers)

    with served(tmp_path / "home", KINGLY_MCP_TOKEN=TOKEN) as web:
        assert metrics(web).status_code == 401
        web.post(call("memory_intelligent_store", '{"content":"The harbour opens at six"}'))
        web.post(call("made_up_by_the_caller", "{}"))
        told = metrics(web, **BEARER).text
    assert 'kingly_mcp_requests_total{method="memory_intelligent_store",status="200"} 1' in told
    assert "made_up" not in told
    assert "harbour" not in told
    assert "kingly_mcp_memories 1\n" in told
    assert "kingly_mcp_outbox 0\n" in told
