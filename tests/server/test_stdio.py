"""The server as a process on standard input and output: what hosts start."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from kingly_memory.adapters.local.folder import locked
from kingly_memory.server.stdio import MOST_WAITING, _Conversation
from tests.cli_runner import Run, environment
from tests.mcp_sessions import ERAS, Wire, process_session, wire
from tests.scripted.remote import ScriptedRemote
from tests.test_examples import run_example

EMOJI = "\N{PILE OF POO}" * 262_144
"""1 MiB of UTF-8."""


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with wire(tmp_path_factory.mktemp("stdio") / "home") as speaking:
        yield speaking


@pytest.mark.requirement("KNG-073")
@pytest.mark.requirement("UNI-011")
async def test_several_hosts_on_one_home_lose_nothing_and_find_what_the_others_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with process_session(home, mode=ERAS[0]) as one, process_session(home, mode=ERAS[1]) as two:
        hosts = {"one": one, "two": two}
        await asyncio.gather(
            *(
                host.ok("remember", key=f"{name}-{number}", value=f"harbour {name} {number}")
                for name, host in hosts.items()
                for number in range(20)
            )
        )
        for name, host in hosts.items():
            assert {tool.name for tool in (await host.client.list_tools()).tools} >= {"memory_hybrid_search", "recall"}
            about = {"key": f"{name}-note", "content": f"Reviews of {name}", "context_id": f"work of {name}"}
            await host.ok("memory_intelligent_store", **about)
        for name, host in hosts.items():
            found = await host.ok("memory_hybrid_search", query="reviews")
            assert {hit["key"] for hit in found["results"]} == {"one-note", "two-note"}
            assert (await host.ok("memory_get_working_context"))["context_id"] == f"work of {name}"
            assert (await host.ok("list"))["count"] == 42
            assert (await host.ok("recall", key="two-7"))["value"] == "harbour two 7"


def test_the_handshake_does_not_wait_for_a_locked_store(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run("store", "x", "--key", "k", "--home", str(home), "--project", "app").code == 0
    with locked(home / "write.lock", 5), wire(home) as speaking:
        assert speaking.call("recall", '{"key":"k"}')["structuredContent"]["value"] == "x"


def test_a_home_that_is_not_trusted_is_said_by_the_tools_and_not_by_silence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "store").symlink_to(tmp_path)
    with wire(home) as speaking:
        result = speaking.call("recall", '{"key":"k"}')
        assert result["isError"] is True
        assert "is not opened: it is a symbolic link" in result["content"][0]["text"]
        assert speaking.hang_up() == 0


@pytest.mark.requirement("KNG-086")
def test_the_example_of_a_client_session_does_what_it_says(tmp_path: Path) -> None:
    said = run_example("mcp_session.py", tmp_path).splitlines()
    assert said[:2] == ["7 tools, memory_intelligent_store first", "stored in ['local'], delivery local_only"]
    assert said[2] == "current context: release-7 with 3 memories at hand"
    assert said[3].startswith("found deploy: Deploys need two reviews (")
    assert said[4].endswith("from 3 similar tasks")


# --- hostile lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sent", "kept"),
    [
        ("surrogate", r"a\ud800b", "a\ufffdb"),
        ("backwards", r"\udc00\ud83d", "\ufffd\ufffd"),
        ("pair", r"\ud83d\ude00", "\N{GRINNING FACE}"),
        ("escaped", r"\\ud800", "\\ud800"),
        ("nul", r"a\u0000b", "a\0b"),
        ("separators", r"a\u2028b\u0085", "a\u2028b\u0085"),
    ],
)
def test_any_text_is_kept_and_comes_back(speaking: Wire, name: str, sent: str, kept: str) -> None:
    stored = speaking.call("memory_intelligent_store", f'{{"key":"{name}","content":"x{sent}","title":"t"}}')
    assert stored["isError"] is False
    got = speaking.call("memory_get", f'{{"key_or_id":"{name}"}}')["structuredContent"]["memory"]
    assert got["content"] == f"x{kept}"


@pytest.mark.parametrize("escaped", [True, False])
def test_a_mebibyte_of_emoji_is_stored_and_comes_back_whole(speaking: Wire, escaped: bool) -> None:
    text = json.dumps(EMOJI, ensure_ascii=escaped)
    assert speaking.call("memory_intelligent_store", f'{{"key":"emoji","content":{text}}}')["isError"] is False
    got = speaking.call("memory_get", '{"key_or_id":"emoji"}')
    assert got["structuredContent"]["memory"]["content"] == EMOJI
    refused = speaking.call("memory_intelligent_store", f'{{"key":{text},"content":"x"}}')
    assert refused["content"][0]["text"] == "key: has 262,144 characters, at most 512 are allowed"
    found = speaking.call("memory_hybrid_search", f'{{"query":{text}}}')
    assert found["isError"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        r'{"\ud800":1}',
        r'{"key_or_id":"\ud800"}',
        r'{"key_or_id":"a\u0000b"}',
        '{"key_or_id":' + "[" * 150 + "]" * 150 + "}",
        '{"key_or_id":NaN}',
        '{"key_or_id":1e999}',
        '{"key_or_id":' + "9" * 4_000 + "}",
    ],
    ids=["surrogate name", "surrogate", "nul", "deep", "nan", "infinite", "huge"],
)
def test_arguments_that_make_no_sense_are_a_tool_error(speaking: Wire, arguments: str) -> None:
    result = speaking.call("memory_get", arguments)
    assert result["isError"] is True
    assert len(result["content"][0]["text"]) < 400


@pytest.mark.parametrize(
    ("line", "codes", "asked"),
    [
        (b'{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{', {-32700}, 71),
        (b'{"method":"tools/call","params":{"x":"' + b"y" * 9_000_000 + b'"},"jsonrpc":"2.0","id":72}', {-32600}, 72),
        (b'{"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b',"jsonrpc":"2.0","id":73}', {-32700}, 73),
        (b'{"id":76,"method":"tools/call","params":' + b"[" * 900 + b"]" * 900 + b"}", {-32700, -32600}, 76),
        (b"[]", {-32600}, None),
        (b"\xff\xfe\x00", {-32700}, None),
        (b'{"jsonrpc":"2.0","id":74,"method":"no/such"}', {-32601}, 74),
        (
            b'{"jsonrpc":"2.0","id":75,"method":"tools/call","params":{"name":"memory_get","arguments":[]}}',
            {-32602},
            75,
        ),
    ],
    ids=["unfinished", "too long", "deep", "less deep", "batch", "bytes", "unknown method", "list of arguments"],
)
def test_every_line_has_a_reply_and_the_next_one_is_answered(
    speaking: Wire, line: bytes, codes: set[int], asked: int | None
) -> None:
    """Some Pythons can read what is less deep, and find no message in it."""
    answer = speaking.exchange(line)
    assert (answer["error"]["code"] in codes, answer["id"]) == (True, asked)
    assert speaking.call("memory_status", "{}")["isError"] is False


def test_a_stray_print_does_not_reach_the_protocol(tmp_path: Path) -> None:
    script = """
