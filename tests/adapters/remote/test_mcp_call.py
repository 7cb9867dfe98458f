"""The mcp dialect against servers of every kind, well and unwell: sessions, negotiation, deadlines, and one answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import respx

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.adapters.remote.outcomes import NotThere
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote

SOON_S = 0.4
FOG = {"content": "fog", "idempotency_key": "k1"}

STYLES = {
    "sessions": McpStyle(),
    "sessions, events": McpStyle(events=True),
    "no sessions": McpStyle(sessions=False),
    "stateless": McpStyle(stateless=True),
    "stateless, events": McpStyle(stateless=True, events=True),
}


def dialect(
    url: str, *, token: str | None = None, reply_limit_bytes: int = 1_048_576, timeout_s: float = 5.0
) -> McpCall:
    transport = Transport(endpoint(url), clock=SystemClock(), token=token, reply_limit_bytes=reply_limit_bytes)
    return McpCall(transport, space="Küste", call_timeout_s=timeout_s)


@pytest.fixture(params=STYLES)
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedRemote]:
    with ScriptedRemote(mcp=STYLES[request.param]) as running:
        yield running


@asynccontextmanager
async def talk(
    *script: str, mcp: McpStyle, always: str = "ok", **limits: Any
) -> AsyncIterator[tuple[ScriptedRemote, McpCall]]:
    """A server of that style, and a dialect that speaks to it."""
    with ScriptedRemote(*script, mcp=mcp, always=always) as server:
        spoken = dialect(server.url, **limits)
        yield server, spoken
        await spoken.aclose()


@pytest.fixture
async def mcp(server: ScriptedRemote) -> AsyncIterator[McpCall]:
    mcp = dialect(server.url)
    yield mcp
    await mcp.aclose()


def said(server: ScriptedRemote) -> list[str]:
    return [call.method for call in server.handshakes]


@pytest.mark.requirement("KNG-066", "KNG-067", "KNG-071")
async def test_a_server_is_met_its_tools_are_listed_and_called(server: ScriptedRemote, mcp: McpCall) -> None:
    offer = await mcp.connect()
    assert offer.dialect == "mcp"
    assert (offer.tools or {}).keys() == set(server.semantic.names)
    assert offer.reply["features"] == ["idempotency_keys"]
    reply = await mcp.call("store_memory", FOG, space="Ö")
    assert reply == {"memory_id": "remote-1", "idempotency_hit": False}
    headers = server.requests[-1].headers
    assert headers["accept"] == "application/json, text/event-stream"
    assert (headers["kingly-project"], headers["idempotency-key"]) == ("%C3%96", "k1")
    assert server.requests[-1].params == FOG


@pytest.mark.parametrize(
    ("style", "protocol"),
    [(McpStyle(stateless=True), "2026-07-28"), (McpStyle(), "2025-11-25"), (McpStyle(sessions=False), "2025-11-25")],
)
async def test_the_protocol_without_sessions_is_preferred_where_it_is_offered(style: McpStyle, protocol: str) -> None:
    async with talk(mcp=style) as (server, mcp):
        assert (await mcp.connect()).protocol == protocol
        assert ("initialize" in said(server)) is (protocol != "2026-07-28")
        await mcp.call("store_memory", FOG)
        assert server.requests[-1].headers["mcp-protocol-version"] == protocol
        in_session = style.sessions and not style.stateless
        assert ("mcp-session-id" in server.requests[-1].headers) is in_session


@pytest.mark.parametrize(
    "fault", ["status=500", "status=400", "html", "text=no", "rpc-error=-32601", "wrong-id", "json=[]"]
)
async def test_whatever_a_server_says_to_the_new_protocol_it_is_met_by_an_older_one(fault: str) -> None:
    async with talk(mcp=McpStyle(stateless=True)) as (server, mcp):
        server.script(fault, method="server/discover")
        assert (await mcp.connect()).protocol == "2025-11-25"


async def test_a_server_that_leaves_the_new_protocol_unanswered_is_met_by_an_older_one() -> None:
    async with talk(mcp=McpStyle(stateless=True), timeout_s=2.0) as (server, mcp):
        server.script("hang", method="server/discover")
        assert (await mcp.connect()).protocol == "2025-11-25"


@pytest.mark.requirement("KNG-079")
@pytest.mark.parametrize("lost", ["400", "404", "terminated"])
@pytest.mark.parametrize("events", [False, True])
async def test_a_lost_session_is_opened_anew_once_and_the_call_repeated_with_its_key(lost: str, events: bool) -> None:
    async with talk(mcp=McpStyle(lost=lost, events=events)) as (server, mcp):
        await mcp.connect()
        server.forget_sessions()
        assert await mcp.call("store_memory", FOG) == {"memory_id": "remote-1", "idempotency_hit": False}
        assert said(server).count("initialize") == 2
        assert [call.params for call in server.effects] == [FOG]
        assert server.effects[0].headers["idempotency-key"] == "k1"


@pytest.mark.parametrize(("lost", "reason"), [("404", "HTTP 404"), ("400", "HTTP 400"), ("terminated", "HTTP 404")])
async def test_a_session_that_is_lost_again_at_once_is_refused_and_nothing_dies_of_it(lost: str, reason: str) -> None:
    async with talk(mcp=McpStyle(lost=lost)) as (server, mcp):
        await mcp.connect()
        server.always("lost-session")
        with pytest.raises(RemoteRefused, match=reason) as refused:
            await mcp.call("store_memory", FOG)
        assert not refused.value.clear
        assert [call.params for call in server.requests[-2:]] == [FOG, FOG]
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("path", "address"), [("/mcp", ""), ("/mcp/mcp", ""), ("/mcp/mcp", "/mcp/mcp"), ("/x/y", "/x/y")]
)
async def test_a_whole_address_is_taken_as_it_is_and_an_origin_is_searched(path: str, address: str) -> None:
    with ScriptedRemote(mcp=McpStyle(path=path)) as server:
        mcp = dialect(f"{server.url}{address}")
        assert (await mcp.connect()).tools
        await mcp.aclose()


async def test_a_tool_that_is_not_listed_is_not_asked_for(server: ScriptedRemote, mcp: McpCall) -> None:
    await mcp.connect()
    before = len(server.requests)
    with pytest.raises(RemoteRefused) as refused:
        await mcp.call("merge_memories", {})
    assert (refused.value.clear, refused.value.unknown_method) == (True, True)
    assert len(server.requests) == before


async def test_what_a_tool_does_not_take_and_nulls_that_it_does_not_ask_for_are_left_out(
    respx_mock: respx.MockRouter,
) -> None:
    given: list[object] = []
    properties = {"query": {"type": "string"}, "memory_types": {"type": "array"}, "context": {}}
    schema = {"type": "object", "properties": properties, "required": ["query", "context"]}

    def said(request: httpx.Request) -> httpx.Response:
        message = json.loads(request.content)
        given.append(message["params"].get("arguments"))
        result = {
            "supportedVersions": ["2026-07-28"],
            "tools": [{"name": "look", "inputSchema": schema}],
            "content": [],
        }
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": result})

    respx_mock.post("http://localhost:8000/mcp").side_effect = said
    mcp = dialect("http://localhost:8000")
    offer = await mcp.connect()
    assert (offer.takes("look", "query"), offer.takes("look", "volume")) == (True, False)
    await mcp.call("look", {"query": "fog", "memory_types": None, "context": None, "volume": 11})
    assert given[-1] == {"query": "fog", "context": None}


async def test_a_list_of_tools_that_never_ends_is_cut(respx_mock: respx.MockRouter) -> None:
    def listed(request: httpx.Request) -> httpx.Response:
        number = int(request.content.split(b'"id":')[1].split(b",")[0])
        result = {"supportedVersions": ["2026-07-28"], "tools": [{"name": f"t{number}"}], "nextCursor": f"c{number}"}
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": number, "result": result})

    respx_mock.post("http://localhost:8000/mcp").side_effect = listed
    assert len((await dialect("http://localhost:8000").connect()).tools or ()) == 20


@pytest.mark.requirement("KNG-003", "KNG-079")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status=429 7", "HTTP 429"),
        ("json=[]", "does not answer"),
        ("json=17", "no message of JSON-RPC"),
        ("wrong-id", "does not answer"),
        ("rpc-error=-32603", "trouble of its own"),
        ("text=Done", "not JSON"),
    ],
)
async def test_trouble_is_one_error_and_worth_another_try(
    server: ScriptedRemote, mcp: McpCall, fault: str, reason: str
) -> None:
    await mcp.connect()
    server.script(fault)
    with pytest.raises(RemoteUnavailable, match=reason) as unavailable:
        await mcp.call("store_memory", FOG)
    assert unavailable.value.retry_after_s == (7.0 if "429" in fault else None)
    assert await mcp.call("store_memory", FOG)


@pytest.mark.requirement("KNG-064")
@pytest.mark.parametrize("method", ["initialize", "notifications/initialized", "tools/list"])
async def test_connecting_ends_at_its_deadline_wherever_the_server_hangs(method: str) -> None:
    async with talk(mcp=McpStyle(), timeout_s=SOON_S) as (server, mcp):
        server.script("hang", method=method)
        with pytest.raises(RemoteUnavailable, match="within 400 ms") as unavailable:
            await mcp.connect()
        assert unavailable.value.timed_out


async def test_a_call_that_meets_the_server_first_keeps_its_own_deadline_and_the_next_finds_it_met() -> None:
    async with talk(mcp=McpStyle(stateless=True), timeout_s=5.0) as (server, mcp):
        server.script("hang", method="server/discover")
        with pytest.raises(RemoteUnavailable, match="within 50 ms"):
            await mcp.call("store_memory", FOG, timeout_s=0.05)
        assert await mcp.call("store_memory", FOG)
        assert said(server).count("server/discover") == 1


async def test_a_kept_connection_that_ends_as_it_is_used_again_is_no_trouble_for_what_only_reads(
    server: ScriptedRemote, mcp: McpCall
) -> None:
    await mcp.connect()
    server.script("reset", method="tools/list")
    assert (await mcp.connect()).tools
    server.script("reset")
    await mcp.call("search_semantic_memories", {"query": "fog"}, reads=True)
    server.script("reset")
    with pytest.raises(RemoteUnavailable, match=r"broke|reset"):
        await mcp.call("store_memory", FOG)
    assert not server.effects


async def test_a_refusal_where_servers_usually_are_says_more_than_that_nothing_is_elsewhere() -> None:
    with ScriptedRemote(mcp=McpStyle(path="/mcp/mcp")) as server:
        server.script("status=400", method="initialize")
        mcp = dialect(server.url)
        with pytest.raises(RemoteError, match="HTTP 400"):
            await mcp.connect()
        await mcp.aclose()


@pytest.mark.requirement("KNG-046")
async def test_who_connects_anew_does_not_fail_with_a_meeting_that_others_began() -> None:
    with ScriptedRemote(mcp=McpStyle()) as server:
        server.script("status=404", method="initialize")
        mcp = dialect(f"{server.url}/mcp")
        calling = asyncio.create_task(mcp.call("store_memory", FOG))
        connecting = asyncio.create_task(mcp.connect())
        with pytest.raises(NotThere):
            await calling
        assert (await connecting).tools
        await mcp.aclose()


async def test_closing_ends_the_session_and_twice_is_safe() -> None:
    with ScriptedRemote(mcp=McpStyle()) as server:
        mcp = dialect(server.url)
        await mcp.aclose()
        await mcp.connect()
        session = server.handshakes[-1].headers["mcp-session-id"]
        await mcp.aclose()
        await mcp.aclose()
        assert said(server)[-1] == "DELETE"
        assert said(server).count("DELETE") == 1
        assert server.handshakes[-1].headers["mcp-session-id"] == session


@pytest.mark.parametrize("fault", ["hang", "status=405", "status=500", "reset", "garbage", "endless", "trickle"])
async def test_no_farewell_is_waited_for_or_complained_about(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedRemote(mcp=McpStyle()) as server:
        server.script(fault, method="DELETE")
        mcp = dialect(server.url, timeout_s=300.0)
        await mcp.connect()
        async with asyncio.timeout(60):
            await mcp.aclose()
        assert said(server)[-1] == "DELETE"
    assert not caplog.records


async def test_closing_calls_off_a_meeting_under_way() -> None:
    with ScriptedRemote(mcp=McpStyle()) as server:
        server.script("hang", method="initialize")
        mcp = dialect(server.url)
        call = asyncio.create_task(mcp.call("store_memory", FOG))
        await asyncio.to_thread(server.wait_until, lambda running: "initialize" in said(running))
        await mcp.aclose()
        with pytest.raises(RemoteUnavailable, match="being closed"):
            await call
