"""The command line against a hub that it runs itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from kingly_memory.cli.parser import parse
from tests.cli_runner import Run, environment


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("canary-of-a-token\n")
    return file


@pytest.fixture
def hub(tmp_path: Path, token_file: Path) -> Iterator[str]:
    """The address of a hub that asks for the token."""
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hub", "--port", "0", "--home", str(tmp_path / "hub")],
        env=environment(KINGLY_HUB_TOKEN=token_file.read_text().strip()),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        yield running.stdout.readline().rpartition(" ")[2].strip()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0


def test_what_one_home_stores_another_finds_through_the_hub(run: Run, hub: str, token_file: Path) -> None:
    remote = ("--remote", hub, "--token-file", str(token_file), "--project", "p", "--json")
    stored = run("store", "The harbour opens at six.", "--key", "k", "--require-remote", *remote)
    assert (stored.json["delivery"], stored.json["layers"]) == ("delivered", ["local", "remote"])
    assert (run("sync", *remote).code, run("status", *remote).json["outbox"]["pending"]) == (0, 0)
    found = run("search", "harbour", *remote, "--home", "elsewhere").json
    assert (found["source"], [hit["content"] for hit in found["hits"]]) == ("hybrid", ["The harbour opens at six."])
    assert run("forget", "k", *remote).code == 0
    assert run("sync", *remote).code == 0
    assert run("search", "harbour", *remote, "--home", "another").json["hits"] == []


def test_a_hub_says_where_it_listens_as_json(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hub", "--json", "--port", "0", "--home", str(tmp_path / "hub")],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert (running.stdout.read(), running.wait(timeout=30)) == ("", 0)
    url = urlsplit(json.loads(line)["url"])
    assert (url.scheme, url.hostname, url.port != 0) == ("http", "127.0.0.1", True)


@pytest.mark.requirement("N24")
def test_a_hub_says_of_each_call_who_called_what_and_nothing_of_what_was_said(tmp_path: Path, token_file: Path) -> None:
    said = {"query": "the content", "project": "the-project"}
    head = {"Authorization": f"Bearer {token_file.read_text().strip()}", "Kingly-Project": "the-project"}
    head |= {"Accept": "application/json, text/event-stream"}
    tool = {"name": "search_semantic_memories", "arguments": said}
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hub", "--access-log", "--port", "0", "--home", str(tmp_path / "hub")],
        env=environment(KINGLY_HUB_TOKEN_FILE=str(token_file)),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        url = running.stdout.readline().rpartition(" ")[2].strip()
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as web:
            web.post("/mcp/call", json={"method": "search_semantic_memories", "params": said}, headers=head)
            web.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}, headers=head)
            web.get("/the-content")
        running.send_signal(signal.SIGTERM)
        lines = running.stdout.read()
        assert running.wait(timeout=60) == 0
    calls = [json.loads(line) for line in lines.splitlines()]
    assert len(calls) == 3  # each when it has ended, a moment after its answer
    assert {(one["namespace"], one["method"], one["status"], one["from"]) for one in calls} == {
        ("default", "search_semantic_memories", 200, "127.0.0.1"),
        ("default", "mcp", 200, "127.0.0.1"),
        (None, "other", 404, "127.0.0.1"),
    }
    assert [word for word in ("content", "project", "canary") if word in lines] == []


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--port", "99999", "99999 is outside 0 to 65535"),
        ("--store", "mysql://x", "is no address of PostgreSQL; write postgresql://user@host:5432/database"),
        ("--tls-cert", "x.pem", "is of no use without --tls-key; name both, or neither"),
    ],
)
def test_an_option_of_the_hub_that_cannot_be_used_is_refused_by_its_name(
    run: Run, option: str, value: str, problem: str
) -> None:
    ran = run("hub", option, value, "--home", "hub")
    assert (ran.code, ran.err) == (2, f"kingly-memory: {option}: {problem}\n")


def test_the_help_of_the_hub_tells_of_the_hub_alone(run: Run) -> None:
    said = " ".join(run("hub", "--help").out.split())
    for words in ("~/.local/share/kingly/hub", "KINGLY_HUB_TOKEN_FILE", "--json"):
        assert words in said
    for words in (".kingly/memory", "KINGLY_TOKEN", "--remote", "--project", "--agent"):
        assert words not in said


def test_the_options_of_the_hub_may_stand_before_its_name() -> None:
    options = parse(["--json", "--home", "h", "--token-file", "t", "hub", "--port", "0"])
    assert (options.json, options.home, options.token_file, options.port) == (True, "h", "t", 0)
    options = parse(["hub", "--json", "--home", "h", "--token-file", "t"])
    assert (options.json, options.home, options.token_file, options.port) == (True, "h", "t", 8000)


def test_a_wrong_token_is_said_and_loses_nothing(run: Run, hub: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.touch(mode=0o600)
    wrong.write_text("not-the-token")
    remote = ("--remote", hub, "--token-file", str(wrong))
    assert run("store", "x", "--key", "k", *remote).code == 0
    ran = run("sync", *remote)
    assert ran.code == 1
    assert "the token was not accepted" in ran.out
    assert "not-the-token" not in ran.out + ran.err
    assert [one["key"] for one in run("outbox", "list", *remote, "--json").json["entries"]] == ["k"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "no token is set"),  # noqa: S104  # refused is the point
        (["--port", "70000"], "70000 is outside 0 to 65535"),
        (["--tokens-file", "missing.json"], "missing.json cannot be read"),
        (["--token-file", "missing"], "missing cannot be read"),
        (["--tls-cert=~/missing", "--tls-key=~/missing"], "user/missing cannot be read"),
        (["--tokens-file=~no-such-user/x"], "tokens-file: '~no-such-user/x' cannot be used"),
    ],
)
def test_a_hub_that_must_not_run_says_why(run: Run, options: list[str], words: str) -> None:
    ran = run("hub", *options, "--home", "hub")
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_the_home_of_a_hub_may_be_named_from_that_of_its_user(run: Run, isolated_environment: Path) -> None:
    """A shell leaves the ~ behind a = to us."""
    assert run("hub", "quota", "ann", "5", "--home=~/hub").code == 0
    assert ((Path.home() / "hub").is_dir(), [*isolated_environment.iterdir()]) == (True, [])


@pytest.mark.requirement("N7")
def test_documents_of_a_shared_namespace_go_from_one_home_to_another_by_either_dialect(
    run: Run, hub: str, token_file: Path, tmp_path: Path
) -> None:
    laptop, desktop = (("--home", str(tmp_path / name), "--project", "app") for name in ("laptop", "desktop"))
    value = 'é🦉"\\' * 100_000
    alone = run("documents", "share", "users", *laptop)
    assert (alone.code, "no hub was added to this project" in alone.err) == (2, True)
    for name, address, place in (("one", hub, laptop), ("two", f"{hub}/mcp", desktop)):
        assert run("remotes", "add", name, address, "--token-file", str(token_file), *place).code == 0
    assert run("documents", "put", "users/lydia", "long", json.dumps(value), *laptop).code == 0
    assert run("documents", "put", "private", "diary", "mine", *laptop).code == 0
    shared = run("documents", "share", "users", *laptop)
    assert shared.out == "users is shared; 1 document or log item on the way to the hub\n"
    assert (
        run("documents", "share", "", *desktop).out
        == "every namespace is shared; 0 documents and log items on the way to the hub\n"
    )
    for place in (laptop, desktop):
        assert run("sync", *place).code == 0
    assert run("documents", "get", "users/lydia", "long", "--json", *desktop).json["value"] == value
    assert "private" not in run("documents", "namespaces", *desktop).out
    assert "all documents and logs" in run("remotes", *desktop).out
    assert (
        run("documents", "unshare", "users", *laptop).out == "users is shared no longer; what the hub has stays there\n"
    )
    assert run("documents", "unshare", "users", *laptop).out == "users was not shared\n"