import os, sys
from kingly_memory.cli.main import main
from kingly_memory.server import answers
def loud(result, *_):
    print("from python", flush=True)
    os.write(1, b"from the descriptor\\n")
    return result
answers.ANSWERS = {**answers.ANSWERS, "list": loud}
sys.exit(main(["mcp", "--home", sys.argv[1], "--tools", "legacy"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "home")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment()),
    ) as running:
        speaking = Wire(running)
        speaking.shake_hands()
        assert speaking.call("list", "{}")["structuredContent"]["keys"] == []
        assert speaking.hang_up() == 0
        assert running.stderr is not None
        assert running.stderr.read() == b"from python\nfrom the descriptor\n"


# --- the end --------------------------------------------------------------------------------------------------------


def test_when_input_ends_what_was_asked_is_answered_first(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with wire(home) as speaking:
        speaking.call("recall", '{"key":"opened, which takes the longest"}')
        for number in range(10):
            line = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
            speaking.send(
                json.dumps(
                    {**line, "params": {"name": "remember", "arguments": {"key": f"k{number}", "value": "v"}}}
                ).encode()
            )
        assert speaking.hang_up() == 0
        assert speaking.process.stdout is not None
        answers = [json.loads(line) for line in speaking.process.stdout]
        assert speaking.process.stderr is not None
        assert speaking.process.stderr.read() == b""
    assert sorted(answer["id"] for answer in answers) == list(range(10))
    assert [answer for answer in answers if answer["result"]["isError"]] == []
    assert len(run("list", "--home", str(home), "--project", "app", "--json").json["memories"]) == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_and_leaves_nothing_locked(run: Run, tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    with wire(home) as speaking:
        speaking.call("remember", '{"key":"k","value":"v"}')
        speaking.process.send_signal(number)
        assert speaking.process.wait(timeout=30) == (0 if number == signal.SIGTERM else 130)
        assert speaking.process.stderr is not None
        assert speaking.process.stderr.read() == b""
    assert run("get", "k", "--home", str(home), "--project", "app", "--json").json["content"] == "v"


def test_a_call_that_would_go_on_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with ScriptedRemote(always="hang") as remote, wire(tmp_path / "home", "--remote", remote.url) as speaking:
        asked = {"name": "memory_intelligent_store", "arguments": {"key": "k", "content": "x", "wait": 60}}
        speaking.send(json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": asked}).encode())
        assert speaking.hang_up() == 0
        assert speaking.receive()["error"]["message"] == "Connection closed"


def test_a_store_that_another_process_holds_does_not_hold_up_the_end(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with wire(home) as speaking:
        speaking.call("remember", '{"key":"k","value":"v"}')
        with locked(home / "write.lock", 5):
            speaking.call("recall", '{"key":"k"}')
            asked = {"name": "remember", "arguments": {"key": "late", "value": "v"}}
            speaking.send(json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": asked}).encode())
            assert speaking.hang_up() == 0
            assert speaking.receive()["error"]["message"] == "Connection closed"


def test_a_host_that_reads_nothing_any_more_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with wire(tmp_path / "home") as speaking:
        speaking.call("memory_intelligent_store", f'{{"key":"big","content":{json.dumps(EMOJI, ensure_ascii=False)}}}')
        for number in range(4):
            asked = {"name": "memory_get", "arguments": {"key_or_id": "big"}}
            line = {"jsonrpc": "2.0", "id": f"unread-{number}", "method": "tools/call", "params": asked}
            speaking.send(json.dumps(line).encode())
        speaking.process.send_signal(signal.SIGTERM)
        assert speaking.process.wait(timeout=30) == 0


def test_a_host_that_closes_its_end_stops_the_server(tmp_path: Path) -> None:
    with wire(tmp_path / "home") as speaking:
        assert speaking.process.stdout is not None
        speaking.process.stdout.close()
        speaking.send(b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}')
        assert speaking.process.wait(timeout=30) == 0


async def test_requests_beyond_the_most_that_may_wait_are_taken_when_others_are_answered() -> None:
    source, asking = os.pipe()
    reading, sink = os.pipe()
    requests = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % (number % 3) for number in range(MOST_WAITING + 20)]
    os.write(asking, b"".join(requests))
    conversation = _Conversation(sink, 1_000)
    async with conversation.running(source):
        for _ in range(MOST_WAITING):
            await conversation.incoming.receive()
        for number in range(20):
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.WouldBlock):
                conversation.incoming.receive_nowait()
            answer = JSONRPCResponse(jsonrpc="2.0", id=number % 3, result={})
            await conversation.outgoing.send(SessionMessage(answer))
            await conversation.incoming.receive()
        os.close(asking)
    for descriptor in (source, reading, sink):
        os.close(descriptor)


@pytest.mark.parametrize("end", ["input", "signal"])
def test_a_host_that_floods_and_reads_nothing_does_not_hold_up_the_end(tmp_path: Path, end: str) -> None:
    with wire(tmp_path / "home") as speaking:
        stdin = speaking.process.stdin
        assert stdin is not None
        flood = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % number for number in range(5_000))
        os.set_blocking(stdin.fileno(), False)
        rest = memoryview(flood)
        while select.select([], [stdin], [], 0.3)[1]:  # until the server reads no more, or has taken everything
            rest = rest[os.write(stdin.fileno(), rest) :]
            assert rest, "the server has taken everything"
        if end == "signal":
            speaking.process.send_signal(signal.SIGTERM)
        else:
            stdin.close()
        assert speaking.process.wait(timeout=30) == 0


def test_warnings_that_nobody_reads_do_not_stop_the_server(tmp_path: Path) -> None:
    """A pipe for standard error holds 64 KiB; here it is full from the beginning."""
    full, sink = os.pipe()
    os.set_blocking(sink, False)
    try:
        while True:
            os.write(sink, b"x" * 65_536)
    except BlockingIOError:
        os.set_blocking(sink, True)
    command = [sys.executable, "-m", "kingly_memory", "mcp", "--home", str(tmp_path / "home")]
    with subprocess.Popen(
        [*command, "--remote", "http://127.0.0.1:9"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=sink,
        env=dict(environment()),
    ) as running:
        speaking = Wire(running)
        speaking.shake_hands()
        for number in range(5):
            speaking.call("memory_intelligent_store", f'{{"key":"k{number}","content":"x","wait":1}}')
        assert speaking.hang_up() == 0
    os.close(full)
    os.close(sink)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--tools", "memory,alchemy"],
            "tools: 'alchemy' is unknown; choose from memory, thoughts, alma, lifecycle, ai, ",
        ),
        (["--tools", ","], "tools: names no toolset"),
        (["--http", "--port", "70000"], "70000 is outside 0 to 65535"),
    ],
)
def test_a_server_that_must_not_run_says_why(run: Run, tmp_path: Path, options: list[str], words: str) -> None:
    ran = run("mcp", "--home", str(tmp_path / "home"), *options)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_a_setting_that_makes_no_sense_is_said_before_anything_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_LIFETIMES", "working=often")
    ran = run("mcp")
    assert (ran.code, ran.out) == (2, "")
    assert "lifetimes.working in KINGLY_LIFETIMES" in ran.err
