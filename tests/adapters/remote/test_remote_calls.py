"""What a call over json-call does with each reply: tokens, redirects, tries, and what older servers lack."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
import respx

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.errors import InvalidInput, RemoteRefused, RemoteUnavailable
from kingly_memory.home.place import DEFAULT_ENDPOINT
from kingly_memory.models import MemoryType
from kingly_memory.ports import RemoteLink, RemoteMarks
from kingly_memory.testing import ManualClock
from tests.remote_samples import LIGHTHOUSE, remote_at, revised, stored

ENVELOPE = wire.store_params(LIGHTHOUSE, LIGHTHOUSE.id)["content"]


@pytest.fixture
def route(respx_mock: respx.MockRouter) -> respx.Route:
    return respx_mock.post(f"{DEFAULT_ENDPOINT}/mcp/call")


def sent(route: respx.Route, number: int = -1) -> dict[str, Any]:
    """The body of a request, as JSON."""
    body: dict[str, Any] = json.loads(route.calls[number].request.content)
    return body


async def test_user_info_is_sent_as_a_header_and_never_in_the_url(route: respx.Route) -> None:
    route.respond(json={})
    await remote_at("http://user:p%40ss@localhost:8000").connect()
    request = route.calls.last.request
    assert request.headers["authorization"] == "Basic dXNlcjpwQHNz"
    assert str(request.url) == "http://localhost:8000/mcp/call"


@pytest.mark.parametrize("token", ["two\r\nlines", "schlüssel", " padded ", ""])
def test_a_token_that_no_header_can_hold_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Transport(endpoint(DEFAULT_ENDPOINT), clock=ManualClock(), token=token)
    assert token.strip() == "" or token.strip() not in str(refused.value)


THOUGHT = replace(
    LIGHTHOUSE,
    key=None,
    type=MemoryType.SEMANTIC,
    metadata={"record": "thought", "thought_type": "inference", "chain_id": "c", "parent_id": "m0", "position": 2},
)


async def thought_recorded(remote: HubRemote, **changes: Any) -> str:
    """Deliver a thought as the outbox does the first time."""
    arguments: dict[str, Any] = {"idempotency_key": THOUGHT.id, "parent_remote_id": None, "repeated": False}
    return await remote.record_thought(THOUGHT, **{**arguments, **changes})


@pytest.mark.requirement("KNG-082")
async def test_a_server_without_thoughts_stores_them_as_memories_and_is_asked_once(route: respx.Route) -> None:
    unknown = httpx.Response(404, json={"error": "Unknown method: record_thought"})
    taken = [httpx.Response(200, json={"memory_id": name}) for name in ("r1", "r2")]
    route.side_effect = [unknown, *taken]
    remote = remote_at(DEFAULT_ENDPOINT)
    assert [await thought_recorded(remote) for _ in range(2)] == ["r1", "r2"]
    assert [sent(route, number)["method"] for number in range(3)] == ["record_thought", "store_memory", "store_memory"]
    assert sent(route)["params"]["idempotency_key"] == THOUGHT.id


async def test_a_thought_that_is_refused_for_another_reason_is_not_stored_as_a_memory(route: respx.Route) -> None:
    route.respond(422, json={"error": "thought_type: unknown"})
    with pytest.raises(RemoteRefused, match="HTTP 422"):
        await thought_recorded(remote_at(DEFAULT_ENDPOINT))
    assert route.call_count == 1


LINK = RemoteLink("r1", "r2", "causal", 0.5, "it led to it", "Küste")


async def test_a_repeated_link_is_looked_up_before_it_is_sent(route: respx.Route) -> None:
    there = {"source_memory_id": "r1", "target_memory_id": "r2", "link_type": "causal", "strength": 0.5}
    route.respond(json={"links": [there]})
    await remote_at(DEFAULT_ENDPOINT).link(LINK, idempotency_key="l1", repeated=True)
    assert route.call_count == 1


async def test_a_server_that_cannot_list_links_is_told_again(route: respx.Route) -> None:
    unknown = httpx.Response(404, json={"error": "Unknown method: get_linked_memories"})
    route.side_effect = [unknown, httpx.Response(200, json={"link_id": 9})]
    await remote_at(DEFAULT_ENDPOINT).link(LINK, idempotency_key="l1", repeated=True)
    assert sent(route)["method"] == "create_memory_link"


async def test_without_update_a_later_revision_is_stored_anew_and_supersedes(route: respx.Route) -> None:
    unknown = httpx.Response(404, json={"error": "unknown method: update_memory"})
    route.side_effect = [unknown, httpx.Response(200, json={"memory_id": "r2"}), httpx.Response(200, json={"id": "r3"})]
    remote = remote_at(DEFAULT_ENDPOINT)
    second, third = revised(), revised(revised())
    assert await stored(remote, second, idempotency_key=f"{second.id}.2", remote_id="r1") == "r2"
    assert await stored(remote, third, idempotency_key=f"{third.id}.3", remote_id="r2") == "r3"
    assert [sent(route, number)["method"] for number in range(3)] == ["update_memory", "store_memory", "store_memory"]
    params = sent(route, 1)["params"]
    assert params["idempotency_key"] == f"{second.id}.2"
    assert params["metadata"]["supersedes"] == "r1"


async def test_an_update_that_is_refused_for_another_reason_is_not_stored_anew(route: respx.Route) -> None:
    route.respond(422, json={"error": "content: too long"})
    with pytest.raises(RemoteRefused, match="HTTP 422"):
        await stored(remote_at(DEFAULT_ENDPOINT), revised(), remote_id="r1")
    assert route.call_count == 1


@pytest.mark.parametrize("kind", [300, 301, 302, 303, 305, 307, 308])
async def test_no_redirect_leaves_the_origin(route: respx.Route, respx_mock: respx.MockRouter, kind: int) -> None:
    route.respond(kind, headers={"Location": "http://localhost:9999/mcp/call"})
    elsewhere = respx_mock.post("http://localhost:9999/mcp/call")
    elsewhere.respond(json={"memory_id": "stolen"})
    with pytest.raises(RemoteUnavailable, match=f"HTTP {kind}") as unavailable:
        await stored(remote_at(DEFAULT_ENDPOINT))
    assert unavailable.value.reached
    assert "9999" not in str(unavailable.value)
    assert elsewhere.call_count == 0


@pytest.mark.parametrize("location", ["/elsewhere", "http://localhost:8000/elsewhere", "elsewhere/../../elsewhere"])
async def test_a_redirect_within_the_origin_is_followed_with_the_body(
    route: respx.Route, respx_mock: respx.MockRouter, location: str
) -> None:
    route.respond(307, headers={"Location": location})
    there = respx_mock.post("http://localhost:8000/elsewhere")
    there.respond(json={"memory_id": "r1"})
    assert await stored(remote_at(DEFAULT_ENDPOINT, token="t0ken")) == "r1"
    assert there.calls.last.request.content == route.calls.last.request.content
    assert there.calls.last.request.headers["authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(
    "location", ["http://user@localhost:8000/x", "https://localhost:8000/x", "http://[::1", "//x/", "//xn--.com/"]
)
async def test_a_redirect_that_only_looks_like_home_is_not_followed(route: respx.Route, location: str) -> None:
    route.respond(308, headers={"Location": location})
    with pytest.raises(RemoteUnavailable):
        await stored(remote_at(DEFAULT_ENDPOINT))
    assert route.call_count == 1


async def test_a_circle_of_redirects_ends(route: respx.Route) -> None:
    route.respond(307, headers={"Location": "/mcp/call"})
    with pytest.raises(RemoteUnavailable, match="circle"):
        await stored(remote_at(DEFAULT_ENDPOINT))
    assert route.call_count == 4


async def test_lone_surrogates_leave_as_replacement_characters(route: respx.Route) -> None:
    route.respond(json=[])
    await remote_at(DEFAULT_ENDPOINT).search("fog \ud800", space="Küste", limit=1, types=None, timeout_s=1)
    assert sent(route)["params"]["query"] == "fog �"


Act = Callable[[HubRemote], Awaitable[object]]
ACTS: dict[str, Act] = {
    "store": stored,
    "update": lambda remote: remote.store(revised(), idempotency_key="k", remote_id="r1", repeated=False),
    "link": lambda remote: remote.link(
        RemoteLink("r1", "r2", "supports", 1.0, None, "app"), idempotency_key="k", repeated=False
    ),
    "mark": lambda remote: remote.mark(RemoteMarks("r1", None, (), "app")),
    "forget": lambda remote: remote.forget(LIGHTHOUSE, remote_id="r1", idempotency_key="k"),
}


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("reply", [[], 17, "Done", None], ids=repr)
async def test_what_is_no_answer_to_a_change_says_nothing_of_its_effect(
    route: respx.Route, act: Act, reply: Any
) -> None:
    remote = remote_at(DEFAULT_ENDPOINT)
    remote._features = ["mark_memory"]
    route.respond(json=reply)
    with pytest.raises(RemoteUnavailable):
        await act(remote)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Encoding": "gzip"}, gzip.compress(b"unknown method", mtime=0)),
        ({"Content-Length": "999999999"}, b"unknown method"),
    ],
)
async def test_a_hostile_body_does_not_hide_a_refusal(route: respx.Route, headers: dict[str, str], body: bytes) -> None:
    route.respond(422, headers=headers, stream=httpx.ByteStream(body))
    with pytest.raises(RemoteRefused, match="HTTP 422") as refused:
        await stored(remote_at(DEFAULT_ENDPOINT))
    assert refused.value.clear
    assert not refused.value.unknown_method


class TestServerWithoutKeys:
    """An outcome that is not known is looked up before the memory is sent again."""

    @pytest.fixture
    def found(self) -> dict[str, Any]:
        return {"memory_id": "r1", "content": ENVELOPE, "score": 0.9}

    async def test_the_copy_of_an_earlier_try_is_found_and_not_stored_twice(
        self, route: respx.Route, found: dict[str, Any]
    ) -> None:
        route.respond(json={"memories": [{"id": "r0", "content": "fog"}, found]})
        assert await stored(remote_at(DEFAULT_ENDPOINT), repeated=True) == "r1"
        assert sent(route) == {
            "method": "search_semantic_memories",
            "params": {"query": LIGHTHOUSE.content, "limit": 5, "memory_types": None},
        }
        assert route.call_count == 1

    async def test_what_is_not_found_is_sent_again(self, route: respx.Route) -> None:
        route.side_effect = [httpx.Response(200, json=[]), httpx.Response(200, json={"memory_id": "r1"})]
        assert await stored(remote_at(DEFAULT_ENDPOINT), repeated=True) == "r1"

    async def test_a_server_that_cannot_search_gets_it_again(self, route: respx.Route) -> None:
        route.side_effect = [httpx.Response(404), httpx.Response(200, json={"memory_id": "r1"})]
        assert await stored(remote_at(DEFAULT_ENDPOINT), repeated=True) == "r1"

    @pytest.mark.parametrize("reply", [{"message": "nothing found"}, {"memories": "none"}, 0], ids=repr)
    async def test_a_server_whose_search_cannot_be_read_gets_it_again(self, route: respx.Route, reply: Any) -> None:
        route.side_effect = [httpx.Response(200, json=reply), httpx.Response(200, json={"memory_id": "r1"})]
        assert await stored(remote_at(DEFAULT_ENDPOINT), repeated=True) == "r1"

    async def test_a_lookup_that_fails_sends_nothing(self, route: respx.Route) -> None:
        route.respond(500)
        with pytest.raises(RemoteUnavailable):
            await stored(remote_at(DEFAULT_ENDPOINT), repeated=True)
        assert sent(route)["method"] == "search_semantic_memories"

    async def test_an_older_copy_does_not_pass_for_a_superseding_one(
        self, route: respx.Route, found: dict[str, Any]
    ) -> None:
        route.side_effect = [
            httpx.Response(404, json={"error": "unknown method"}),
            httpx.Response(200, json=[found]),
            httpx.Response(200, json={"memory_id": "r2"}),
        ]
        assert await stored(remote_at(DEFAULT_ENDPOINT), revised(), remote_id="r1", repeated=True) == "r2"

    async def test_a_server_that_honours_keys_is_not_searched(self, route: respx.Route) -> None:
        route.side_effect = [
            httpx.Response(200, json={"features": ["idempotency_keys"]}),
            httpx.Response(200, json={"memory_id": "r1"}),
        ]
        remote = remote_at(DEFAULT_ENDPOINT)
        await remote.connect()
        assert await stored(remote, repeated=True) == "r1"
        assert sent(route)["method"] == "store_memory"
