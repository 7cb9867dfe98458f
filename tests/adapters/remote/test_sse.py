"""Event streams are read the same however the network cuts them, and give up nothing but whole messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.remote.mcp import messages

TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)
NOISE = st.sampled_from(
    [
        b": ping\r\n\r\n",
        b"event: endpoint\ndata: {}\n\n",
        b"id: 7\nretry: 10\ndata:\n\n",
        b"\n\n\r\n",
        b"unheard-of: field\n\n",
        b"event: ping\r\r",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def read(*pieces: bytes) -> list[bytes]:
    async def sent() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def all_of_them() -> list[bytes]:
        return [text async for text in messages(sent())]

    return driven(all_of_them())


def driven(work: Coroutine[None, None, list[bytes]]) -> list[bytes]:
    """What it comes to, without the cost of an event loop: it waits for nothing."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            told: list[bytes] = end.value
            return told


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(marks)]


@pytest.mark.requirement("KNG-067")
@given(st.lists(TEXTS, max_size=5), st.lists(NOISE, max_size=6), ENDS, st.lists(st.integers(0, 10_000), max_size=12))
def test_messages_survive_any_chunking_and_any_noise_between_them(
    texts: list[str], noise: list[bytes], end: bytes, places: list[int]
) -> None:
    stream = b""
    for number, text in enumerate(texts):
        stream += b"event: message" + end + b"data: " + text.encode() + end + end
        stream += noise[number] if number < len(noise) else b""
    assert read(*cut(stream, places)) == [text.encode() for text in texts]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_at_all_are_read_alike_whole_and_cut(stream: bytes, places: list[int]) -> None:
    assert read(*cut(stream, places)) == read(stream)


def test_an_event_without_a_name_is_a_message_and_its_lines_are_joined() -> None:
    assert read(b'data: {"a":\ndata:1}\n\n') == [b'{"a":\n1}']


def test_bytes_that_are_not_utf8_are_handed_on_as_they_came() -> None:
    assert read(b"data: \xff\xfe\x85\n\n") == [b"\xff\xfe\x85"]


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_only_line_feeds_and_carriage_returns_end_a_line(separator: str) -> None:
    text = f'{{"content": "one{separator}two"}}'
    assert read(b"data: " + text.encode() + b"\n\n") == [text.encode()]


@pytest.mark.parametrize("stream", [b"data: half", b"data: half\n", b'event: message\r\ndata: {"jsonrpc"'])
def test_a_message_that_the_stream_breaks_off_in_is_none(stream: bytes) -> None:
    assert read(stream) == []
