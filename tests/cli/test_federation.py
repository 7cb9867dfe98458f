"""Several remotes on the command line and over MCP: named once, told apart everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.settings import Settings
from tests.cli_runner import Run, hurry, process, runner
from tests.mcp_sessions import session
from tests.scripted.remote import ScriptedRemote

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    hurry(monkeypatch)
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "5")
    return runner(capsys, monkeypatch)


@pytest.fixture
def team() -> Iterator[ScriptedRemote]:
    with ScriptedRemote(token="of-the-team") as server:
        yield server


@pytest.fixture
def home() -> Iterator[ScriptedRemote]:
    with ScriptedRemote() as server:
        yield server


@pytest.fixture
def both(team: ScriptedRemote, home: ScriptedRemote, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("KINGLY_TOKEN_TEAM", "of-the-team")
    return ("--remote", f"team={team.url}", "--remote", f"home={home.url}")


def test_a_command_line_names_several_remotes(run: Run, both: tuple[str, ...]) -> None:
    stored = run("store", "Deploys need two reviews", "--require-remote", "--json", *both).json
    assert (stored["layers"], stored["delivery"]) == (["local", "team", "home"], "delivered")
    said = run("store", "My doctor is at noon", "--wait", "30", *both).out
    assert "on this machine and on team and on home" in said
    found = run("search", "doctor", "--json", *both).json
    assert set(found["layers"]) == {"local", "team", "home"}
    status = run("status", *both)
    assert "sync" not in status.out
    assert [line.split()[:2] for line in status.out.splitlines() if line.startswith(("link", "outbox"))] == [
        ["link", "team"],
        ["outbox", "team"],
        ["link", "home"],
        ["outbox", "home"],
    ]
    doctor = run("doctor", "--json", *both).json
    about = {one["about"] for one in doctor["findings"]}
    assert {"link team", "link home"} <= about


def test_one_remote_of_several_is_synced_listed_retried_and_dropped(
    run: Run, home: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINGLY_REMOTE", f"team={NOBODY}, home={home.url}")
    told = run("store", "A note", "--key", "note", "--wait", "30").out
    assert "on this machine and on home; team gets it later" in told
    synced = run("sync", "--timeout", "5")
    assert synced.code == 1
    assert "team: 0 delivered, 1 waiting, 0 dead; offline" in synced.out
    assert run("sync", "--remote-name", "home").code == 0
    table = run("outbox", "list").out.splitlines()
    assert ("REMOTE" in table[0], "team" in table[1].split(), len(table)) == (True, True, 2)
    assert run("outbox", "list", "--remote-name", "home").out == "the outbox is empty\n"
    assert "or now with `kingly-memory sync --remote-name team`" in run("status").out
    assert "1 delivery will be tried again" in run("outbox", "retry", "note", "--remote-name", "team").out
    assert "1 delivery given up" in run("outbox", "drop", "note", "--remote-name", "team").out
    assert run("outbox", "list").out == "the outbox is empty\n"


def test_a_name_that_is_none_is_said(run: Run, both: tuple[str, ...]) -> None:
    wrong = run("outbox", "list", "--remote-name", "lab", *both)
    assert (wrong.code, "'lab' is none of the remotes, which are team, home" in wrong.err) == (2, True)
    unnamed = run("status", "--remote", NOBODY, "--remote", NOBODY)
    assert (unnamed.code, "each needs a name" in unnamed.err) == (2, True)


def test_a_store_says_whose_token_keeps_it_here(run: Run, team: ScriptedRemote, home: ScriptedRemote) -> None:
    pair = ("--remote", f"team={team.url}", "--remote", f"home={home.url}")
    run("sync", *pair)
    assert (
        "  nothing is sent to team until a token is accepted; see `kingly-memory doctor" in run("store", "x", *pair).out
    )
    alone = ("--remote", team.url)
    assert "nothing is sent to the remote until" in run("store", "y", *alone).out
    assert "until a token" not in run("store", "z", "--remote", NOBODY).out


def test_a_remote_without_a_name_is_not_called_one(run: Run) -> None:
    wrong = run("outbox", "list", "--remote-name", "lab", "--remote", NOBODY)
    assert (wrong.code, "'lab' is no remote's name; the one there is has none" in wrong.err) == (2, True)


def test_a_local_search_asks_none_of_them(run: Run, team: ScriptedRemote, both: tuple[str, ...]) -> None:
    run("store", "Deploys need two reviews", *both)
    asked = len(team.requests)
    found = run("search", "deploys", "--no-semantic", "--json", *both).json
    assert (found["source"], len(found["hits"]), len(team.requests)) == ("local", 1, asked)


def test_a_search_says_of_each_why_it_was_not_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_REMOTE", f"team={NOBODY}, home={NOBODY}1")
    run("store", "Deploys need two reviews")
    run("sync", "--timeout", "5")
    found = run("search", "deploys", "--json").json
    assert (found["source"], found["failures"].keys()) == ("local_fallback", {"team", "home"})


def test_a_process_of_its_own_finds_them_in_the_environment(
    team: ScriptedRemote, home: ScriptedRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "5")
    ran = process(
        "store",
        "A note",
        "--require-remote",
        "--json",
        "--home",
        str(tmp_path / "h"),
        KINGLY_REMOTE=f"team={team.url}, home={home.url}",
        KINGLY_TOKEN="of-the-team",
    )
    assert ran.json["layers"] == ["local", "team", "home"]
    assert {call.headers.get("authorization") for call in home.requests} == {None}


async def test_an_agent_sees_each_remote_in_the_status(
    team: ScriptedRemote, home: ScriptedRemote, tmp_path: Path
) -> None:
    patient = Settings(remote_search_s=5.0, durability="process", embedder="none")
    about: dict[str, Any] = {"remote": {"team": team.url, "home": home.url}, "token": "of-the-team"}
    async with session(tmp_path / "home", settings=patient, **about) as host:
        stored = await host.ok("memory_intelligent_store", key="k", content="Deploys need two reviews", wait=30)
        status = await host.ok("memory_status")
        found = await host.ok("memory_hybrid_search", query="deploys")
    assert stored["storage_layers"] == ["local", "team", "home"]
    assert {name: one["state"] for name, one in status["remotes"].items()} == {"team": "connected", "home": "connected"}
    assert found["source"] == "hybrid"
