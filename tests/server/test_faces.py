"""What is the same wherever a server of ours is called over HTTP: the hub in both dialects, and the MCP server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from socket import create_connection
from typing import Any

import httpx
import pytest

from kingly_memory.hub.process import HubProcess
from tests.server.test_http import ACCEPT, BEARER, TOKEN, served

FACES = ("json-call", "hub over MCP", "MCP server")
LIMIT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Face:
    """A server, and how a memory is stored and found there."""

    url: str
    store: str
    search: str
    content_in: str
    is_rpc: bool

    def post(self, body: bytes | str | Iterator[bytes], verb: str = "POST", **headers: str) -> httpx.Response:
        with httpx.Client(trust_env=False, timeout=60) as web:
            return web.request(verb, self.url, content=body, headers={**ACCEPT, **BEARER, **headers})

    def called(self, name: str, arguments: str) -> str:
        """The body of a call; `arguments` are JSON as it goes over the wire."""
        if not self.is_rpc:
            return f'{{"method":"{name}","params":{arguments}}}'
        return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}'

    def answer(self, name: str, arguments: str, **headers: str) -> Any:
        reply = self.post(self.called(name, arguments), **headers)
        assert reply.status_code == 200, reply.text
        return reply.json()["result"]["structuredContent"] if self.is_rpc else reply.json()


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Face]]:
    folder = tmp_path_factory.mktemp("faces")
    hub = HubProcess(folder / "hub", token=TOKEN)
    with hub, served(folder / "home", KINGLY_MCP_TOKEN=TOKEN) as mcp:
        names = ("store_memory", "search_semantic_memories", "memories")
        yield {
            FACES[0]: Face(f"{hub.url}/mcp/call", *names, is_rpc=False),
            FACES[1]: Face(f"{hub.url}/mcp", *names, is_rpc=True),
            FACES[2]: Face(mcp.url, "memory_intelligent_store", "memory_hybrid_search", "results", is_rpc=True),
        }


@pytest.fixture(params=FACES)
def face(faces: Mapping[str, Face], request: pytest.FixtureRequest) -> Face:
    return faces[request.param]


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", TOKEN])
def test_without_a_right_token_nothing_is_answered_by_any_method(face: Face, authorization: str) -> None:
    for body in (face.called(face.store, '{"content":"x"}'), "{"):
        reply = face.post(body, Authorization=authorization)
        assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert TOKEN not in reply.text
    for verb in ("GET", "DELETE", "PUT", "OPTIONS") if face.is_rpc else ():
        assert face.post(b"", verb, Authorization=authorization).status_code == 401


@pytest.mark.requirement("A15")
def test_a_caller_without_the_token_is_refused_before_the_body_is_read(face: Face) -> None:
    url = httpx.URL(face.url)
    with create_connection(("127.0.0.1", url.port or 0), timeout=60) as caller:
        caller.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n" % url.raw_path)
        assert caller.recv(1_000).startswith(b"HTTP/1.1 401")


def test_there_is_no_session_to_listen_to_or_to_end(face: Face) -> None:
    for verb in ("GET", "DELETE", "PUT"):
        reply = face.post(b"", verb)
        assert (reply.status_code, reply.headers["Allow"] if face.is_rpc else "POST") == (405, "POST")
    assert "Mcp-Session-Id" not in face.post(face.called(face.search, '{"query":"x"}')).headers


def test_a_body_at_the_limit_is_read_and_one_beyond_it_is_not(face: Face) -> None:
    frame = face.called(face.store, '{"content":"%s"}')
    room = LIMIT_BYTES - len(frame) + 2
    at_the_limit = face.post(frame % ("x" * room))
    assert at_the_limit.status_code == (200 if face.is_rpc else 422)
    assert not face.is_rpc or at_the_limit.json()["result"]["isError"] is True
    assert face.post(frame % ("x" * (room + 1))).status_code == 413
    assert face.post(b"x" * 65_536 for _ in range(140)).status_code == 413


@pytest.mark.parametrize("body", [b"{", b"\xff", b"", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused_and_the_next_one_read(face: Face, body: bytes) -> None:
    assert face.post(body).status_code == 400
    assert face.post(face.called(face.search, '{"query":"x"}')).status_code == 200


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_figure_that_json_does_not_have_is_refused(face: Face, number: str) -> None:
    reply = face.post(face.called(face.store, f'{{"content":"x","metadata":{{"a":[{number}]}}}}'))
    assert reply.status_code == 400 or reply.json()["result"]["isError"] is True


@pytest.mark.parametrize("sent", [r"a\ud800b", r"a\uD800b", r"\ud83d\ude00\udc00", r"a\u0000b", r"\u202eb\u2028"])
def test_hostile_text_is_stored_as_far_as_it_can_be_encoded(face: Face, sent: str) -> None:
    name = f"hostile{sum(map(ord, sent))}"
    face.answer(face.store, f'{{"content":"{name} {sent}"}}')
    kept = json.loads(f'"{name} {sent}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    found = face.answer(face.search, f'{{"query":"{name}"}}')[face.content_in]
    assert kept in [one["content"] for one in found]


def test_a_wrong_value_is_not_repeated(face: Face) -> None:
    for arguments in ('{"content":["canary"]}', '{"content":"x","metadata":"canary"}'):
        reply = face.post(face.called(face.store, arguments))
        assert reply.status_code == 422 or reply.json()["result"]["isError"] is True
        assert "canary" not in reply.text


@pytest.mark.requirement("A18")
@pytest.mark.parametrize("sent", ['{"foo":"canary"}', '["canary"]', '{"jsonrpc":"2.0","id":1,"method":["canary"]}'])
def test_what_is_no_message_is_refused_in_a_sentence_without_what_it_holds(face: Face, sent: str) -> None:
    reply = face.post(sent)
    assert (reply.status_code in (400, 422), "canary" in reply.text, "pydantic" in reply.text) == (True, False, False)
