"""What is said in mcp and what the answers mean, in each of the layers in which a call can fail."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.remote.dialect import Arguments
from kingly_memory.adapters.remote.mcp_messages import (
    STATELESS_VERSION,
    Misunderstood,
    Party,
    answer,
    called,
    discovered,
    introduced,
    result,
    tools,
    turned_away,
)
from kingly_memory.adapters.remote.outcomes import Foreign
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from tests.remote_samples import json_values

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)
JSON = json_values("jsonrpc", "id", "result", "error", "code", "content", "text")


def texts(*said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": one} for one in said]}


def failed(text: str) -> dict[str, Any]:
    return {**texts(text), "isError": True}


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc": "2.0", "method": "notifications/progress"}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 8, "result": {}}',
        b'{"jsonrpc": "2.0", "id": "7", "result": {}}',
        b'{"jsonrpc": "2.0", "id": null, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 8, "error": {"code": -32603}}',
        b"[]",
    ],
)
def test_what_is_not_our_answer_is_none(text: bytes) -> None:
    assert answer(text, 7) is None


def test_true_is_not_the_number_one() -> None:
    assert answer(b'{"jsonrpc": "2.0", "id": true, "result": {}}', 1) is None


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"17", b'"text"', b"{}", b'{"jsonrpc": "1.0", "id": 7}', b"[1]", b"\xff", b'{"id": NaN}']
)
def test_what_is_no_json_rpc_is_foreign(text: bytes) -> None:
    with pytest.raises(Foreign) as foreign:
        answer(text, 7)
    assert foreign.value.reached


@pytest.mark.parametrize(
    ("code", "message", "kind", "clear", "unknown"),
    [
        (-32603, "boom", RemoteUnavailable, None, None),
        (-32000, "boom", RemoteUnavailable, None, None),
        (-32001, "timed out", RemoteUnavailable, None, None),
        (-32602, "Invalid params", RemoteRefused, True, False),
        (-32602, "Unknown tool: x", RemoteRefused, True, True),
        (-32601, "nope", RemoteRefused, True, True),
        (-32700, "Parse error", RemoteRefused, False, False),
        (-32042, "look at this page", RemoteRefused, False, False),
        (4711, "house rule", RemoteRefused, False, False),
        ("x", "no number", RemoteRefused, False, False),
    ],
)
def test_an_error_of_json_rpc_is_told_apart_by_its_code(
    code: object, message: str, kind: type[RemoteError], clear: bool | None, unknown: bool | None
) -> None:
    with pytest.raises(kind) as error:
        result({"error": {"code": code, "message": message}})
    assert message not in str(error.value)
    if isinstance(error.value, RemoteRefused):
        assert (error.value.clear, error.value.unknown_method) == (clear, unknown)


@pytest.mark.parametrize("message", [{}, {"result": None}, {"result": []}, {"error": "words"}])
def test_an_answer_without_result_or_error_is_no_answer(message: dict[str, Any]) -> None:
    with pytest.raises(RemoteUnavailable):
        result(message)


def test_arguments_that_are_wrong_are_no_misunderstanding() -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "canary"}}'
    refused = turned_away(400, body, None, NOW)
    assert isinstance(refused, RemoteRefused)
    assert refused.clear
    assert "canary" not in str(refused)


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ({**texts("x"), "structuredContent": {"memory_id": "r1"}}, {"memory_id": "r1"}),
        (texts('{"memory_id": "r1"}'), {"memory_id": "r1"}),
        (texts('{"success": true, "data": {"memory_id": "r1"}}'), {"memory_id": "r1"}),
        ({"structuredContent": {"result": [{"id": 1}]}}, [{"id": 1}]),
        ({"structuredContent": {"result": '{"memory_id": "r1"}'}}, {"memory_id": "r1"}),
        ({"structuredContent": {"result": [], "more": 1}}, {"result": [], "more": 1}),
        (texts("[1]", "and more"), [1]),
        (texts('{"id": 1}', '{"id": 2}'), [{"id": 1}, {"id": 2}]),
        ({"content": []}, []),
        ({"content": [], "structuredContent": None}, []),
        ({**texts('{"data": 7}'), "isError": False}, {"data": 7}),
        ({"structuredContent": {}}, {}),
        ({**texts('{"a": 1}'), "structuredContent": None, "resultType": "complete"}, {"a": 1}),
    ],
)
def test_a_tools_own_result_is_unwrapped(told: dict[str, Any], value: Any) -> None:
    assert called(told) == value


@pytest.mark.parametrize(
    ("told", "clear", "unknown"),
    [
        (failed("Unknown tool: store_memory"), True, True),
        (failed("Error executing tool x: 1 validation error for xArguments\ncontent\n  Field required"), True, False),
        (failed("Invalid arguments for tool store_memory: canary"), True, False),
        (failed("canary"), False, False),
        (failed(""), False, False),
        (failed('{"success": false, "error": "canary", "error_code": "INVALID_PARAMETER"}'), True, False),
        (failed('{"success": false, "error": "canary"}'), False, False),
        (texts('{"success": false, "error": "canary", "error_code": "INVALID_PARAMETER"}'), True, False),
        (texts('{"success": false, "error": "canary", "error_code": "EXECUTION_ERROR"}'), False, False),
        ({"structuredContent": {"success": False, "error": "Unknown tool: canary"}}, True, True),
        ({**texts("canary"), "resultType": "input_required"}, False, False),
    ],
)
def test_a_tool_that_failed_is_refused_in_whichever_layer_it_says_so(
    told: dict[str, Any], clear: bool, unknown: bool
) -> None:
    with pytest.raises(RemoteRefused) as refused:
        called(told)
    assert (refused.value.clear, refused.value.unknown_method) == (clear, unknown)
    assert "canary" not in str(refused.value)


def test_a_server_that_needs_no_session_is_recognised_by_its_versions() -> None:
    named = {"io.modelcontextprotocol/serverInfo": {"name": "keeper", "version": "1"}}
    versions = ["2025-11-25", STATELESS_VERSION]
    assert discovered({"supportedVersions": versions, "_meta": named}, "/m") == Party(
        "/m", STATELESS_VERSION, None, "keeper"
    )
    for told in ({}, {"supportedVersions": ["2025-11-25"]}, {"supportedVersions": STATELESS_VERSION}):
        assert discovered(told, "/m") is None


@pytest.mark.parametrize("version", [None, "2023-01-01", "2099-01-01", STATELESS_VERSION, 7])
def test_a_protocol_that_is_not_known_is_refused(version: object) -> None:
    with pytest.raises(RemoteRefused, match="no version"):
        introduced({"protocolVersion": version}, "/mcp", None)


@pytest.mark.parametrize("session", ["", "two words", "s\x00", "é", "x" * 2_000])
def test_a_session_id_that_no_header_can_hold_is_not_taken(session: str) -> None:
    with pytest.raises(RemoteUnavailable, match="session id"):
        introduced({"protocolVersion": "2025-11-25"}, "/mcp", session)


def test_a_page_of_tools_is_read_as_far_as_its_shape_goes() -> None:
    schema = {"type": "object", "properties": {"content": {}, "idempotency_key": {}}, "required": ["content", 7]}
    listed = [{"name": "a", "inputSchema": schema}, {"name": 7}, "b", {"name": "c"}]
    page, cursor = tools({"tools": listed, "nextCursor": "n"})
    taken = Arguments(frozenset({"content", "idempotency_key"}), frozenset({"content"}))
    assert page == {"a": taken, "c": None}
    assert cursor == "n"
    assert tools({"tools": {}, "nextCursor": 7}) == ({}, None)


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"properties": {"content": {}}, "additionalProperties": True}, None, []]
)
def test_a_tool_that_does_not_say_what_it_takes_may_take_anything(schema: object) -> None:
    assert tools({"tools": [{"name": "a", "inputSchema": schema}]}) == ({"a": None}, None)


@given(JSON, st.integers(0, 5))
def test_any_json_is_an_answer_of_ours_or_one_of_the_errors(value: Any, number: int) -> None:
    with contextlib.suppress(RemoteError, Misunderstood):
        found = answer(json.dumps(value).encode(), number)
        if found is not None:
            json.dumps(called(result(found)))  # raises for what is no JSON
        assert found is None or "result" in found


@given(st.dictionaries(st.sampled_from(["content", "structuredContent", "isError", "resultType", "data"]), JSON))
def test_any_result_of_a_tool_is_a_value_or_one_of_the_errors(told: dict[str, Any]) -> None:
    try:
        value = called(told)
    except RemoteError:
        return
    assert json.loads(json.dumps(value)) == value


@given(st.dictionaries(st.sampled_from(["tools", "nextCursor", "supportedVersions", "_meta", "serverInfo"]), JSON))
def test_any_greeting_is_read_or_refused(told: dict[str, Any]) -> None:
    (listed, _), party = tools(told), discovered(told, "/mcp")
    assert all(isinstance(name, str) for name in listed)
    assert party is None or party.protocol in told["supportedVersions"]
    with pytest.raises(RemoteRefused, match="no version of mcp"):  # no `protocolVersion` is said
        introduced(told, "/mcp", None)


@given(st.integers(300, 999), st.binary(max_size=80))
def test_any_other_status_is_one_of_the_errors(status: int, body: bytes) -> None:
    assert isinstance(turned_away(status, body, None, NOW), RemoteError | Misunderstood)
