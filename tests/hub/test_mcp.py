"""The hub over MCP: the same tools and gate as json-call, in the protocols of 2025 and of 2026."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import httpx2
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_PARAMS
from starlette.types import ASGIApp

from kingly_memory import MemoryRouter
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.errors import RemoteRefused, RemoteUnauthorised, StoreBusy
from kingly_memory.hub import server
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.mcp_tools import LONGEST_TEXT, tools
from kingly_memory.hub.methods import METHODS
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import JsonObject
from kingly_memory.settings import Pace, Settings
from tests.hub.stub import in_process
from tests.mcp_sessions import ERAS, Session

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
ADA = {"Authorization": "Bearer the-token-of-ada"}
BOB = {"Authorization": "bearer the-token-of-bob"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub without tokens."""
    with HubProcess(tmp_path_factory.mktemp("hub") / "home") as hub:
        yield hub


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with one token for each of two namespaces."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens.json"
    tokens.touch(mode=0o600)
    tokens.write_text(json.dumps({"the-token-of-ada": "ada", "the-token-of-bob": "bob"}))
    with HubProcess(folder / "home", options=("--tokens-file", str(tokens))) as hub:
        yield hub


@asynccontextmanager
async def connected(hub: HubProcess, mode: str, project: str = "app", **headers: str) -> AsyncIterator[Session]:
    headers = {"Kingly-Project": quote(project, safe=""), **headers}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{hub.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield Session(client)


def json_call(
    hub: HubProcess, method: str, project: str = "app", token: str | None = None, **params: object
) -> JsonObject:
    """The other dialect."""
    with httpx.Client(trust_env=False, timeout=60) as web:
        headers = {"Kingly-Project": quote(project, safe=""), **({"Authorization": f"Bearer {token}"} if token else {})}
        reply = web.post(f"{hub.url}/mcp/call", json={"method": method, "params": params}, headers=headers)
    assert reply.status_code == 200, reply.text
    answer: JsonObject = reply.json()
    return answer


def post(hub: HubProcess, body: bytes | str | Iterator[bytes], verb: str = "POST", **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as web:
        return web.request(verb, f"{hub.url}/mcp", content=body, headers={**ACCEPT, **headers})


def call(tool: str, arguments: str) -> str:
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}'


async def found(host: Session, query: str, **more: object) -> list[str]:
    while (reply := await host.ok("search_semantic_memories", query=query, **more)).get("partial"):
        """A loaded machine may have had no time for all of it."""
    return [memory["content"] for memory in reply["memories"]]


# --- talking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_every_tool_answers(hub: HubProcess, mode: str) -> None:
    """`ok` compares the structured answer with the text."""
    async with connected(hub, mode, f"every-{mode}") as host:
        assert {tool.name for tool in (await host.client.list_tools()).tools} == METHODS.keys()
        assert (await host.ok("initialize_memory_system"))["server"] == "kingly-hub"
        facts = {"significance": 0.9, "context_id": "c"}
        first = await host.ok("store_memory", content="the harbour opens", memory_type="working", metadata=facts)
        thought = await host.ok("record_thought", content="boats come in then", thought_type="inference")
        ends = {"source_memory_id": first["memory_id"], "target_memory_id": thought["thought_id"]}
        link = await host.ok("create_memory_link", **ends, link_type="causal", strength=0.5)
        assert (link["link_type"], link["strength"]) == ("causal", 0.5)
        near = await host.ok("get_linked_memories", memory_ids=[first["memory_id"]])
        assert [memory["content"] for memory in near["memories"]] == ["boats come in then"]
        at_hand = await host.ok("get_working_memory", context_filter="c")
        assert [memory["metadata"] for memory in at_hand["memories"]] == [facts]
        updated = await host.ok("update_memory", memory_id=first["memory_id"], content="the harbour opens at six")
        assert updated["revision"] == 2
        assert await found(host, "harbour") == ["the harbour opens at six"]
        assert (await host.ok("forget_memory", memory_id=first["memory_id"]))["forgotten"] is True
        assert await found(host, "harbour") == []


@pytest.mark.parametrize("mode", ERAS)
async def test_what_one_dialect_stores_the_other_finds(hub: HubProcess, mode: str) -> None:
    project = f"both-{mode}"
    async with connected(hub, mode, project) as host:
        mine = await host.ok("store_memory", content="tea at noon", idempotency_key="a")
        theirs = json_call(hub, "store_memory", project, content="tea at four", idempotency_key="b")
        assert sorted(await found(host, "tea")) == ["tea at four", "tea at noon"]
        reply = json_call(hub, "search_semantic_memories", project, query="tea")
        assert {one["memory_id"] for one in reply["memories"]} == {mine["memory_id"], theirs["memory_id"]}
        again = json_call(hub, "store_memory", project, content="tea at noon", idempotency_key="a")
        assert again == {**mine, "idempotency_hit": True}
        known = await host.ok("store_memory", content="tea at four", idempotency_key="b")
        assert known == {**theirs, "idempotency_hit": True}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_project_is_named_by_the_header_or_by_an_argument(hub: HubProcess, mode: str) -> None:
    name = f"café/{mode}"
    async with connected(hub, mode, name) as by_header, connected(hub, mode, "elsewhere") as other:
        await by_header.ok("store_memory", content="scones")
        await other.ok("store_memory", content="more scones", project=name)
        assert sorted(await found(other, "scones", project=name)) == ["more scones", "scones"]
        assert sorted(await found(by_header, "scones")) == ["more scones", "scones"]
        assert await found(other, "scones") == []


def test_the_key_of_a_header_counts_where_the_arguments_hold_none(hub: HubProcess) -> None:
    headers = {"Idempotency-Key": quote("sáme"), "Kingly-Project": "keys"}
    replies = [post(hub, call("store_memory", f'{{"content":"{n}"}}'), **headers) for n in range(2)]
    told = [reply.json()["result"]["structuredContent"] for reply in replies]
    assert [one["idempotency_hit"] for one in told] == [False, True]
    assert told[0]["memory_id"] == told[1]["memory_id"]


async def test_concurrent_stores_with_one_key_have_one_effect_whatever_they_speak(hub: HubProcess) -> None:
    async def stored(n: int) -> JsonObject:
        if n % 3 == 2:
            return await asyncio.to_thread(
                json_call, hub, "store_memory", "once", content=f"try {n}", idempotency_key="k"
            )
        return await hosts[n % 3].ok("store_memory", content=f"try {n}", idempotency_key="k")

    async with connected(hub, ERAS[0], "once") as old, connected(hub, ERAS[1], "once") as new:
        hosts = (old, new)
        answers = await asyncio.gather(*map(stored, range(18)))
        assert len(await found(new, "try", threshold=-1.0)) == 1
    assert len({answer["memory_id"] for answer in answers}) == 1
    assert sorted(answer["idempotency_hit"] for answer in answers) == [False] + [True] * 17


async def test_clients_go_on_with_a_hub_that_was_killed_and_started_again(tmp_path: Path) -> None:
    said = {"content": "kept through a kill", "idempotency_key": "k"}
    with HubProcess(tmp_path / "home") as hub:
        async with connected(hub, ERAS[0], "old") as old, connected(hub, ERAS[1], "new") as new:
            first = [await host.ok("store_memory", **said) for host in (old, new)]
            hub.kill()
            hub.start()
            for host, stored in zip((old, new), first, strict=True):
                assert await host.ok("store_memory", **said) == {**stored, "idempotency_hit": True}
                assert await found(host, "kill") == ["kept through a kill"]
        assert hub.stop() == 0


# --- our own client ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-010")
@pytest.mark.parametrize("dialect", ["mcp", "auto"])
async def test_a_router_lives_with_a_hub_over_mcp_that_goes_and_comes_back(tmp_path: Path, dialect: str) -> None:
    settings = Settings(
        dialect=dialect, durability="process", embedder="none",
        call_timeout_s=30.0, remote_search_s=30.0, local_search_s=30.0,
        pace=Pace(closing_s=0.0, offline_after=1, send_tries=1, longest_wait_s=0.01),
    )  # fmt: skip
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("s3cret-of-the-hub")
    with HubProcess(tmp_path / "hub", token="s3cret-of-the-hub") as hub:
        async with MemoryRouter.open(
            tmp_path / "home", hub.url, token_file=token, project="app", settings=settings
        ) as memory:
            first = await memory.store("the harbour opens at six", key="k", significance=0.9, wait=30)
            assert first.layers == ("local", "remote")
            assert (await memory.search("harbour")).source == "hybrid"
            hub.kill()
            late = await memory.store("the harbour opens at seven", key="k", significance=0.9)
            assert (await memory.search("harbour")).source == "local_fallback"
            assert late.delivery == "pending"
            hub.start()
            await memory.sync()
            assert (await memory.status())["outbox"]["pending"] == 0
            found = await memory.search("harbour")
        told = json_call(hub, "search_semantic_memories", token="s3cret-of-the-hub", query="harbour")
    assert (found.source, [hit.memory.content for hit in found]) == ("hybrid", ["the harbour opens at seven"])
    assert [json.loads(one["content"])["content"] for one in told["memories"]] == ["the harbour opens at seven"]


async def test_our_own_client_understands_what_the_hub_refuses(hub: HubProcess, guarded: HubProcess) -> None:
    async def refused(tool: str, params: JsonObject) -> tuple[bool, bool]:
        with pytest.raises(RemoteRefused) as refusal:
            await dialect.call(tool, params)
        return refusal.value.clear, refusal.value.unknown_method

    dialect = McpCall(Transport(endpoint(hub.url), clock=SystemClock()), space="app", call_timeout_s=30.0)
    assert await refused("store_memory", {"content": ""}) == (True, False)
    assert await refused("store_memory", {"content": "x", "colour": 1}) == (True, False)
    assert await refused("update_memory", {"content": "x", "memory_id": "gone"}) == (False, False)
    assert await refused("divine", {}) == (True, True)
    await dialect.aclose()
    strange = McpCall(Transport(endpoint(guarded.url), clock=SystemClock(), token="wrong"), space="app")
    with pytest.raises(RemoteUnauthorised):
        await strange.connect()
    await strange.aclose()


# --- long and strange texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_mebibyte_is_stored_and_a_long_answer_is_said_once(hub: HubProcess, mode: str) -> None:
    """A client that reads at most 1 MiB of a reply still reads it; what fits into no reply is said to be there."""
    project = f"long-{mode}"
    async with connected(hub, mode, project) as host:
        await host.ok("store_memory", content="emoji " + "\N{PILE OF POO}" * 262_100)
        left_out = await host.ok("search_semantic_memories", query="emoji", threshold=-1.0)
        assert (left_out["memories"], left_out["truncated"]) == ([], True)
        await host.ok("store_memory", content="plain " * 150_000)
        result = await host.client.call_tool("search_semantic_memories", {"query": "plain"})
    assert result.structured_content is not None
    assert result.structured_content["memories"][0]["content"] == "plain " * 150_000
    assert "structuredContent" in result.content[0].text  # type: ignore[union-attr]  # the hub sends text alone
    assert len(result.model_dump_json()) < 1_048_576
    assert len(result.content[0].text) < LONGEST_TEXT  # type: ignore[union-attr]


# --- what is refused --------------------------------------------------------------------------------------------------


WRONG_CALLS: list[tuple[str, JsonObject, str]] = [
    ("store_memory", {}, "invalid argument content: Field required"),
    ("store_memory", {"content": 5}, "content: Input should be a valid string"),
    ("store_memory", {"content": ""}, "content: is empty"),
    ("store_memory", {"content": "x", "metadata": "canary"}, "metadata: Input should be a valid dictionary"),
    ("store_memory", {"content": "x", "memory_type": "canary"}, "memory_type"),
    ("store_memory", {"content": "x", "colour": "canary"}, "colour: unknown argument; store_memory takes content"),
    ("store_memory", {"content": "x", "project": 5}, "project: expected text"),
    ("store_memory", {"content": "x", "project": "a\nb"}, "project: contains control characters"),
    ("search_semantic_memories", {"query": "x", "limit": 0}, "limit: "),
    ("search_semantic_memories", {"query": "x", "limit": "7"}, "limit: Input should be a valid integer"),
    ("search_semantic_memories", {"query": "x", "threshold": 2}, "threshold: "),
    ("search_semantic_memories", {"query": "x", "memory_types": ["canary"]}, "memory_types"),
    ("get_linked_memories", {"memory_ids": "canary"}, "memory_ids: Input should be a valid list"),
    ("create_memory_link", {"source_memory_id": "a", "target_memory_id": "b"}, "nothing is stored under 'a'"),
    ("create_memory_link", {"source_memory_id": "a", "target_memory_id": "b", "strength": 7}, "strength: "),
    ("forget_memory", {}, "memory_id: is missing, and store_key is too"),
]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_cannot_be_done_is_a_tools_error_in_a_sentence(hub: HubProcess, mode: str) -> None:
    async with connected(hub, mode) as host:
        for tool, arguments, said in WRONG_CALLS:
            sentence = await host.error(tool, **arguments)
            assert said in sentence
            assert "\n" not in sentence
            assert "Traceback" not in sentence
            told = (await host.client.call_tool(tool, arguments)).structured_content or {}
            assert (told["success"], told["error"]) == (False, sentence)
            assert (told["error_code"] == "INVALID_PARAMETER") is sentence.startswith("invalid argument")
        assert (await host.ok("initialize_memory_system"))["success"] is True


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("tool", "called"), [("divine", "divine"), ("di\nvine\x1b", "di?vine?")])
async def test_an_unknown_tool_is_a_protocol_error(hub: HubProcess, mode: str, tool: str, called: str) -> None:
    async with connected(hub, mode) as host:
        with pytest.raises(MCPError, match=f"^Unknown tool: {re.escape(called)}$") as unknown:
            await host.client.call_tool(tool, {})
        assert unknown.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"",
        b"[]",
        b"5",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"store_memory","arguments":"canary"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"canary":"canary"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"canary"}',
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "1999-01-01"])
def test_a_message_that_makes_no_sense_is_an_error_of_the_protocol(hub: HubProcess, body: bytes, version: str) -> None:
    reply = post(hub, body, **{"MCP-Protocol-Version": version})
    assert reply.json()["error"]["code"] < 0
    assert reply.status_code < 500
    assert "Traceback" not in reply.text


