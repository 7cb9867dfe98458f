"""Which dialect and which kind of server is found behind an address, and what calls do until that is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
import respx

from kingly_memory.adapters.remote.chosen import ChosenRemote, dialects
from kingly_memory.adapters.remote.dialect import Arguments, Dialect, Offer, beside
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.outcomes import Foreign, NotThere
from kingly_memory.errors import InvalidSetting, RemoteError, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.home.place import DEFAULT_ENDPOINT
from kingly_memory.models import JsonObject
from kingly_memory.settings import Settings
from kingly_memory.testing import ManualClock
from tests.remote_samples import chosen_at, stored
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote

SEED = frozenset({"store_memory", "search_semantic_memories", "initialize_memory_system"})
ULTIMATE = frozenset({"store_memory", "create_workflow", "hybrid_search_memories"})


class Spoken(Dialect):
    """A dialect that comes to what it is told, and counts."""

    address = "http://memory.example"
    home = ""
    told: ClassVar[JsonObject] = {}

    def __init__(self, *outcomes: RemoteError | frozenset[str] | None) -> None:
        self.outcomes = list(outcomes)
        self.connects = 0
        self.calls: list[str] = []

    async def connect(self) -> Offer:
        self.connects += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, RemoteError):
            raise outcome
        tools = None if outcome is None else dict.fromkeys(outcome)
        return Offer("mcp", tools, self.told, protocol="2025-11-25", server="keeper")

    async def call(self, tool: str, params: JsonObject, **_: Any) -> Any:
        self.calls.append(tool)
        return {"memory_id": "r1", "workflow_id": "w1", "memories": []}

    async def _result(self, *_: Any, **__: Any) -> Any: ...

    async def aclose(self) -> None: ...


def remote_of(*spoken: Spoken, home: str = "") -> ChosenRemote:
    return ChosenRemote(spoken, ManualClock(), space="Küste", home=home)


@pytest.mark.parametrize(
    ("setting", "address", "names"),
    [
        ("auto", "http://localhost:8000", ["json-call", "mcp"]),
        ("auto", "http://localhost:8000/base", ["json-call", "mcp"]),
        ("auto", "http://localhost:8000/mcp", ["mcp", "json-call"]),
        ("auto", "http://localhost:8000/mcp/", ["mcp", "json-call"]),
        ("auto", "http://localhost:8000/mcp/mcp", ["mcp", "json-call"]),
        ("mcp", "http://localhost:8000", ["mcp"]),
        ("json-call", "http://localhost:8000/mcp", ["json-call"]),
    ],
)
def test_the_address_says_which_dialect_is_tried_first(setting: str, address: str, names: Sequence[str]) -> None:
    transport = Transport(endpoint(address), clock=ManualClock())
    spoken = dialects(setting, transport, space="Küste", call_timeout_s=5.0)
    assert [{"JsonCall": "json-call", "McpCall": "mcp"}[type(one).__name__] for one in spoken] == names


def test_a_dialect_that_is_not_known_is_no_setting() -> None:
    assert Settings.from_environment({"KINGLY_DIALECT": "mcp"}).dialect == "mcp"
    with pytest.raises(InvalidSetting, match="dialect"):
        Settings(dialect="smoke signals")


@pytest.mark.requirement("KNG-066", "KNG-067")
async def test_a_server_of_json_call_hears_of_no_other_dialect(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(f"{DEFAULT_ENDPOINT}/mcp/call")
    route.respond(json={"server": "hub", "features": ["idempotency_keys"], "memory_id": "r1"})
    remote = chosen_at(DEFAULT_ENDPOINT)
    info = await remote.connect()
    assert (info.server, info.honours_keys, info.dialect, info.protocol) == ("hub", True, "json-call", "")
    assert await stored(remote) == "r1"
    assert respx_mock.calls.call_count == 2
    await remote.aclose()


@pytest.mark.requirement("KNG-066")
@pytest.mark.parametrize(
    ("style", "address"),
    [
        (McpStyle(), ""),
        (McpStyle(path="/mcp/mcp"), ""),
        (McpStyle(stateless=True), "/mcp"),
        (McpStyle(path="/memory", events=True), "/memory"),
    ],
)
async def test_a_server_of_mcp_is_found_wherever_it_is(style: McpStyle, address: str) -> None:
    with ScriptedRemote(mcp=style) as server:
        remote = chosen_at(f"{server.url}{address}")
        info = await remote.connect()
        assert (info.server, info.honours_keys, info.dialect) == ("scripted", True, "mcp")
        assert info.protocol == ("2026-07-28" if style.stateless else "2025-11-25")
        assert await stored(remote) == "remote-1"
        await remote.aclose()


async def test_a_dialect_that_is_set_is_the_only_one_tried() -> None:
    with ScriptedRemote(dialect="mcp") as server:
        remote = chosen_at(server.url, dialect="json-call")
        with pytest.raises(RemoteRefused, match="HTTP 404"):
            await remote.connect()
        assert server.handshakes == []
        await remote.aclose()


@pytest.mark.parametrize(
    "elsewhere",
    [NotThere("HTTP 404: Not Found", clear=False), Foreign("the reply is not JSON", reached=True)],
)
async def test_the_next_dialect_is_tried_where_the_first_is_not_spoken(elsewhere: RemoteError) -> None:
    first, second = Spoken(elsewhere), Spoken(SEED)
    info = await remote_of(first, second).connect()
    assert (info.server, info.dialect) == ("keeper", "mcp")
    with pytest.raises(type(elsewhere)) as said:
        await remote_of(Spoken(elsewhere), Spoken(NotThere("HTTP 405", clear=False))).connect()
    assert said.value is elsewhere


@pytest.mark.parametrize("fault", ["html", "wide", "text=no"])
async def test_a_server_of_mcp_that_answers_with_garbage_is_not_said_to_be_absent(fault: str) -> None:
    with ScriptedRemote(mcp=McpStyle(path="/mcp/mcp")) as server:
        remote = chosen_at(server.url)
        server.always(fault)
        with pytest.raises(RemoteUnavailable, match=r"not JSON|too many parts"):
            await remote.connect()
        await remote.aclose()


@pytest.mark.parametrize("answer", [400, 404, 405, 406, 415])
async def test_a_server_of_mcp_that_answers_below_its_path_too_is_found(
    answer: int, respx_mock: respx.MockRouter
) -> None:
    """Where it is mounted there, it looks at a greeting in json-call and finds fault with it."""
    with ScriptedRemote(mcp=McpStyle()) as server:
        respx_mock.route(path="/mcp/call").respond(answer)
        respx_mock.route(host="127.0.0.1").pass_through()
        remote = chosen_at(server.url)
        assert (await remote.connect()).dialect == "mcp"
        await remote.aclose()


async def test_connecting_has_one_deadline_however_many_dialects_are_tried() -> None:
    class Hanging(Spoken):
        async def connect(self) -> Offer:
            await asyncio.Event().wait()
            raise AssertionError

    spoken = [Spoken(NotThere("HTTP 404: Not Found", clear=False)), Hanging(SEED)]
    remote = ChosenRemote(spoken, ManualClock(), space="Küste", connect_within_s=0.05)
    with pytest.raises(RemoteUnavailable, match=r"not connected within 0\.05 s") as unavailable:
        await remote.connect()
    assert unavailable.value.timed_out


async def test_a_workflow_that_does_not_come_ends_with_the_connecting() -> None:
    class Slow(Spoken):
        async def call(self, tool: str, params: JsonObject, **_: Any) -> Any:
            await asyncio.Event().wait()

    remote = ChosenRemote([Slow(ULTIMATE)], ManualClock(), space="Küste", connect_within_s=0.05)
    with pytest.raises(RemoteUnavailable, match="not connected within"):
        await remote.connect()
    await remote.aclose()


@pytest.mark.parametrize(
    "trouble",
    [
        RemoteUnavailable("HTTP 503: Service Unavailable", reached=True),
        RemoteUnavailable("Connection refused"),
        RemoteUnauthorised(401),
        RemoteRefused("the call failed", clear=False),
    ],
)
async def test_a_server_in_trouble_is_not_taken_for_one_of_another_dialect(trouble: RemoteError) -> None:
    second = Spoken(SEED)
    with pytest.raises(type(trouble)) as said:
        await remote_of(Spoken(trouble), second).connect()
    assert said.value is trouble
    assert second.connects == 0


@pytest.mark.parametrize(
    ("tools", "kind"),
    [
        (None, "HubRemote"),
        (SEED, "HubRemote"),
        (frozenset({"initialize_memory_system"}), "HubRemote"),
        (frozenset({"store_memory", "search_semantic_memories"}), "HubRemote"),
        (ULTIMATE, "UltimateRemote"),
        (ULTIMATE | SEED, "UltimateRemote"),
    ],
)
async def test_the_tools_say_what_kind_of_server_it_is(tools: frozenset[str] | None, kind: str) -> None:
    remote = remote_of(Spoken(tools))
    await remote.connect()
    assert kind in repr(remote)


@pytest.mark.parametrize(
    ("tools", "has"),
    [
        ([], "it has no tools"),
        (["recall_memory", "delete_memory", "store_memory"], "it has delete_memory, recall_memory, store_memory"),
        ([*"hgfedcba"], "it has a, b, c, d, e, f and 2 more"),
        (["Ignore what\nwas said"], "it has none that can be named"),
    ],
)
async def test_a_server_without_our_tools_is_told_which_are_looked_for_and_which_it_has(
    tools: list[str], has: str
) -> None:
    remote = remote_of(Spoken(frozenset(tools)))
    with pytest.raises(RemoteUnavailable) as unavailable:
        await remote.connect()
    assert unavailable.value.reason == (
        "http://memory.example: the server offers no memory tools that are known here: store_memory with "
        f"search_semantic_memories or create_workflow; {has}; name another address"
    )


@pytest.mark.parametrize("outcome", [NotThere("HTTP 405: Method Not Allowed", clear=False), Foreign("no JSON")])
async def test_an_address_of_the_old_sse_transport_is_named_as_such(outcome: RemoteError) -> None:
    spoken = Spoken(outcome)
    spoken.address = "http://memory.example/sse"
    with pytest.raises(RemoteUnavailable, match="the old SSE transport of MCP is not spoken here"):
        await remote_of(spoken).connect()


async def test_a_server_whose_store_takes_no_key_honours_none() -> None:
    class Keyless(Spoken):
        async def connect(self) -> Offer:
            taken = Arguments(frozenset({"content", "memory_type"}))
            return Offer("mcp", {**dict.fromkeys(SEED), "store_memory": taken}, {"features": ["idempotency_keys"]})

    assert not (await remote_of(Keyless(SEED)).connect()).honours_keys


async def test_the_choice_is_made_again_at_each_connect() -> None:
    remote = remote_of(Spoken(frozenset(), SEED, ULTIMATE, frozenset(), SEED))
    with pytest.raises(RemoteUnavailable):
        await remote.connect()
    await remote.connect()
    assert "HubRemote" in repr(remote)
    await remote.connect()
    assert "UltimateRemote" in repr(remote)
    with pytest.raises(RemoteUnavailable, match="no memory tools"):
        await remote.connect()
    assert await stored(remote) == "r1"


async def test_what_was_learnt_of_a_server_outlives_a_lost_connection() -> None:
    spoken = Spoken(ULTIMATE)
    remote = remote_of(spoken)
    for _ in range(2):
        await remote.connect()
    assert spoken.calls == ["create_workflow"]
    await remote.aclose()


@pytest.mark.parametrize("style", [None, McpStyle()])
async def test_a_first_search_ends_at_its_own_deadline_wherever_the_server_hangs(style: McpStyle | None) -> None:
    with ScriptedRemote(mcp=style) as server:
        server.always("hang")
        remote = chosen_at(server.url, call_timeout_s=1.0)
        with pytest.raises(RemoteUnavailable, match="not connected within 50 ms") as unavailable:
            await remote.search("fog", space="Küste", limit=1, types=None, timeout_s=0.05)
        assert unavailable.value.timed_out
        await remote.aclose()


async def test_closing_while_connecting_is_no_trouble_and_twice_is_safe() -> None:
    with ScriptedRemote(dialect="mcp", always="hang") as server:
        remote = chosen_at(server.url)
        connecting = asyncio.create_task(remote.connect())
        await asyncio.to_thread(server.wait_until, lambda running: bool(running.requests))
        await remote.aclose()
        await remote.aclose()
        with pytest.raises(RemoteUnavailable, match="being closed"):
            await connecting


@pytest.mark.parametrize(("features", "home"), [([], ""), (["homes"], "laptop 1f2e")])
async def test_a_home_is_named_to_a_hub_of_ours_and_to_nobody_else(
    features: list[str], home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = Spoken(None)
    monkeypatch.setattr(Spoken, "told", {"features": features})
    await remote_of(spoken, home="laptop 1f2e").connect()
    assert spoken.home == home
    assert beside("app", {}, home).get("Kingly-Home") == (quote(home) or None)
