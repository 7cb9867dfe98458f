"""An address is checked once; what is shown of it holds no secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import DEFAULT_ENDPOINT

SECRETIVE = "https://user:hunter2@Memory.Example:8443/team/?api_key=s3cret#fragment"


@pytest.mark.requirement("KNG-063")
def test_the_named_default_is_a_good_address() -> None:
    assert str(endpoint(DEFAULT_ENDPOINT)) == "http://localhost:8000"


def test_what_is_shown_has_neither_user_info_nor_query() -> None:
    shown = endpoint(SECRETIVE)
    assert str(shown) == "https://memory.example:8443/team"
    assert "hunter2" not in repr(shown)
    assert "s3cret" not in repr(shown)


def test_the_query_is_still_sent() -> None:
    assert endpoint(SECRETIVE).url("/mcp/call") == "https://memory.example:8443/team/mcp/call?api_key=s3cret"


@pytest.mark.parametrize(
    "same",
    ["http://Host", "http://host/", "http://host:80", "http://host.", "http://u:p@host", "http://host?q=1#f"],
)
def test_one_place_has_one_name_however_it_is_written(same: str) -> None:
    assert endpoint(same).remote_name == endpoint("http://host").remote_name


@pytest.mark.parametrize("other", ["https://host", "http://host:81", "http://host/a", "http://host2"])
def test_another_place_has_another_name(other: str) -> None:
    name = endpoint(other).remote_name
    assert name != endpoint("http://host").remote_name
    assert len(name) == 16
    assert int(name, 16) >= 0


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.5", True),
        ("http://[::1]:9", True),
        ("http://hub.localhost", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
    ],
)
def test_loopback_is_recognised(url: str, loopback: bool) -> None:
    assert endpoint(url).loopback is loopback


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        "",
        "localhost:8000",
        "ftp://host",
        "file:///etc/passwd",
        "http://",
        "http://:8000",
        "http://host:0",
        "http://host:65536",
        "http://host:port",
        "http://[::1",
        "http://[zz]",
        "http://ho st",
        "http://host\r\nX-Header: 1",
        "http://127.0.0.1\\@evil.example",
        "http://host/\x00",
        "http://host/\ud800",
        "http://" + "h" * 3_000,
    ],
)
def test_an_address_that_cannot_be_used_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"^remote: "):
        endpoint(bad)


@pytest.mark.parametrize(
    "several", ["http://a, http://b", "http://a http://b", "http://a;home=http://b", "http://a home = https://b"]
)
def test_several_addresses_in_one_are_told_how_to_be_written(several: str) -> None:
    with pytest.raises(InvalidInput, match=r"written with names: team=http://…, home=http://…"):
        endpoint(several)


def test_an_address_in_a_query_is_no_second_one() -> None:
    assert endpoint("http://a/?next=1,http://b").query == "next=1,http://b"


def test_a_refusal_does_not_repeat_the_address() -> None:
    with pytest.raises(InvalidInput) as refused:
        endpoint("ftp://user:hunter2@host/?token=s3cret")
    assert "hunter2" not in str(refused.value)
    assert "s3cret" not in str(refused.value)


@given(st.text(max_size=60) | st.from_regex(r"https?://[^/]{0,30}(/.*)?", fullmatch=True))
def test_any_text_is_an_endpoint_or_invalid_input(text: str) -> None:
    try:
        found = endpoint(text)
    except InvalidInput:
        return
    assert endpoint(str(found)).remote_name == found.remote_name


@pytest.mark.requirement("A18")
@pytest.mark.parametrize(
    "token",
    [
        "9f8e7d6c5b4a39281706",
        "01a1fdb9-4b7a-747a-aaa6-367eabc4534c",
        "sk" + "-live1234567890abcdef",
        "Xy7Kq2Lm9Pz4",
        "T0r" + "x" * 40 + "9Q",
    ],
)
def test_a_part_of_the_path_that_looks_like_a_token_is_sent_and_not_shown(token: str) -> None:
    there = endpoint(f"https://memory.example.org/v2/{token}/mcp")
    assert str(there) == "https://memory.example.org/v2/\u2026/mcp"
    assert token not in repr(there)
    assert there.url("/call") == f"https://memory.example.org/v2/{token}/mcp/call"


@pytest.mark.parametrize("path", ["", "/mcp", "/memory-service/v2", "/organisations/acme-shop/memories", "/api_v1/mcp"])
def test_a_path_of_words_is_shown(path: str) -> None:
    assert str(endpoint(f"https://memory.example.org{path}")) == f"https://memory.example.org{path}"


@pytest.mark.parametrize("command", ["npx -y some-memory", "uvx basic-memory mcp", "/usr/bin/python3 server.py"])
def test_a_command_is_told_from_an_address(command: str) -> None:
    with pytest.raises(InvalidInput, match="start that server with its HTTP transport"):
        endpoint(command)