def test_a_slash_at_the_end_leads_to_the_same_and_to_no_redirect(hub: HubProcess) -> None:
    with httpx.Client(trust_env=False, timeout=60) as web:
        url, body = f"{hub.url}/mcp/", call("initialize_memory_system", "{}")
        assert web.post(url, content=body, headers=ACCEPT).status_code == 200
        assert web.post(url, content=body, headers={**ACCEPT, "Host": "evil.example"}).status_code == 421
        assert web.post(url, content=body, headers={**ACCEPT, "Origin": "null"}).status_code == 403
        assert web.post(f"{hub.url}/mcp/call/", headers={"Host": "evil.example"}).status_code == 404


@pytest.mark.parametrize("mode", ERAS)
async def test_namespaces_are_kept_apart_by_the_token(guarded: HubProcess, mode: str) -> None:
    async with connected(guarded, mode, mode, **ADA) as ada, connected(guarded, mode, mode, **BOB) as bob:
        mine = await ada.ok("store_memory", content="tea for Ada", idempotency_key="k")
        theirs = await bob.ok("store_memory", content="tea for Bob", idempotency_key="k")
        assert (mine["idempotency_hit"], theirs["idempotency_hit"]) == (False, False)
        assert (await found(ada, "tea"), await found(bob, "tea")) == (["tea for Ada"], ["tea for Bob"])
        assert "nothing is stored" in await bob.error("update_memory", memory_id=mine["memory_id"], content="x")
        assert await found(bob, "tea", project=f"../ada/{mode}") == []
    reply = json_call(guarded, "search_semantic_memories", mode, "the-token-of-bob", query="tea")
    assert [one["content"] for one in reply["memories"]] == ["tea for Bob"]


