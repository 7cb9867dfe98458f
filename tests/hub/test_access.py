"""Who may call the hub and the MCP server over HTTP: tokens, names of this machine, and no foreign web page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kingly_memory.errors import InvalidSetting
from kingly_memory.hub.access import Access, Gate, Refusal, is_loopback
from kingly_memory.server.web import access_of
from tests.hub.stub import in_process

TOKEN = "t0ken-of-the-test"
BEARER = {"authorization": f"Bearer {TOKEN}"}
OPEN = Access.of(None, None)
HUB = Access.of(TOKEN, None)
MCP = access_of(TOKEN)


def outcome(access: Access, headers: dict[str, str]) -> int:
    """The status of a refusal; 200 for who is let in."""
    try:
        access.admit(headers)
    except Refusal as refusal:
        return refusal.status
    return 200


OURS = ("localhost", "LOCALHOST:9", "localhost.", "127.0.0.1", "127.8.8.8:80", "127.0.0.2:8001", "[::1]:8000")
FOREIGN = (
    *("evil.example", "127.0.0.1.evil.example:80", "192.0.2.1", "", "localhost@evil.example", "[::"),
    *("example", "x.memory.example"),
)


@pytest.mark.parametrize("host", [*OURS, *FOREIGN])
def test_a_server_answers_under_the_names_of_this_machine(host: str) -> None:
    ours = 200 if host in OURS else 421
    assert outcome(MCP, {"host": host, **BEARER}) == ours
    assert outcome(MCP, {"host": host, "authorization": "Bearer wrong"}) == (401 if host in OURS else 421)
    assert outcome(OPEN, {"host": host}) == ours
    assert outcome(HUB, {"host": host, **BEARER}) == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
        ("http://localhost:6274", 200),
        ("http://LocalHost.:3", 200),
    ],
)
def test_a_foreign_web_page_is_refused(origin: str, status: int) -> None:
    here = {"host": "localhost", "origin": origin}
    assert [outcome(access, {**here, **BEARER}) for access in (MCP, OPEN)] == [status, status]
    assert outcome(MCP, here) == (401 if status == 200 else status)
    assert outcome(HUB, {**here, **BEARER}) == 200


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
@pytest.mark.parametrize("access", [HUB, MCP], ids=["hub", "mcp"])
def test_who_brings_no_right_token_is_refused(access: Access, authorization: str | None) -> None:
    brought = {} if authorization is None else {"authorization": authorization}
    assert outcome(access, {"host": "localhost", **brought}) == 401
    assert outcome(access, {"host": "localhost", "authorization": f"bearer {TOKEN}"}) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "hub.example", ""])  # noqa: S104  # refused
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(InvalidSetting, match="KINGLY_HUB_TOKEN"):
        OPEN.check_bind(host)
    HUB.check_bind(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.1.1"])
def test_this_machine_alone_needs_neither(host: str) -> None:
    assert is_loopback(host)
    OPEN.check_bind(host)


@pytest.mark.parametrize("token", ["", "two words", "tök", "a\n"])
@pytest.mark.parametrize("made", [lambda token: Access.of(token, None), access_of], ids=["hub", "mcp"])
def test_a_token_that_no_header_can_carry_is_refused(made: Callable[[str], Access], token: str) -> None:
    with pytest.raises(InvalidSetting, match="visible ASCII"):
        made(token)


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(HUB) + repr(MCP)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"canary": 5}', '{"canary": ""}', '{"": "x"}', '{"can ary": "x"}'])
def test_a_tokens_file_that_makes_no_sense_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.touch(mode=0o600)
    tokens.write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        Access.of(None, tokens)
    assert "canary" not in str(refused.value).replace(str(tokens), "")


def test_a_missing_tokens_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"gone\.json"):
        Access.of(None, tmp_path / "gone.json")


@pytest.mark.requirement("A19")
@pytest.mark.parametrize("made", [lambda token: Access.of(token, None), access_of], ids=["hub", "mcp"])
def test_a_token_that_could_be_guessed_is_refused_with_what_to_do(made: Callable[[str], Access]) -> None:
    with pytest.raises(
        InvalidSetting, match="is shorter than 16 characters and could be guessed; use a longer one, as `python -c"
    ):
        made("x" * 15)
    assert made("x" * 16).tokens


def brings(token: str) -> dict[str, str]:
    return {"host": "localhost", "authorization": f"Bearer {token}"}


@pytest.mark.requirement("A19")
async def test_wrong_tokens_are_answered_later_and_later_and_a_right_one_at_once() -> None:
    waited: list[float] = []
    now_s = [0.0]

    async def sleep(pause_s: float) -> None:
        waited.append(pause_s)

    gate = Gate(lambda: Access.of(TOKEN, None), monotonic=lambda: now_s[0], sleep=sleep)
    for _ in range(150):
        with pytest.raises(Refusal):
            await gate.admit(brings("wrong"))
    assert waited[:3] == [0.01, 0.02, 0.03]
    assert waited[-1] == max(waited) == 1.0
    await gate.admit(brings(TOKEN))
    assert len(waited) == 150
    now_s[0] = 61.0
    with pytest.raises(Refusal):
        await gate.admit(brings("wrong"))
    assert waited[-1] == 0.01


@pytest.mark.requirement("A19")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/call"])
async def test_a_wrong_token_is_slowed_in_both_dialects_and_no_other_refusal_is(path: str) -> None:
    waited: list[float] = []

    async def sleep(pause_s: float) -> None:
        waited.append(pause_s)

    frame = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    async with in_process(dict, Gate(lambda: access_of(TOKEN), sleep=sleep)) as web:
        for headers, status, pauses in (
            ({**BEARER, "host": "evil.example"}, 421, []),
            ({**BEARER, "origin": "https://evil.example"}, 403, []),
            (BEARER, 200 if path == "/mcp" else 404, []),
            (brings("wrong"), 401, [0.01]),
            (brings("wrong"), 401, [0.01, 0.02]),
        ):
            assert (await web.post(path, json=frame, headers=headers)).status_code == status
            assert waited == pauses


@pytest.mark.requirement("A19")
async def test_a_token_in_a_file_is_replaced_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    path.touch(mode=0o600)
    path.write_text('{"the-first-token-of-ada": "ada"}')
    gate = Gate(lambda: Access.of(None, path), [path])
    await gate.admit(brings("the-first-token-of-ada"))
    path.write_text('{"the-second-token-of-ada": "ada"}')
    with pytest.raises(Refusal):
        await gate.admit(brings("the-first-token-of-ada"))
    caller = await gate.admit(brings("the-second-token-of-ada"))
    assert caller.grant.namespace == "ada"
    path.write_text("half of")
    await gate.admit(brings("the-second-token-of-ada"))
    assert "the tokens stay as they were" in caplog.text
    path.chmod(0o644)
    path.write_text('{"the-third-token-of-ada": "ada"}')
    with pytest.raises(Refusal):
        await gate.admit(brings("the-third-token-of-ada"))
    path.chmod(0o600)
    await gate.admit(brings("the-third-token-of-ada"))
