"""Secrets planted everywhere, every output searched: commands, the MCP server, logs, and the arguments of processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runner import environment
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, speaking
from tests.scripted.remote import ScriptedRemote
from tests.scripted.wire_faults import CANARY

TEXT = "body-canary: the vault opens at nine"
SECRETS = ("token-canary", "user-canary", "password-canary", "query-canary", CANARY)
PLAYS = ("ok", "status=500", "status=401", "failure", "html", "reset", "redirect=302 http://query-canary.example/")
NEVER_SHOWN = (
    ("status",),
    ("status", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("outbox", "list"),
    ("outbox", "list", "--json"),
    ("config",),
    ("config", "--json"),
    ("sync", "--timeout", "0.5"),
    ("sync", "--timeout", "0.5", "--json"),
    ("outbox", "retry"),
    ("version",),
)
"""What has no reason to tell a memory's text either."""
SHOWN = (
    ("search", "vault"),
    ("search", "vault", "--json"),
    ("get", "vault"),
    ("list",),
    ("store", TEXT, "--wait", "1"),
)
VERBOSE = """
import logging, sys
from kingly_memory.cli.main import main
from kingly_memory.settings import Pace, Settings
Settings()
Settings.__init__.__kwdefaults__["pace"] = Pace(send_pause_s=0)
logging.basicConfig(level=1)
sys.exit(main())
"""
"""The command line in a program that logs everything that any library says, and tries again at once."""


def ran(home: Path, url: str, *arguments: str) -> tuple[str, str]:
    """What a command wrote to its output and to its log, with all levels on."""
    done = subprocess.run(
        [sys.executable, "-c", VERBOSE, *arguments, "--home", str(home)],
        capture_output=True,
        text=True,
        env=environment(
            KINGLY_TOKEN="token-canary",
            KINGLY_REMOTE=url,
            KINGLY_CALL_TIMEOUT_S="0.5",
        ),
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


CELLS = [
    pytest.param(
        play,
        dialect,
        marks=() if (play, dialect) == ("failure", "json-call") else pytest.mark.faults,
        id=f"{play}-{dialect}",
    )
    for dialect in DIALECTS
    for play in PLAYS
]


@pytest.mark.requirement("KNG-004")
@pytest.mark.parametrize(("play", "dialect"), CELLS)
def test_no_command_says_a_secret_whatever_the_remote_does(tmp_path: Path, play: str, dialect: str, tell: Tell) -> None:
    with ScriptedRemote(always=play, **speaking(dialect)) as server:
        url = f"http://user-canary:password-canary@127.0.0.1:{server.port}?api_key=query-canary"
        home = tmp_path / "home"
        said = [*ran(home, url, "store", TEXT, "--key", "vault", "--significance", "0.9")]
        everything = SHOWN + NEVER_SHOWN if play == "status=401" else NEVER_SHOWN[:6] + SHOWN[:1]
        for command in everything:
            output, log = ran(home, url, *command)
            said += [output, log]
            texts = [log] if command in SHOWN else [output, log]
            assert [text for text in texts if "body-canary" in text] == []
    assert [secret for secret in SECRETS if secret in "\n".join(said)] == []
    tell(30, f"{len(everything) + 1} commands, {len(SECRETS) + 1} canaries: 0 hits")


@pytest.mark.faults
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("play", ["status=500", "status=401", "failure", "html"])
def test_the_mcp_server_says_no_secret_in_an_error_or_a_log(tmp_path: Path, play: str, dialect: str) -> None:
    calls = [
        {"name": "memory_intelligent_store", "arguments": {"key": "vault", "content": TEXT, "wait": 1}},
        {"name": "memory_intelligent_store", "arguments": {"key": "\u0000", "content": TEXT, "wait": "body-canary"}},
        {"name": "memory_status", "arguments": {}},
        {"name": "no_such_tool", "arguments": {"content": TEXT}},
    ]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}]
    lines += [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines += [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call} for number, call in enumerate(calls, 1)
    ]
    with ScriptedRemote(always=play, **speaking(dialect)) as server:
        url = f"http://user-canary:password-canary@127.0.0.1:{server.port}?api_key=query-canary"
        done = subprocess.run(
            [sys.executable, "-c", VERBOSE, "mcp", "--tools", "all", "--home", str(tmp_path / "home")],
            input="".join(json.dumps(line) + "\n" for line in lines),
            capture_output=True,
            text=True,
            env=environment(KINGLY_TOKEN="token-canary", KINGLY_REMOTE=url),
            timeout=60,
            check=False,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len([answer for answer in answers if "id" in answer]) == len(calls) + 1
    assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []
    assert "body-canary: the vault" not in done.stdout.replace(json.dumps(TEXT), "")
    assert "Traceback" not in done.stderr