def test_health_needs_no_token(guarded: HubProcess) -> None:
    assert httpx.get(f"{guarded.url}/health", headers={"Host": "hub.example"}, trust_env=False).status_code == 200


# --- inside -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "logged"),
    [
        (RuntimeError("canary at /secret/path"), 500, "HubCallFailed RuntimeError"),
        (StoreBusy(5.0), 503, "HubStoreFailed: the memory store stayed locked"),
        (KeyError("canary"), 500, "HubCallFailed KeyError"),
    ],
)
async def test_trouble_of_the_hubs_own_shows_no_detail_and_may_be_tried_again(
    error: Exception, status: int, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> JsonObject:
        raise error

    caplog.set_level(logging.DEBUG, "kingly_memory")
    async with in_process(fail) as web:
        over_mcp = await web.post("/mcp", content=call("store_memory", '{"content":"canary"}'))
        over_json = await web.post("/mcp/call", json={"method": "store_memory", "params": {"content": "canary"}})
    assert over_mcp.json()["error"]["code"] == -32603
    assert (over_json.status_code, over_json.json()["success"]) == (status, False)
    assert "canary" not in over_mcp.text + over_json.text + caplog.text
    assert caplog.text.count(logged) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/mcp/call", '{"method": "initialize_memory_system"}'),
        ("/mcp", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"initialize_memory_system"}}'),
    ],
)
async def test_the_loop_stays_free_while_the_engine_works(path: str, body: str) -> None:
    working, release = threading.Event(), threading.Event()

    def work() -> JsonObject:
        working.set()
        release.wait()
        return {"done": True}

    async with in_process(work) as web:
        slow = asyncio.create_task(web.post(path, content=body))
        await asyncio.to_thread(working.wait)
        assert (await web.get("/health")).status_code == 200
        release.set()
        assert "done" in (await slow).text


