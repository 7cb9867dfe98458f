"""status, sync, sweep, outbox, config, version."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from kingly_memory.cli import configuration
from kingly_memory.version import __version__
from tests.cli_runner import Run

NOBODY = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""


def test_status_tells_a_program_everything(run: Run, tmp_path: Path) -> None:
    run("store", "x", "--type", "working")
    now = run("status", "--json").json
    assert set(now) >= {"home", "project", "durability", "memories", "link", "outbox", "versions"}
    assert now["memories"]["total"] == 1
    assert now["memories"]["by_type"]["working"] == 1
    assert set(now["link"]) >= {"state", "endpoint", "next_probe_s", "last_error"}
    assert set(now["outbox"]) == {"pending", "leased", "dead", "oldest_s"}
    assert Path(now["home"]).is_relative_to(tmp_path)


def test_status_is_a_screen_for_a_person(run: Run) -> None:
    run("store", "x", "--type", "working")
    ran = run("status")
    assert ran.code == 0
    for words in (
        "1 memory: 1 working",
        "no remote; `kingly-memory remotes add",
        "survives a power cut",
        "outbox",
        "empty",
    ):
        assert words in ran.out


def test_status_before_the_first_store_creates_nothing(run: Run, tmp_path: Path) -> None:
    assert run("status", "--home", str(tmp_path / "new")).code == 0
    assert not (tmp_path / "new").exists()


def test_status_says_what_an_outage_means(run: Run) -> None:
    run("store", "x", "--key", "k", "--remote", NOBODY, "--wait", "2")
    ran = run("status", "--remote", NOBODY)
    assert "offline, http://127.0.0.1:9 (" in ran.out
    assert "tries it again in" in ran.out
    assert "1 memory waiting" in ran.out


@pytest.mark.parametrize("argv", [["sync"], ["outbox", "list"], ["outbox", "retry"], ["outbox", "drop", "x"]])
def test_verbs_about_a_remote_need_one(run: Run, argv: list[str]) -> None:
    """Another project of the home may have one."""
    run("remotes", "add", "home", NOBODY, "--project", "other")
    ran = run(*argv, "--project", "app")
    assert ran.code == 2
    adds = "`kingly-memory remotes add NAME URL` adds one (`remotes list` shows what this home knows)"
    assert ran.err == f"kingly-memory: remote: project 'app' has none; {adds}\n"


@pytest.mark.parametrize("argv", [["sync"], ["outbox", "list"], ["outbox", "retry"], ["outbox", "drop", "k"]])
def test_whoever_needs_a_remote_names_the_remote_that_an_earlier_command_named(run: Run, argv: list[str]) -> None:
    run("store", "x", "--key", "k", "--remote", NOBODY)
    ran = run(*argv)
    assert ran.code == 2
    assert f"none is named here, and memories wait for {NOBODY}; `kingly-memory remotes add NAME URL` has" in ran.err


def test_a_sync_with_one_remote_says_its_figures_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_REMOTE", f"team={NOBODY}")
    run("store", "x")
    ran = run("sync", "--timeout", "5")
    said, why = ran.out.splitlines()
    assert (ran.code, said, why.startswith("team is offline: ")) == (1, "0 memories delivered, 1 waiting, 0 dead", True)
    assert run("sync", "--timeout", "5", "--json").json["pending"] == 1


@pytest.mark.parametrize("command", ["config", "doctor"])
def test_a_variable_that_nothing_reads_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for name in ("KINGLY_FOO", "KINGLY_TOKEN_TEAM", "KINGLY_HOOK_TOKENS"):
        monkeypatch.setenv(name, "99")
    ran = run(command)
    assert f"{ran.out}{ran.err}".count("nothing reads KINGLY_FOO\n") == 1


ADDRESS = "an address begins with http:// or https://, as in http://localhost:8000"


def test_the_only_remote_has_an_address_that_cannot_be_used_and_that_alone_is_said(run: Run) -> None:
    ran = run("sync", "--remote", "ftp://memory")
    assert (ran.code, ran.err) == (2, f"kingly-memory: remote: {ADDRESS}\n")


def test_status_says_an_address_once_however_it_was_spelled(run: Run) -> None:
    run("store", "x", "--remote", "http://localhost:9", "--wait", "2")
    ran = run("status", "--remote", NOBODY)
    assert "offline, http://127.0.0.1:9 (Connection refused)" in ran.out


def test_a_short_sync_says_that_nobody_answered_in_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "0.15")
    with socket.create_server(("127.0.0.1", 0)) as hung:
        remote = f"http://127.0.0.1:{hung.getsockname()[1]}"
        run("store", "x", "--remote", remote, "--wait", "0")
        ran = run("sync", "--remote", remote, "--timeout", "0.5")
    assert (ran.code, ran.out.count("the remote is offline: no answer in the time")) == (1, 1)


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_a_timeout_must_be_a_length_of_time(run: Run, seconds: str) -> None:
    ran = run("sync", "--remote", NOBODY, "--timeout", seconds, "--json")
    assert (ran.code, ran.json["error"]["field"]) == (2, "timeout")


def test_the_outbox_is_listed_retried_and_dropped_by_key(run: Run) -> None:
    run("store", "x", "--key", "k", "--remote", NOBODY)
    listed = run("outbox", "list", "--remote", NOBODY, "--json").json["entries"]
    assert [(one["key"], one["state"]) for one in listed] == [("k", "pending")]
    assert "k" in run("outbox", "list", "--remote", NOBODY).out
    assert run("outbox", "list", "--state", "dead", "--remote", NOBODY).out == "no such entry of this project\n"
    assert run("outbox", "retry", "--remote", NOBODY, "--json").json == {"retried": 0}
    assert run("outbox", "drop", "k", "--remote", NOBODY, "--json").json == {"dropped": 1}
    assert run("outbox", "list", "--remote", NOBODY, "--json").json["entries"] == []
    assert run("get", "k").code == 0


@pytest.mark.parametrize(
    ("probe_s", "due", "said"),
    [
        ("82800", r"in \d[\d.]* s", r"a running program tries it again in \d"),
        ("0.001", "by the next store or sync", "the next store or sync tries it"),
    ],
)
def test_the_outbox_says_when_a_remote_that_is_offline_is_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, probe_s: str, due: str, said: str
) -> None:
    monkeypatch.setenv("KINGLY_PROBE_INTERVAL_S", probe_s)
    run("store", "x", "--key", "k", "--remote", NOBODY, "--wait", "2")
    _, row = run("outbox", "list", "--remote", NOBODY).out.splitlines()
    *beginning, when = row.split(maxsplit=3)
    assert beginning == ["k", "pending", "0"]
    assert re.fullmatch(due, when)
    [entry] = run("outbox", "list", "--remote", NOBODY, "--json").json["entries"]
    status = run("status", "--remote", NOBODY)
    assert re.search(said, status.out)
    assert entry["due_s"] <= 15  # after the pause, since the store has used it


@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_an_unknown_outbox_name_is_nothing_under_it(run: Run, verb: str) -> None:
    ran = run("outbox", verb, "nobody", "--remote", NOBODY, "--project", "p")
    said = "nothing is in the outbox under 'nobody' in this project; `kingly-memory outbox list` shows what is there"
    assert (ran.code, ran.err) == (2, f"kingly-memory: {said}\n")


def test_config_names_the_source_of_every_setting(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_CALL_TIMEOUT_S", "7")
    rows = {row["name"]: row for row in run("config", "--json").json["settings"]}
    assert (rows["call_timeout_s"]["value"], rows["call_timeout_s"]["from"]) == (7.0, "KINGLY_CALL_TIMEOUT_S")
    assert rows["dialect"]["from"] == "default"
    assert run("config").out.startswith("SETTING")


def test_a_setting_that_cannot_be_read_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_CALL_TIMEOUT_S", "soon")
    ran = run("config", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (2, "InvalidSetting")
    assert "KINGLY_CALL_TIMEOUT_S" in ran.err


def test_version_is_the_package_version(run: Run) -> None:
    assert run("version").out == f"kingly-memory {__version__}\n"
    assert run("version", "--json").json["version"] == __version__


def test_a_fault_of_ours_is_one_sentence_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(configuration, "version", fail)
    ran = run("version", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (1, "ZeroDivisionError")
    assert ran.err.startswith("kingly-memory: something unexpected happened (ZeroDivisionError: by nought)")


def test_a_name_that_no_file_can_have_is_one_sentence(run: Run) -> None:
    ran = run("list", "--home", "a" * 300)
    assert (ran.code, ran.err.endswith(" cannot be used (File name too long)\n")) == (2, True)


def test_a_folder_that_was_removed_meanwhile_is_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    ran = run("list")
    assert (ran.code, ran.err) == (
        2,
        "kingly-memory: home: the folder that this works in was removed; go to another one\n",
    )


def test_the_first_status_after_damage_says_so(run: Run, isolated_environment: Path) -> None:
    run("store", "x", "--home", "home")
    for path in (isolated_environment / "home" / "store").glob("cache.db*"):
        path.write_bytes(b"garbage" * 1_000)
    assert "damaged" in run("status", "--json", "--home", "home").json
