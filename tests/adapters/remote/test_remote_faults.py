"""Against a real server that misbehaves: every fault ends in time, in one error class, with at most one effect."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.dialect import JsonCall
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory
from kingly_memory.settings import Settings
from tests.remote_samples import LIGHTHOUSE, brought, remote_at, stored
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote
from tests.scripted.script import Weather
from tests.scripted.wire_faults import CANARY

SOON_S = 1.5
"""A deadline for what will not answer; nothing waits for it otherwise."""


KINDS: dict[str, tuple[type[JsonCall] | type[McpCall], McpStyle | None]] = {
    "json-call": (JsonCall, None),
    "mcp in sessions": (McpCall, McpStyle()),
    "mcp without, in events": (McpCall, McpStyle(stateless=True, events=True)),
}
EVERY_DIALECT = pytest.mark.parametrize("kind", KINDS, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "json-call"))


@pytest.fixture
def server(kind: str) -> Iterator[ScriptedRemote]:
    with ScriptedRemote(mcp=KINDS[kind][1]) as running:
        yield running


@pytest.fixture
async def remote(server: ScriptedRemote, kind: str) -> AsyncIterator[HubRemote]:
    remote = remote_at(server.url, speaks=KINDS[kind][0])
    yield remote
    await remote.aclose()


@pytest.fixture
async def hurried(server: ScriptedRemote, kind: str) -> AsyncIterator[HubRemote]:
    """One try, a short deadline."""
    remote = remote_at(server.url, speaks=KINDS[kind][0], call_timeout_s=SOON_S)
    yield remote
    await remote.aclose()


@EVERY_DIALECT
@pytest.mark.requirement("KNG-003", "KNG-079")
@pytest.mark.parametrize(
    ("fault", "reason", "reached"),
    [
        ("status=500", "HTTP 500: Internal Server Error", True),
        ("status=502", "HTTP 502", True),
        ("status=408", "HTTP 408", True),
        ("status=425", "HTTP 425", True),
        ("status=429 7", "HTTP 429", True),
        ("status=599", "HTTP 599", True),
        ("redirect=302 https://portal.example/login", "HTTP 302", True),
        ("html", "not JSON", True),
        ("no-content", "empty", True),
        ("empty", "empty", True),
        ("nan", "NaN", True),
        ("huge-int", "too large", True),
        ("deep", "nested too deeply", True),
        ("wide", "too many parts", True),
        ("bad-utf8", "UTF-8", True),
        ("gzip-bomb", "compressed", True),
        ("double-gzip", "compressed", True),
        ("huge", "longer than", True),
        ("endless", "longer than", True),
        ("truncated", "broke", True),
        ("reset", "broke|reset", False),
        ("garbage", "does not speak HTTP", False),
        ("interim", "more than 16,384 bytes before its answer", False),
        ("tiny-chunks", "in pieces of a few bytes", True),
    ],
)
async def test_trouble_is_one_error_and_worth_another_try(
    server: ScriptedRemote, remote: HubRemote, fault: str, reason: str, reached: bool
) -> None:
    server.always(fault)
    with pytest.raises(RemoteUnavailable, match=reason) as unavailable:
        await stored(remote)
    assert unavailable.value.reached is reached


@EVERY_DIALECT
@pytest.mark.requirement("KNG-003", "KNG-064")
@pytest.mark.parametrize(
    ("fault", "reached"),
    [("hang", False), ("header-trickle", False), ("trickle", True)],
)
async def test_the_deadline_is_for_the_whole_call_not_for_each_read(
    server: ScriptedRemote, hurried: HubRemote, fault: str, reached: bool
) -> None:
    server.always(fault)
    with pytest.raises(RemoteUnavailable, match=r"no complete answer within 1\.5 s") as unavailable:
        await stored(hurried)
    assert unavailable.value.reached is reached


@EVERY_DIALECT
@pytest.mark.parametrize(
    ("fault", "clear", "unknown"),
    [
        ("failure=INVALID_PARAMETER", True, False),
        ("failure=EXECUTION_ERROR", False, False),
        ("error=Unknown tool: store_memory", True, True),
        ("error", False, False),
        ("status=413", True, False),
        ("status=422", True, False),
        ("status=409", False, False),
    ],
)
async def test_what_is_refused_is_told_apart_and_not_tried_again(
    server: ScriptedRemote, remote: HubRemote, fault: str, clear: bool, unknown: bool
) -> None:
    server.always(fault)
    with pytest.raises(RemoteRefused) as refused:
        await stored(remote)
    assert (refused.value.clear, refused.value.unknown_method) == (clear, unknown)
    assert (len(server.requests), server.effects) == (1, [])


@EVERY_DIALECT
@pytest.mark.parametrize("fault", ["lost-reply", "truncated", "late"])
@pytest.mark.parametrize("honours_keys", [True, False])
async def test_an_effect_whose_reply_was_lost_is_not_repeated(kind: str, fault: str, honours_keys: bool) -> None:
    speaks, style = KINDS[kind]
    with ScriptedRemote(mcp=style, honours_keys=honours_keys) as server:
        server.script(fault, method="store_memory")
        remote = remote_at(server.url, speaks=speaks, call_timeout_s=SOON_S)
        await remote.connect()
        assert await brought(remote) == "remote-1"
        assert len(server.effects) == 1
        await remote.aclose()


async def test_bad_weather_has_one_effect_per_memory() -> None:
    weather = Weather(fail_500=0.1, fail_429=0.05, drop_reply=0.08, retry_after="0", seed=4)
    with ScriptedRemote(weather=weather) as server:
        remote = remote_at(server.url)
        memories = [_numbered(number) for number in range(150)]
        remote_ids = [await brought(remote, memory) for memory in memories]
        await remote.aclose()
        assert len(server.requests) > len(memories)
        assert [call.params["idempotency_key"] for call in server.effects] == [memory.id for memory in memories]
        assert len(set(remote_ids)) == len(memories)


def _numbered(number: int) -> Memory:
    return replace(LIGHTHOUSE, id=MemoryId(f"{number:08}"), content=f"memory {number}")


@pytest.mark.requirement("KNG-064")
async def test_the_deadline_is_five_seconds_unless_told_otherwise() -> None:
    assert Settings().call_timeout_s == 5.0
    assert inspect.signature(JsonCall).parameters["call_timeout_s"].default == 5.0


@pytest.mark.requirement("KNG-064", "KNG-079")
async def test_a_search_ends_at_its_own_deadline(server: ScriptedRemote, remote: HubRemote) -> None:
    server.always("hang")
    with pytest.raises(RemoteUnavailable, match=r"within 50 ms"):
        await remote.search("fog", space="Küste", limit=1, types=None, timeout_s=0.05)


@EVERY_DIALECT
async def test_cancelling_passes_and_the_next_call_works(server: ScriptedRemote, remote: HubRemote) -> None:
    server.script("hang")
    call = asyncio.create_task(stored(remote))
    await asyncio.to_thread(server.wait_until, lambda running: len(running.requests) == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await stored(remote)
    assert len(server.requests) == 2


async def test_many_hung_calls_do_not_starve_the_next_one(server: ScriptedRemote) -> None:
    remote = remote_at(server.url)
    server.always("hang")
    searches = (remote.search("fog", space="Küste", limit=1, types=None, timeout_s=SOON_S) for _ in range(120))
    outcomes = await asyncio.gather(*searches, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {RemoteUnavailable}
    server.always("ok")
    await remote.connect()
    await remote.aclose()


async def test_a_kept_connection_that_ends_as_it_is_used_again_is_no_trouble_for_what_only_reads(
    server: ScriptedRemote, remote: HubRemote
) -> None:
    await remote.connect()
    server.script("reset")
    assert (await remote.connect()).honours_keys
    server.script("reset")
    assert await remote.search("fog", space="Küste", limit=1, types=None, timeout_s=5.0) == []
    server.script("reset")
    assert await remote.working_memory(None, space="Küste", timeout_s=5.0) == []
    server.script("reset")
    with pytest.raises(RemoteUnavailable, match=r"broke|reset"):
        await stored(remote)
    assert [call.fault for call in server.requests].count("reset") == 4
    assert not server.effects


@pytest.mark.parametrize("first", ["status=401", "redirect=307 /mcp/call"])
async def test_a_kept_connection_may_also_end_after_a_redirect_or_a_new_token(
    server: ScriptedRemote, first: str
) -> None:
    tokens = iter(["old"])
    transport = Transport(endpoint(server.url), clock=SystemClock(), token=lambda: next(tokens, "new"))
    call = JsonCall(transport, space="p")
    await asyncio.gather(*(call.call("search_semantic_memories", {"query": "fog"}, reads=True) for _ in range(3)))
    server.script(first, "reset")
    assert await call.call("search_semantic_memories", {"query": "fog"}, reads=True) is not None
    assert [call.fault for call in server.requests].count("reset") == 1
    await transport.aclose()


async def test_closing_while_a_question_is_open_connects_to_nothing_again(
    server: ScriptedRemote, remote: HubRemote
) -> None:
    await remote.connect()
    server.script("hang")
    asking = asyncio.create_task(remote.search("fog", space="Küste", limit=1, types=None, timeout_s=5.0))
    await asyncio.to_thread(server.wait_until, lambda running: len(running.requests) == 2)
    await remote.aclose()
    with pytest.raises(RemoteUnavailable):
        await asking
    assert len(server.requests) == 2


async def test_an_answer_that_breaks_off_on_a_kept_connection_is_not_asked_for_again(
    server: ScriptedRemote, remote: HubRemote
) -> None:
    await remote.connect()
    server.always("truncated")
    with pytest.raises(RemoteUnavailable, match="broke"):
        await remote.search("fog", space="Küste", limit=1, types=None, timeout_s=5.0)
    assert len(server.requests) == 2


async def test_a_host_that_does_not_exist_is_unavailable() -> None:
    remote = remote_at("http://no-such-host.invalid", call_timeout_s=5.0)
    with pytest.raises(RemoteUnavailable):
        await remote.connect()
    await remote.aclose()


async def test_cookies_are_not_replayed(server: ScriptedRemote, remote: HubRemote) -> None:
    await remote.connect()
    await remote.connect()
    assert all("cookie" not in call.headers for call in server.requests)
    assert len(server.requests) == 2


async def test_a_proxy_of_the_environment_does_not_see_loopback(
    server: ScriptedRemote, remote: HubRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await stored(remote)


async def test_a_proxy_setting_that_does_not_work_is_said_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://user:hunter2@proxy")
    remote = remote_at("http://memory.example")
    with pytest.raises(RemoteUnavailable, match="HTTPS_PROXY") as unavailable:
        await remote.connect()
    assert "hunter2" not in str(unavailable.value)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_that_does_not_answer_is_not_taken_for_the_server(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "http://user:hunter2@127.0.0.1:9")
    remote = remote_at("http://memory.example")
    with pytest.raises(RemoteUnavailable) as unavailable:
        await remote.connect()
    await remote.aclose()
    assert f"(by way of the proxy in {variable})" in str(unavailable.value)
    assert "hunter2" not in str(unavailable.value)


CANARIES = (
    "t0ken-canary",
    "user-canary",
    "password-canary",
    "query-canary",
    CANARY,
    "lighthouse keeper",
    "session-0",
)


@EVERY_DIALECT
@pytest.mark.parametrize(
    "fault",
    [
        "ok",
        "status=500",
        "status=422",
        "status=403",
        "failure",
        "error",
        "text",
        "rpc-error",
        "noisy",
        "lost-session",
        "html",
        "garbage",
        "bad-utf8",
        "hang",
        "reset",
        "gzip-bomb",
        "redirect=302 http://query-canary.example/?user-canary",
    ],
)
async def test_no_secret_and_no_text_reaches_a_log_or_an_error(
    server: ScriptedRemote, kind: str, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server.always(fault)
    path = "/base" if kind == "json-call" else "/mcp"
    url = f"http://user-canary:password-canary@127.0.0.1:{server.port}{path}?api_key=query-canary"
    remote = remote_at(url, speaks=KINDS[kind][0], token="t0ken-canary", call_timeout_s=SOON_S)
    said = [repr(remote)]
    try:
        await stored(remote)
    except RemoteError as error:
        said += [*traceback.format_exception(error), repr(error)]
    await remote.aclose()
    everything = "\n".join([*said, caplog.text, *(str(record.__dict__) for record in caplog.records)])
    assert [canary for canary in CANARIES if canary in everything] == []


async def test_the_transport_shows_no_secret() -> None:
    url, token = "http://user-canary:password-canary@localhost?k=query-canary", "t0ken-canary"
    assert repr(Transport(endpoint(url), clock=SystemClock(), token=token)) == "<Transport http://localhost>"
    assert repr(remote_at(url, token=token)) == "<HubRemote http://localhost>"
