"""The log of what was put into sessions: what it remembers, and that nothing in its place does any harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kingly_memory.adapters.local.injections import LIMIT_BYTES, MOST_LINES, MOST_SESSIONS, InjectionFiles
from tests.cli_runner import environment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def log(home: Path) -> InjectionFiles:
    return InjectionFiles(home, "app")


def only_file(home: Path) -> Path:
    [file] = (home / "injected").iterdir()
    return file


def test_a_session_knows_what_was_put_into_it_and_when_last(log: InjectionFiles) -> None:
    log.note("s1", ["a", "b"], 100.0)
    log.note("s1", ["b", "c"], 200.0)
    log.note("s2", ["d"], 300.0)
    assert log.of("s1") == {"a": 100.0, "b": 200.0, "c": 200.0}


def test_a_session_that_has_lost_it_is_told_again_and_the_log_still_knows(log: InjectionFiles) -> None:
    log.note("s1", ["a", "b"], 100.0)
    log.clear("s1", 150.0)
    log.note("s1", ["b"], 200.0)
    assert log.of("s1") == {"b": 200.0}
    assert log.ever("s1") == {"a": 100.0, "b": 200.0}


def test_the_last_prompts_of_all_sessions_are_told_the_latest_first(log: InjectionFiles, home: Path) -> None:
    for number in range(6):
        log.note(f"s{number % 2}", [f"id-{number}"] if number else [], 100.0 + number, {"tokens": number})
    InjectionFiles(home, "other").note("s1", ["x"], 500.0, {"tokens": 9})
    log.note("s0", ["noted-by-an-earlier-version"], 99.0)
    log.clear("s1", 300.0)
    told = log.latest(5)
    assert [(one.session, one.ids, one.account.get("tokens")) for one in told] == [
        (f"s{number % 2}", (f"id-{number}",), number) for number in (5, 4, 3, 2, 1)
    ]
    assert [one.at_s for one in log.latest(99)][-2:] == [100.0, 99.0]
    assert InjectionFiles(home / "nowhere", "app").latest(5) == []


@pytest.mark.requirement("D3")
def test_purged_ids_and_sessions_leave_the_log_and_no_line_beside_them_does(log: InjectionFiles, home: Path) -> None:
    other = InjectionFiles(home, "other")
    log.note('a "quoted" session', ["gone", "stays"], 100.0, {"tokens": 1})
    log.note("said", ["stays"], 100.0)
    other.note("said", ["gone"], 100.0)
    log.purge(["gone"], ["said"], whole=False)
    assert [one.ids for one in log.latest(9)] == [("----", "stays")]
    assert (log.of("said"), other.of("said")) == ({}, {"----": 100.0})
    assert not any(b"gone" in file.read_bytes() for file in (home / "injected").iterdir())
    other.purge([], [], whole=True)
    assert (other.latest(9), len(log.latest(9))) == ([], 1)


def test_projects_of_one_home_do_not_see_each_other(log: InjectionFiles, home: Path) -> None:
    other = InjectionFiles(home, "other")
    log.note("s1", ["a"], 100.0)
    other.note("s1", ["b"], 200.0)
    assert log.of("s1") == {"a": 100.0}
    assert other.of("s1") == {"b": 200.0}


def test_no_word_of_the_host_or_the_project_becomes_part_of_a_name(home: Path) -> None:
    hostile = InjectionFiles(home, "../../secret")
    for session in ("../escape", "a/b", "\0", "\ud800", "x" * 5_000):
        hostile.note(session, ["a"], 100.0)
        assert hostile.of(session) == {"a": 100.0}
    assert {path.name for path in home.iterdir()} == {"injected"}
    assert all("secret" not in path.name and "escape" not in path.name for path in (home / "injected").iterdir())


def test_only_the_owner_may_look_into_it(log: InjectionFiles, home: Path) -> None:
    log.note("s1", ["a"], 100.0)
    assert (home / "injected").stat().st_mode & 0o777 == 0o700
    assert only_file(home).stat().st_mode & 0o777 == 0o600


def test_it_makes_no_home(tmp_path: Path) -> None:
    log = InjectionFiles(tmp_path / "nowhere", "app")
    log.note("s1", ["a"], 100.0)
    assert log.of("s1") == {}
    assert not (tmp_path / "nowhere").exists()


def test_a_torn_line_is_skipped_and_takes_no_other_along(log: InjectionFiles, home: Path) -> None:
    log.note("s1", ["a"], 100.0)
    file = only_file(home)
    file.write_bytes(file.read_bytes() + b'{"session": "s1", "at": 150.0, "ids": ["to')
    assert log.of("s1") == {"a": 100.0}
    log.note("s1", ["b"], 200.0)
    assert log.of("s1") == {"a": 100.0, "b": 200.0}


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b"[" * 4_000,
        b"\xff\xfe\x00",
        b'{"session": "s1", "at": "now", "ids": ["x"]}',
        b'{"session": "s1", "at": true, "ids": ["x"]}',
        b'{"session": "s1", "at": NaN, "ids": ["x"]}',
        b'{"session": "s1", "at": -1, "ids": ["x"]}',
        b'{"session": "s1", "at": 1e300, "ids": ["x"]}',
        b'{"session": "s1", "at": 150.0, "ids": "x"}',
        b'{"session": "s1", "at": 150.0, "ids": [7, {}, null, ["x"]]}',
        b'{"session": 7, "at": 150.0, "ids": ["x"]}',
        b'{"session": "another", "at": 150.0, "ids": ["x"]}',
        b'{"session": "s1", "at": 150.0, "ids": ["' + b"x" * 9_000 + b'"]}',
        b'{"session": "s1", "at": ' + b"1" * 6_000 + b', "ids": ["x"]}',
    ],
    ids=lambda line: line[:50].decode(errors="replace"),
)
def test_what_makes_no_sense_is_skipped(line: bytes, log: InjectionFiles, home: Path) -> None:
    log.note("s1", ["a"], 100.0)
    file = only_file(home)
    file.write_bytes(file.read_bytes() + line + b"\n")
    log.note("s1", ["b"], 200.0)
    assert log.of("s1") == {"a": 100.0, "b": 200.0}


def test_a_huge_file_is_read_from_its_end_and_begun_anew(log: InjectionFiles, home: Path) -> None:
    log.note("s1", ["a"], 100.0)
    file = only_file(home)
    with file.open("r+b") as huge:
        huge.truncate(100_000_000)  # a hole: nothing but zeros, and no room on the disk
        huge.seek(0, os.SEEK_END)
        huge.write(b'\n{"session": "s1", "at": 150.0, "ids": ["b"]}\n')
    assert log.of("s1") == {"b": 150.0}
    log.note("s1", ["c"], 200.0)
    assert log.of("s1") == {"c": 200.0}
    assert file.stat().st_size < LIMIT_BYTES


def test_a_note_of_very_many_memories_is_whole(log: InjectionFiles) -> None:
    ids = [f"{index:036d}" for index in range(1_000)]
    log.note("s1", ids, 100.0)
    assert list(log.of("s1")) == ids


def test_the_sessions_noted_last_stay(log: InjectionFiles, home: Path) -> None:
    for index in range(MOST_SESSIONS):
        log.note(f"s{index}", ["a"], float(index))
        os.utime(max((home / "injected").iterdir(), key=lambda path: path.stat().st_mtime_ns), (index, index))
    log.note("last", ["a"], 1_000.0)
    left = [f"s{index}" for index in range(MOST_SESSIONS) if log.of(f"s{index}")] + ["last"] * bool(log.of("last"))
    assert MOST_SESSIONS * 0.8 < len(left) < MOST_SESSIONS
    assert {"last", f"s{MOST_SESSIONS - 1}"} <= set(left)
    assert "s0" not in left


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "writable"])
def test_something_else_in_the_place_of_a_session_is_left_alone(kind: str, log: InjectionFiles, home: Path) -> None:
    log.note("s1", ["a"], 100.0)
    file, outside = only_file(home), home / "outside"
    content = file.read_bytes()
    file.unlink()
    if kind == "link":
        outside.write_bytes(content)
        file.symlink_to(outside)
    elif kind == "dangling link":
        file.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(content)
        file.chmod(0o622)
    log.note("s1", ["b"], 200.0)
    assert (log.of("s1"), log.ever("s1")) == ({}, {})
    assert outside.exists() == (kind == "link")
    assert not outside.exists() or outside.read_bytes() == content


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
def test_something_else_in_the_place_of_the_folder_is_left_alone(kind: str, log: InjectionFiles, home: Path) -> None:
    outside = home / "outside"
    outside.mkdir(mode=0o700)
    folder = home / "injected"
    if kind == "link":
        folder.symlink_to(outside)
    elif kind == "file":
        folder.write_text("in the way")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    log.note("s1", ["a"], 100.0)
    assert log.of("s1") == {}
    assert list(outside.iterdir()) == []


def test_a_folder_of_another_user_is_left_alone(
    log: InjectionFiles, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.note("s1", ["a"], 100.0)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    log.note("s1", ["b"], 200.0)
    assert log.of("s1") == {}
    monkeypatch.undo()
    assert log.of("s1") == {"a": 100.0}


def test_a_disk_that_takes_nothing_is_as_good_as_an_empty_log(
    log: InjectionFiles, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "write", refuse)
    log.note("s1", ["a"], 100.0)
    assert log.of("s1") == {}
    monkeypatch.setattr(Path, "mkdir", refuse)
    elsewhere = InjectionFiles(home / "read-only", "app")
    elsewhere.note("s1", ["a"], 100.0)
    assert elsewhere.of("s1") == {}


# --- processes ------------------------------------------------------------------------------------------------------

APPENDING = """
import sys
from pathlib import Path
from kingly_memory.adapters.local.injections import InjectionFiles
log, name, session = InjectionFiles(Path(sys.argv[1]), "app"), sys.argv[2], sys.argv[4]
print("ready", flush=True)
sys.stdin.readline()
for index in range(int(sys.argv[3])):
    log.note(session, [f"{name}-{index}", "x" * 60], float(index))
    print(index, flush=True)
"""


def appending(home: Path, name: str, times: int, session: str = "s1") -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDING, str(home), name, str(times), session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_two_processes_that_note_at_once_lose_nothing(log: InjectionFiles, home: Path) -> None:
    both = [appending(home, name, 300) for name in ("one", "two")]
    for process in both:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in both:
        assert process.communicate(timeout=60)[0].count(b"\n") == 300
        assert process.returncode == 0
    expected = {f"{name}-{index}" for name in ("one", "two") for index in range(300)}
    assert log.of("s1").keys() - {"x" * 60} == expected
    lines = only_file(home).read_text().splitlines()
    assert all(json.loads(line)["session"] == "s1" for line in lines if line)


def test_a_process_that_is_killed_loses_nothing_that_it_had_noted(log: InjectionFiles, home: Path) -> None:
    for attempt in range(5):
        with appending(home, f"p{attempt}", MOST_LINES - 1, f"s{attempt}") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            for _ in range(20 + attempt):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            noted = 20 + attempt + process.stdout.read().count(b"\n")
        log.note(f"s{attempt}", ["after"], 1.0)
        expected = {f"p{attempt}-{index}" for index in range(noted)} | {"after"}
        assert expected <= log.of(f"s{attempt}").keys()