async def test_the_sdk_tells_no_text_of_a_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kingly_memory")
    async with in_process(dict) as web:
        await web.post("/mcp", content=call("store_memory", '{"content":"x"}'))
        logging.getLogger("mcp.server").error("canary", exc_info=KeyError("canary"))
        logging.getLogger("mcp.server").warning("canary")
    assert "HubMcpTrouble mcp.server KeyError" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.requirement("N29")
def test_a_hub_without_the_sdk_names_the_extra() -> None:
    """In a process of its own, since nothing of the SDK may have been loaded before."""
    script = """
import asyncio, sys
sys.modules["mcp"] = None
from tests.hub.stub import in_process

async def main() -> None:
    async with in_process(dict) as web:
        reply = await web.post("/mcp", content='{"jsonrpc":"2.0","id":1,"method":"ping"}')
    print(reply.status_code, reply.json()["error"]["message"])

asyncio.run(main())
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("501 MCP needs the extra `mcp`")


async def test_an_sdk_that_cannot_be_loaded_is_tried_again_and_leaves_the_other_dialect_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(engine: Engine, version: str) -> None:
        raise ImportError("canary")

    async with in_process(lambda: {"done": True}) as web:
        with monkeypatch.context() as patched:
            patched.setattr(server, "load_mcp", broken)
            reply = await web.post("/mcp", content=call("initialize_memory_system", "{}"))
            assert (reply.status_code, "/mcp/call" in reply.text, "canary" in reply.text) == (503, True, False)
            assert (await web.post("/mcp/call", json={"method": "initialize_memory_system"})).json() == {"done": True}
        reply = await web.post("/mcp", content=call("initialize_memory_system", "{}"))
        assert reply.json()["result"]["structuredContent"] == {"done": True}


async def test_the_first_callers_wait_for_the_loading_and_one_who_leaves_takes_nobody_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading, release, load = threading.Event(), threading.Event(), server.load_mcp

    def slow(engine: Engine, version: str) -> ASGIApp:
        loading.set()
        release.wait()
        return load(engine, version)

    monkeypatch.setattr(server, "load_mcp", slow)
    async with in_process(lambda: {"done": True}) as web:
        body = call("initialize_memory_system", "{}")
        calls = [asyncio.create_task(web.post("/mcp", content=body)) for _ in range(5)]
        await asyncio.to_thread(loading.wait)
        assert (await web.get("/health")).status_code == 200, "the loop is free meanwhile"
        calls[0].cancel()
        release.set()
        replies = await asyncio.gather(*calls[1:])
    assert [reply.json()["result"]["structuredContent"] for reply in replies] == [{"done": True}] * 4


def test_a_hub_that_nobody_speaks_mcp_to_does_not_load_it() -> None:
    script = "import sys, kingly_memory.hub.serve; print(*sorted({'mcp', 'mcp_types'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_tools_and_methods_are_the_same_and_say_what_they_take() -> None:
    assert {tool.name for tool in tools()} == METHODS.keys()
    for tool in tools():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["properties"].keys() == {*METHODS[tool.name].model_fields, "project"}
        assert [name for name, one in tool.input_schema["properties"].items() if not one.get("description")] == []
        assert tool.description


def test_the_annotations_say_what_a_call_may_do() -> None:
    hints = {tool.name: tool.annotations for tool in tools()}
    assert {name for name, one in hints.items() if one and one.read_only_hint} == {
        "initialize_memory_system", "list_changes", "search_semantic_memories", "get_working_memory",
        "get_linked_memories", "get_document",
    }  # fmt: skip
    assert {name for name, one in hints.items() if one and one.destructive_hint} == {
        "update_memory", "forget_memory", "put_document", "put_documents",
    }  # fmt: skip
    assert {name for name, one in hints.items() if one and one.idempotent_hint and not one.read_only_hint} == {
        "forget_memory", "create_memory_link", "mark_memory", "put_document", "put_documents",
    }  # fmt: skip
    assert all(one and one.open_world_hint is False for one in hints.values())
