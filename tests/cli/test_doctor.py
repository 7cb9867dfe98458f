"""`kingly-memory doctor`: each fault that can be planted is found, in a sentence, with what to do."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.cli import doctor, remotes
from kingly_memory.errors import InvalidInput, StoreBusy
from kingly_memory.home.place import Place
from kingly_memory.home.remote_names import RemotePlace
from kingly_memory.hosts import hook_log
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import HOME, READ
from tests.cli_runner import Run
from tests.store_samples import behind_triggers, memory, number_layout

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def home(isolated_environment: Path, run: Run) -> Path:
    """The home of a project with one memory."""
    (isolated_environment / ".git").mkdir()
    run("store", "Deploys need two reviews", "--key", "k")
    return isolated_environment / ".kingly" / "memory"


def test_the_text_of_an_edit_that_was_killed_is_named(run: Run, home: Path) -> None:
    left = home / "edit-01a224ba-x.md"
    left.write_text("what was being written")
    said = run("doctor").out
    assert f"{left} is the text of an `edit` that is open, or that was killed" in said


def problems(run: Run, *argv: str) -> dict[str, JsonObject]:
    """What needs the user, by what it is about."""
    ran = run("doctor", "--json", *argv)
    found = {one["about"]: one for one in ran.json["findings"] if one["level"] == "problem"}
    assert ran.code == (1 if found else 0)
    assert all(one["to_do"] for one in found.values())
    return found


def about(run: Run, topic: str, *argv: str) -> JsonObject:
    [found] = [one for one in run("doctor", "--json", *argv).json["findings"] if one["about"] == topic]
    assert isinstance(found, dict)
    return found


def test_a_healthy_home_needs_nobody(run: Run, home: Path) -> None:
    ran = run("doctor")
    assert ran.code == 0
    for words in (
        "project 'work'",
        "no agent is named",
        f"{home} is yours",
        "1 memory",
        "no remote",
        "nothing needs you",
    ):
        assert words in ran.out
    assert ran.err == ""


def test_a_home_that_is_not_there_yet_is_no_problem_and_is_not_made(run: Run, tmp_path: Path) -> None:
    assert problems(run, "--home", str(tmp_path / "new")) == {}
    assert not (tmp_path / "new").exists()


def test_the_agent_and_project_in_effect_are_named(run: Run, home: Path) -> None:
    assert "project 'shop'; agent 'ada' speaks" in about(run, "project", "--project", "shop", "--agent", "ada")["what"]


@pytest.mark.parametrize(("folder", "mode"), [("", 0o770), ("store", 0o755)])
def test_folders_that_are_open_to_others_are_a_problem(run: Run, home: Path, folder: str, mode: int) -> None:
    (home / folder).chmod(mode)
    problem = problems(run)["home"]
    assert f"chmod -R go-rwx {home}" in problem["to_do"] or "run `chmod go-w` on it" in problem["what"]


def test_a_link_in_the_place_of_the_store_is_a_problem(run: Run, home: Path, tmp_path: Path) -> None:
    (home / "store").rename(tmp_path / "moved")
    (home / "store").symlink_to(tmp_path / "moved")
    assert "is a link" in problems(run)["home"]["what"]


def test_a_home_that_cannot_be_made_is_a_problem(run: Run, home: Path) -> None:
    inside_a_file = str(home / "sentinel" / "home")
    assert f"{home / 'sentinel'} is no folder" in problems(run, "--home", inside_a_file)["home"]["what"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_a_problem(run: Run, home: Path) -> None:
    (home / "store").chmod(0o500)
    assert "make it writable" in problems(run)["home"]["to_do"]


@pytest.mark.requirement("A17")
@pytest.mark.parametrize("file", ["write.lock", "sentinel", "store/cache.db"])
def test_a_file_that_cannot_be_written_to_is_a_problem(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def access(path: Path, wanted: int) -> bool:
        """As the system answers an owner who is not root."""
        return path.stat().st_mode >> 6 & wanted == wanted

    monkeypatch.setattr(os, "access", access)
    (home / file).chmod(0o400)
    problem = problems(run)["home"]
    assert problem["what"] == f"{home / file} cannot be written to"
    assert f"chmod u+rw {home / file}" in problem["to_do"]


@pytest.mark.requirement("A17")
def test_what_the_system_keeps_closed_is_named_with_what_to_do(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        """As the system does where the user is not root."""
        raise PermissionError(errno.EACCES, "Permission denied", str(home))

    monkeypatch.setattr(doctor, "_home", refuse)
    assert f"{home} is closed to you (Permission denied); make it" in run("doctor").err


@pytest.mark.requirement("A18")
@pytest.mark.parametrize(
    "address",
    [
        "http://ana:secret1234@127.0.0.1:9/v1",
        "http://127.0.0.1:9/sk-live-8f3kd92kf02kd92k/v1",
        "127.0.0.1:9/sk-live-8f3kd92kf02kd92k",
    ],
)
@pytest.mark.parametrize("before", ["openai:", ""])
def test_the_address_of_a_server_of_embeddings_is_shown_without_secrets(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, before: str, address: str
) -> None:
    if before or "://" in address:
        monkeypatch.setenv("KINGLY_EMBEDDER", f"{before}{address}#model")
    (home.parent / "config.toml").write_text(f'embedder = "openai:{address}#model"')
    told = [run(*command) for command in (("doctor",), ("config",), ("config", "--json"), ("trust",), ("search", "x"))]
    everything = "".join(ran.out + ran.err for ran in told)
    assert "secret1234" not in everything
    assert "sk-live-8f" not in everything
    assert ("openai:http://127.0.0.1:9" in everything) == ("://" in address)


@pytest.mark.requirement("KNG-085")
def test_a_damaged_store_that_was_replaced_is_a_problem_until_it_is_moved_away(run: Run, home: Path) -> None:
    for path in (home / "store").glob("cache.db*"):
        path.write_bytes(b"garbage" * 1_000)
    assert "store.corrupt-" in problems(run)["damage"]["what"]
    [kept] = home.glob("store.corrupt-*")
    kept.rename(home.parent / "looked-at")
    assert problems(run) == {}


@pytest.mark.requirement("A6", "D7")
@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE km_documents SET value = replace(value, 'Oslo', 'Rome')", "document users/lydia"),
        ("UPDATE km_documents SET value = replace(value, 'said', 'sung')", "document /chat/"),
        ("UPDATE km_revision SET record = replace(record, 'two', 'six')", "earlier revision"),
        ("UPDATE km_facet SET value = replace(value, '1', '2') WHERE name = 'usage'", "facet usage of"),
        ("UPDATE km_memory SET space = 'wort'", "was replaced"),
        ("UPDATE km_text_data SET block = x'00' WHERE id > 10", "was replaced"),
        ("DELETE FROM km_text_data WHERE id > 10", "was replaced"),
        ("UPDATE km_counts SET memories = 7", "was replaced"),
    ],
)
def test_every_row_and_index_is_read_when_asked(run: Run, home: Path, damage: str, named: str) -> None:
    with SyncMemoryRouter.open(home, False, project="work") as memory:
        memory.store("Deploys need three reviews", key="k")
        memory.get("k")
        memory.documents.put("users", "lydia", {"city": "Oslo"})
        memory.log("chat").append(["said"])
    assert "damage" not in problems(run, "--read-all")
    with behind_triggers(home) as connection:
        connection.execute(damage)
    found = problems(run, "--read-all")
    assert named in found["damage"]["what"]
    assert "Deploys need three reviews" in run("get", "k").out
    assert "Oslo" in run("documents", "get", "users", "lydia").out or "document" in named


@pytest.mark.requirement("D7")
def test_sweeps_read_every_row_in_thirty_days_and_doctor_says_what_they_met(run: Run, home: Path) -> None:
    with SyncMemoryRouter.open(home, False, project="work") as memory:
        for number in range(40):
            memory.documents.put("users", f"user{number}", {"city": "Oslo"})
        memory.store("Deploys need three reviews")
        memory.sweep()
    assert "sweeps have read 1 of 30 parts" in about(run, "read")["what"]
    with behind_triggers(home) as connection:
        connection.execute("UPDATE km_documents SET value = replace(value, 'Oslo', 'Rome') WHERE key = 'user25'")
    store, day_s, met = DiskStore(home), 86_400, []
    for day in range(1, 30):
        for hour in (0, 1):
            store.read_share(time.time() + day * day_s + hour)
        met.append(store.reader.facets(HOME, [READ])[READ]["damaged"])
    store.close()
    assert (met[0], met[-1]) == ([], ["document users/user25"])
    assert sum(before != after for before, after in pairwise(met)) == 1
    assert problems(run)["read"]["what"] == "a sweep met damaged rows: document users/user25"
    assert "document users/user25" in problems(run, "--read-all")["damage"]["what"]
    assert about(run, "read")["what"] == "every row was read since just now"


@pytest.mark.parametrize(
    ("home", "said"),
    [
        ("/net/share/app/.kingly", "network file system (nfs4)"),
        ("/users/ada/far away/.kingly", "network file system (fuse.sshfs)"),
        ("/users/ada/Dropbox/app/.kingly", "lies in 'Dropbox'"),
        ("/users/ada/OneDrive - Acme/app", "lies in 'OneDrive - Acme'"),
        ("/users/ada/app/.kingly", ""),
        ("/network/app", ""),
        ("/users/ada/dropbox-sdk/.kingly", ""),
    ],
)
def test_a_home_on_a_network_or_in_a_synced_folder_is_a_problem(home: str, said: str) -> None:
    mounts = "/dev/a / ext4 rw 0 0\nhost:/x /net nfs4 rw 0 0\nada@b: /users/ada/far\\040away fuse.sshfs rw 0 0\n"
    found = list(doctor._disk(Path(home), mounts))
    assert [one.level for one in found] == [remotes.Level.PROBLEM] * bool(said)
    assert all(said in one.what for one in found)


def test_doctor_says_where_a_home_lies_and_that_it_was_not_made_here(run: Run, home: Path, tmp_path: Path) -> None:
    there = tmp_path / "Dropbox" / "memory"
    shutil.copytree(home, there)
    assert "lies in 'Dropbox'" in problems(run, "--home", str(there))["disk"]["what"]
    assert "it was not made here" in about(run, "trust", "--home", str(there))["what"]


def test_a_store_that_vanished_is_a_problem(run: Run, home: Path) -> None:
    for path in (home / "store").iterdir():
        path.unlink()
    assert "missing or empty" in problems(run)["store"]["what"]


def test_a_store_of_a_newer_version_is_a_problem(run: Run, home: Path) -> None:
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection:
        number_layout(connection, 99)
    assert "upgrade" in problems(run)["store"]["to_do"]


def test_a_setting_that_cannot_be_used_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_LIFETIMES", "working=soon")
    assert "KINGLY_LIFETIMES" in problems(run)["settings"]["what"]


def test_an_outage_is_a_note_and_no_problem(run: Run, home: Path) -> None:
    run("store", "x", "--remote", NOBODY, "--wait", "2")
    assert problems(run, "--remote", NOBODY) == {}
    link = about(run, "link", "--remote", NOBODY)
    assert (link["level"], "offline" in link["what"], link["what"].count(NOBODY)) == ("note", True, 1)
    assert "1 memory waiting" in about(run, "outbox", "--remote", NOBODY)["what"]


def test_a_remote_that_can_never_be_reached_is_a_problem(run: Run, home: Path) -> None:
    found = problems(run, "--remote", "team=ftp://memory", "--remote", f"home={NOBODY}")
    assert list(found) == ["remote team"]
    assert "an address begins with http://" in found["remote team"]["what"]
    assert "nothing is sent there" in problems(run, "--remote", "localhost:8000")["remote"]["what"]


def test_the_commands_that_are_advised_are_for_the_same_home_and_project(run: Run, tmp_path: Path) -> None:
    place = ("--home", str(tmp_path / "my home"), "--project", "app", "--remote", NOBODY)
    run("store", "x", *place, "--wait", "2")
    assert f"`kingly-memory sync {shlex.join(place)}`" in about(run, "link", *place)["to_do"]
    assert f"`kingly-memory sync {shlex.join(place)}`" in run("status", *place).out


def outbox(**counts: float | None) -> JsonObject:
    return {"pending": 0, "leased": 0, "dead": 0, "oldest_s": None, **counts}


def test_refused_and_old_deliveries_are_told_from_those_on_their_way() -> None:
    def told(**counts: float | None) -> list[tuple[str, str, str | None]]:
        return [(one.level, one.what, one.to_do) for one in remotes._outbox(outbox(**counts), "the sync", "the list")]

    assert told() == [("ok", "empty", None)]
    refused = "the remote refused 2 changes, and this machine keeps what it has"
    assert told(dead=2) == [("problem", refused, "`the list` shows why; then outbox retry or outbox drop")]
    assert told(pending=1, oldest_s=90_000.0) == [
        ("note", "1 memory waiting, the oldest for 1 d", "`the sync` says why")
    ]
    assert told(leased=3, oldest_s=5.0) == [("ok", "3 memories waiting, the oldest for 5.0 s", None)]


def test_a_refused_token_needs_the_user(tmp_path: Path) -> None:
    link = {"endpoint": "http://hub", "last_error": "HTTP 401: the token was not accepted", "next_probe_s": None}
    link |= {"state": "offline", "server": None, "effects": None}

    def found(remote: RemotePlace | None, **changes: str) -> remotes.Finding:
        place = Place(tmp_path, "app", None, () if remote is None else (remote,))
        return remotes._link(place, {**link, **changes}, "the sync", None if remote is None else remote.label)

    nameless = found(None)
    assert (nameless.level, "KINGLY_TOKEN" in str(nameless.to_do)) == ("problem", True)
    told = found(RemotePlace("my-team", "http://hub")).to_do
    assert told == "set KINGLY_TOKEN_MY_TEAM to a token that it takes, then run `the sync`"
    in_a_file = RemotePlace("remote", "http://hub", None, Path("/run/token"))
    assert found(in_a_file).to_do == "put the right token into /run/token, then run `the sync`"
    assert found(None, state="connected").level == "ok"


@pytest.mark.parametrize(("effects", "warned"), [("exactly_once", False), ("at_least_once", True), (None, False)])
def test_status_says_when_a_remote_honours_no_keys(tmp_path: Path, effects: str | None, warned: bool) -> None:
    link = {"state": "connected", "endpoint": "http://x", "server": "kingly-hub over json-call", "last_error": None}
    place = Place(tmp_path, "app", None)
    told = remotes._link(place, {**link, "effects": effects, "next_probe_s": None}, "the sync", None).what
    assert ("may repeat a delivery" in told) is warned
    assert told.startswith("connected, http://x (kingly-hub over json-call)")


@pytest.mark.parametrize(
    ("version", "has_bug"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 44, 7), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_the_versions_of_sqlite_with_the_wal_reset_bug_are_known(version: tuple[int, ...], has_bug: bool) -> None:
    assert (doctor._sqlite(version).to_do is not None) is has_bug


# --- what hooks have kept quiet about -------------------------------------------------------------------------------


def test_failures_of_hooks_are_counted_by_what_went_wrong(run: Run, home: Path) -> None:
    for _ in range(3):
        hook_log.note("UserPromptSubmit", "it took longer than its deadline and was ended", home)
    hook_log.note("Stop", "something else", home.parent / "another home")
    said = problems(run)["hooks"]
    assert "the hook UserPromptSubmit failed 3 times in the last day, last just now: it took longer" in said["what"]
    assert "something else" not in run("doctor").out


@pytest.mark.parametrize(("event", "says"), [("Stop", "the hook Stop failed once"), ("", "the hook failed once")])
def test_failures_before_a_home_was_known_are_everybodys(run: Run, home: Path, event: str, says: str) -> None:
    hook_log.note(event, "the input is not JSON")
    assert f"{says} in this or another project" in problems(run)["hooks"]["what"]


def test_failures_are_forgotten_after_their_day() -> None:
    hook_log.note("Stop", "the input is not JSON")
    now = datetime.now(UTC)
    assert len(hook_log.failures(now)) == 1
    assert hook_log.failures(now + timedelta(days=2)) == []


def test_the_log_is_bounded_and_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_log, "LIMIT_BYTES", 2_000)
    for index in range(100):
        hook_log.note("Stop", f"problem {index} {'x' * 1_000}")
    files = sorted(hook_log.path().parent.iterdir())
    assert [path.name for path in files] == ["hooks.jsonl", "hooks.jsonl.1"]
    assert sum(path.stat().st_size for path in files) < 6_000
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert hook_log.failures(datetime.now(UTC))[-1].problem.startswith("problem 99")


def test_lines_of_the_log_that_make_no_sense_are_passed_over() -> None:
    hook_log.note("Stop", "found")
    with hook_log.path().open("ab") as file:
        file.write(b'garbage\n[]\n{"at": "x"}\n\xff\n{"at": "2026-01-01T00:00:00", "event": 1}\n')
    assert [one.problem for one in hook_log.failures(datetime.now(UTC))] == ["found"]


def failing(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as raised:
        return raised


def test_an_error_is_worded_without_what_anybody_said() -> None:
    assert hook_log.worded(failing(StoreBusy(2.0))).startswith("the memory store stayed locked")
    assert hook_log.worded(failing(InvalidInput("query", "CANARY"))) == "InvalidInput"
    assert hook_log.worded(failing(KeyError("CANARY"))) == "KeyError"


def test_an_unforeseen_error_says_where_it_arose() -> None:
    with pytest.raises(KeyError, match="CANARY") as caught:
        Memory.from_json({**memory().to_json(), "type": "CANARY"})
    said = hook_log.worded(caught.value)
    assert said.startswith("KeyError in models.py:")
    assert "CANARY" not in said
