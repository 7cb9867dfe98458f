"""From bytes to messages and back: whatever arrives, there is something to say to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from kingly_memory.hub.bodies import mended_body
from kingly_memory.server import frames
from kingly_memory.server.frames import ENDS_BYTES, Unreadable, request_id, too_long
from kingly_memory.server.stdio import TooLong, lines
from kingly_memory.validation import mended_tree

ANY_TEXT = st.text(st.characters())
"""Lone surrogates and NUL included."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(ANY_TEXT, JSON)
def test_a_request_with_any_text_in_it_is_read_with_its_surrogates_mended(method: str, value: Any) -> None:
    sent = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"value": value}}
    read = frames.message(json.dumps(sent).encode())
    assert isinstance(read, JSONRPCRequest)
    assert read.params == {"value": mended_tree(value)}
    assert read.method == mended_tree(method)


@given(JSON)
def test_an_answer_with_any_text_in_it_is_one_line_that_can_be_read(value: Any) -> None:
    line = frames.line(JSONRPCResponse(jsonrpc="2.0", id=7, result={"value": value}))
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"] == {"value": mended_tree(value)}


def test_an_answer_that_is_no_json_at_all_becomes_an_error_with_its_id() -> None:
    line = frames.line(JSONRPCResponse(jsonrpc="2.0", id=7, result={"value": object()}))
    assert (json.loads(line)["id"], json.loads(line)["error"]["code"]) == (7, -32603)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_have_a_reply(line: bytes) -> None:
    try:
        frames.message(line)
    except Unreadable as unreadable:
        assert json.loads(frames.line(unreadable.reply))["error"]["message"]  # noqa: PT017  # either is right


@pytest.mark.parametrize(
    ("line", "code", "asked"),
    [
        (b'{"jsonrpc":"2.0","id":3,"method":"x"', -32700, 3),
        (b'{"id":"a-1","jsonrpc":"2.0","method":', -32700, "a-1"),
        (b'{"method":"x","params":{,"id":9},"jsonrpc":"2.0","id":4}', -32700, 4),
        (b'{"method":"x","params":' + b"[" * 100_000 + b',"jsonrpc":"2.0","id":5}', -32700, 5),
        (b'{"jsonrpc":"2.0","id":6,"method":"x","params":7}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":5}', -32600, "\ufffd"),
        (b'{"jsonrpc":"2.0","id":[1],"method":5}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":5}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1e2,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","method":"ping","id" : true}', -32600, None),
        (b'{"jsonrpc":"2.0","method":"ping","\\u0069d":{}}', -32600, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b"\xff\xfe", -32700, None),
        (b'{"n": ' + b"1" * 5_000 + b"}", -32700, None),
    ],
)
def test_what_cannot_be_read_is_answered_under_its_id_if_that_can_be_had(line: bytes, code: int, asked: object) -> None:
    with pytest.raises(Unreadable) as caught:
        frames.message(line)
    assert (caught.value.reply.error.code, caught.value.reply.id) == (code, asked)


def test_what_is_called_an_id_inside_a_message_is_not_its_id() -> None:
    read = frames.message(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":null}}')
    assert isinstance(read, JSONRPCRequest)
    assert isinstance(frames.message(b'{"jsonrpc":"2.0","method":"x","params":{"id":null}}'), JSONRPCNotification)


@given(JSON, st.integers(-(10**17), 10**17) | st.text("abc-123", max_size=20), st.booleans())
def test_an_id_is_found_where_clients_put_it_and_nowhere_else(value: Any, asked: int | str, first: bool) -> None:
    within = {"method": "tools/call", "params": {"id": 99, "value": value, "text": '"id":98}'}, "jsonrpc": "2.0"}
    message = {"jsonrpc": "2.0", "id": asked, **within} if first else {**within, "id": asked}
    line = json.dumps(message).encode()
    assert request_id(line, line) == asked
    without = json.dumps(within).encode()
    assert request_id(without, without) is None


def test_bytes_that_are_no_text_do_not_stop_a_message() -> None:
    read = frames.message(b'{"jsonrpc":"2.0","id":1,"method":"caf\xe9"}')
    assert isinstance(read, JSONRPCRequest)
    assert read.method == "caf\ufffd"


@given(JSON)
def test_a_body_says_the_same_without_lone_surrogates(value: Any) -> None:
    assert json.loads(mended_body(json.dumps(value).encode())) == mended_tree(value)


@given(st.binary(max_size=100).filter(lambda body: b"\\ud" not in body and b"\\uD" not in body))
def test_a_body_without_them_stays_as_it_is(body: bytes) -> None:
    assert mended_body(body) == body


# --- lines ------------------------------------------------------------------------------------------------------------


@contextmanager
def piped(*chunks: bytes) -> Iterator[int]:
    """A descriptor from which the chunks can be read one by one, as far as a pipe keeps them apart."""
    source, sink = os.pipe()
    try:
        for chunk in chunks:
            os.write(sink, chunk)
        os.close(sink)
        yield source
    finally:
        os.close(source)


@given(st.lists(st.binary(max_size=30).filter(lambda one: b"\n" not in one), max_size=20))
def test_lines_come_as_they_were_written_but_for_blank_ones(written: list[bytes]) -> None:
    with piped(b"\n".join(written)) as source:
        assert list(lines(source, 100)) == [one for one in written if one.strip()]


def test_a_line_at_the_limit_is_whole_and_of_a_longer_one_the_ends_are_kept() -> None:
    head, tail = b'{"id":1,', b',"jsonrpc":"2.0"}'
    long = head + b"x" * 40_000 + tail
    with piped(b"a" * 20_000 + b"\n" + long + b"\nnext\n") as source:
        whole, cut, following = lines(source, 20_000)
    assert (whole, following) == (b"a" * 20_000, b"next")
    assert cut == TooLong(long[:ENDS_BYTES], long[-ENDS_BYTES:])
    assert too_long(*cut, 20_000).id == 1


def test_a_long_line_that_never_ends_is_cut_too() -> None:
    with piped(b"y" * 60_000) as source:
        assert list(lines(source, 100)) == [TooLong(b"y" * ENDS_BYTES, b"y" * ENDS_BYTES)]
