"""Remotes that a home knows, one or several, on the command line and over MCP: named once, told apart everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.models import JsonObject
from kingly_memory.settings import Settings
from tests.cli_runner import Run, hurry, process, runner
from tests.mcp_sessions import session
from tests.scripted.remote import ScriptedRemote

NOBODY, OTHER = "http://127.0.0.1:9", "http://127.0.0.1:10"
WAITING = f"1 memory for {NOBODY}, which is not named here"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    hurry(monkeypatch)
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "5")
    return runner(capsys, monkeypatch)


@pytest.fixture
def mistyped(run: Run) -> None:
    """A memory that was stored with an address at which nobody listens."""
    assert run("--remote", NOBODY, "store", "hello", "--significance", "0.8").code == 0


def line(text: str, beginning: str) -> str:
    return next((one for one in text.splitlines() if one.startswith(beginning)), "")


@pytest.mark.usefixtures("mistyped")
def test_status_shows_what_waits_for_a_remote_that_the_command_does_not_name(run: Run) -> None:
    for named in ((), ("--remote", OTHER)):
        said = run("status", *named).out
        waiting = line(said, "waiting")
        assert WAITING in waiting
        assert f"`kingly-memory remotes add NAME {NOBODY}` has it sent" in waiting
        assert f"`kingly-memory remotes forget {NOBODY}` gives it up" in waiting
        assert (line(said, "outbox") == "") is (named == ())  # for one without a name, there is none that is empty
        assert run("status", "--json", *named).json["elsewhere"] == [{"endpoint": NOBODY, "waiting": 1}]
    assert line(run("status", "--remote", NOBODY).out, "waiting") == ""


@pytest.mark.requirement("A18")
@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ((), "sync`"),
        (("--remote", NOBODY), f"sync --remote {NOBODY}`"),
        (("--remote", f"{NOBODY}/sk-live-8f3kd92kf02kd92k"), "sync --remote URL`"),
        (("--remote", "http://ana:secret1234@127.0.0.1:9"), "sync --remote URL`"),
    ],
)
def test_the_command_that_tries_now_names_the_remote_as_it_can_be_pasted(
    run: Run, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...], shown: str
) -> None:
    monkeypatch.setenv("KINGLY_REMOTE", f"{NOBODY}/sk-live-8f3kd92kf02kd92k")
    run("store", "hello", *named)
    found, checked = run("doctor", *named).out, run("status", *named).out
    assert f"`kingly-memory {shown}" in found
    assert "sk-live-8f" not in found + checked
    assert "secret1234" not in found + checked


@pytest.mark.requirement("A18")
def test_what_is_said_of_why_is_kept_without_secrets(run: Run, isolated_environment: Path) -> None:
    token = "sk-live-8f3kd92kf02kd92kXQ72"
    run("store", "one", "--key", "one")
    run("task", "record", "deploy", "--status", "failed", "--reason", f"{token} was refused")
    run("rate", "one", "not-useful", "--reason", f"{token} is old")
    run("archive", "add", "one", "--reason", f"{token} is old")
    kept = [path.read_bytes() for path in isolated_environment.rglob("*") if path.is_file()]
    assert [token.encode() in one for one in kept] == [False] * len(kept)
    assert "[redacted key] is old" in run("archive", "list").out


@pytest.mark.usefixtures("mistyped")
def test_doctor_notes_what_waits_elsewhere_with_the_remedy(run: Run) -> None:
    checked = run("doctor", "--json")
    [found] = [one for one in checked.json["findings"] if one["about"] == "waiting"]
    assert (found["level"], checked.code) == ("note", 0)
    assert f"kingly-memory remotes forget {NOBODY}" in found["to_do"]


@pytest.mark.usefixtures("mistyped")
def test_remotes_alone_lists_what_the_home_knows(run: Run) -> None:
    known: JsonObject = {"endpoint": NOBODY, "name": None, "in_use": False, "delivered": 0, "waiting": 1, "dead": 0}
    known |= {"since": None, "earlier": False, "shared": []}
    for words in (["remotes"], ["remotes", "list"]):
        assert run(*words, "--json").json == {"remotes": [known]}
        assert run("--json", *words).json == {"remotes": [known]}
    heads, row = run("remotes").out.splitlines()
    assert heads.split() == [
        "NAME",
        "IN",
        "USE",
        "SINCE",
        "EARLIER",
        "SHARED",
        "DELIVERED",
        "WAITING",
        "DEAD",
        "ADDRESS",
    ]
    assert row.split() == ["-", "no", "-", "-", "-", "0", "1", "0", NOBODY]


def test_a_home_without_remotes_says_so(run: Run) -> None:
    assert run("remotes").out == "no remote is known; `kingly-memory remotes add NAME URL` adds one\n"


def test_a_remote_in_use_is_listed_under_its_name(run: Run) -> None:
    with ScriptedRemote() as server:
        named = ("--remote", f"team={server.url}")
        assert run("store", "hello", "--require-remote", *named).code == 0
        [listed] = run("remotes", "--json", *named).json["remotes"]
        assert (listed["endpoint"], listed["name"], listed["in_use"]) == (server.url, "team", True)
        assert (listed["delivered"], listed["waiting"], listed["dead"]) == (1, 0, 0)


@pytest.mark.usefixtures("mistyped")
@pytest.mark.parametrize("address", ["http://localhost:9/", "127.0.0.1:9"])
def test_a_remote_is_forgotten_however_its_address_is_written(run: Run, address: str) -> None:
    done = run("remotes", "forget", address)
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        f"{NOBODY} is forgotten; 1 memory waited for it; all stay on this machine",
    )
    assert line(run("status").out, "waiting") == ""
    assert run("remotes", "--json").json == {"remotes": []}
    assert run("list", "--json").json["memories"]


@pytest.mark.usefixtures("mistyped")
def test_forgetting_is_refused_for_what_is_in_use_or_not_known(run: Run) -> None:
    used = run("remotes", "forget", NOBODY, "--remote", NOBODY)
    assert (used.code, "in use here" in used.err) == (2, True)
    unknown = run("remotes", "forget", "http://me:secret@127.0.0.1:11")
    assert (unknown.code, NOBODY in unknown.err, "secret" in unknown.err) == (2, True, False)
    assert run("status", "--json").json["elsewhere"]


async def test_mcp_tells_what_waits_elsewhere(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("--remote", NOBODY, "store", "hello", "--significance", "0.8", "--home", str(home))
    async with session(home) as host:
        assert (await host.ok("memory_status"))["elsewhere"] == [{"endpoint": NOBODY, "waiting": 1}]


def test_who_forgets_is_told_what_the_remote_has_heard_by_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, closing_s=30)
    with ScriptedRemote() as server:
        there = ("--remote", f"home={server.url}")
        for key in ("ferry", "fog"):
            run("store", f"The {key} is late", "--key", key, "--wait", "30", *there)
        assert "not forgotten yet" not in run("forget", "ferry", *there).out
        server.script("status=401", method="forget_memory")
        told = run("forget", "fog", *there).out
    assert "not forgotten yet on home; that follows (" in told


def test_every_receipt_says_what_the_remote_has_by_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, closing_s=30)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/early/late/")
    with ScriptedRemote() as server:
        there = ("--remote", f"home={server.url}")
        run("store", "The ferry is on time", "--key", "ferry", "--wait", "30", *there)
        for command in (
            ("update", "ferry", "The ferry is early"),
            ("edit", "ferry"),
            ("task", "record", "Take the ferry"),
            ("thought", "record", "The ferry may be late again"),
        ):
            assert "on this machine and on home" in run(*command, *there).out, command
        server.stop()
        told = run("update", "ferry", "The ferry has sunk", *there).out
    assert "on this machine; home gets it later" in told


def linked_in_vain(run: Run, server: ScriptedRemote, *faults: str) -> tuple[str, str]:
    """Two memories that the server has, and a link that it does not take; returns the options that name it."""
    here = ("--remote", server.url)
    for key in ("ferry", "fog"):
        run("store", f"The {key} is late", "--key", key, *here)
    server.script(*faults, method="create_memory_link")
    run("link", "ferry", "fog", *here)
    return here


def test_links_that_wait_are_in_the_status_and_a_sync_says_that_they_do(run: Run) -> None:
    with ScriptedRemote() as server:
        here = linked_in_vain(run, server, *["failure"] * 9)
        synced, status = run("sync", *here), run("status", *here).out
    assert (synced.code, "links between memories were not accepted yet" in synced.out) == (1, True)
    assert "1 link between memories waiting" in status


def test_links_that_were_refused_for_good_are_told_of(run: Run) -> None:
    with ScriptedRemote() as server:
        here = linked_in_vain(run, server, "failure=INVALID_PARAMETER")
        run("sync", *here)
        doctor = run("doctor", *here).out
    assert "the remote refused 1 link between memories" in doctor


def test_a_sync_after_refusals_points_to_what_was_refused(run: Run) -> None:
    with ScriptedRemote() as server:
        here = ("--remote", server.url)
        run("store", "The fog is thick", "--wait", "5", *here)
        server.script("status=422", method="store_memory")
        run("store", "The ferry is late", "--wait", "5", *here)
        told = run("sync", *here)
    assert (told.code, "outbox list --remote" in told.out) == (0, True)


# --- several ----------------------------------------------------------------------------------------------------------


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
    assert run("outbox", "list", "--remote-name", "home").out == "no such entry of this project\n"
    assert "or now with `kingly-memory sync --remote-name team`" in run("status").out
    assert "1 delivery will be tried again" in run("outbox", "retry", "note", "--remote-name", "team").out
    assert "1 delivery given up" in run("outbox", "drop", "note", "--remote-name", "team").out
    assert run("outbox", "list").out == "nothing waits and nothing was refused of this project\n"


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


def test_what_other_projects_have_in_the_outbox_is_named_with_the_command_that_lists_it(
    run: Run, home: ScriptedRemote
) -> None:
    run("remotes", "add", "team", home.url, "--project", "old")
    assert run("store", "A note", "--key", "note", "--project", "old", "--wait", "30").code == 0
    home.stop()
    run("store", "Hers", "--project", "old", "--user", "ann")
    run("projects", "rename", "old", "new")
    told = run("outbox", "list", "--project", "new").out.splitlines()
    assert told[1].split()[0] == "note"
    assert told[2:] == [
        "1 entry of user 'ann' in project 'new': `kingly-memory outbox list --project new --user ann`",
        "1 entry of project 'old': `kingly-memory outbox list --project old --remote team`",
    ]
    assert len(run("outbox", "list", "--project", "old", "--remote", "team").out.splitlines()) == 4  # also two of `new`
    assert len(run("outbox", "list", "--project", "new", "--user", "ann", "--json").json["entries"]) == 1


def test_the_outbox_shows_a_refusal_whole(monkeypatch: pytest.MonkeyPatch, run: Run, home: ScriptedRemote) -> None:
    home.script("status=422", method="store_memory")
    run("store", "A note", "--remote", home.url, "--key", "note", "--wait", "30")
    monkeypatch.setattr("kingly_memory.cli.output.width", lambda: 40)
    [head, row] = run("outbox", "list", "--remote", home.url).out.splitlines()
    assert "HTTP 422" in row
    assert "…" not in head + row


def test_who_may_not_forget_at_the_remote_is_told_that_it_is_forgotten_here_alone(
    run: Run, home: ScriptedRemote
) -> None:
    run("store", "A note", "--remote", home.url, "--key", "note", "--wait", "30")
    home.script("status=422", method="forget_memory")
    told = run("forget", "note", "--remote", home.url).out
    assert "  on this machine alone: the remote refused it: HTTP 422" in told


def test_a_token_file_beside_the_project_is_found_when_its_folder_is_renamed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-the-team")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "one").mkdir()
    with contextlib.chdir(tmp_path / "one"):
        run("remotes", "add", "team", NOBODY, "--offline", "--token-file", "../token", "--home", "home")
    (tmp_path / "one").rename(tmp_path / "two")
    with contextlib.chdir(tmp_path / "two"):
        assert "cannot be read" not in run("sync", "--home", "home").out
