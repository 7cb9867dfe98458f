"""The audit on disk: whole lines or none, whoever else writes, dies, or fills the disk."""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from kingly_memory import InvalidInput
from kingly_memory.adapters import audit
from kingly_memory.adapters.audit import LONGEST_BYTES, AuditFiles, AuditReader, Follower, line_of
from kingly_memory.app.auditing import AuditWriter, audit_folder
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.audit import HouseholdOutput
from tests.adapters.local.test_unwritable_store import as_a_plain_user, home, read_only
from tests.cli_runner import environment

__all__ = ["home"]

KIND = "memory_updates"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kingly" / "audit"


def numbers(folder: Path, kind: str = KIND) -> list[int]:
    return [one.record["n"] for one in AuditReader(folder).all([kind])]


def write(files: AuditFiles, *some: int) -> None:
    for n in some:
        files.append(KIND, {"n": n})


def test_records_are_lines_of_json_in_a_file_for_each_kind(folder: Path) -> None:
    files = AuditFiles(folder)
    files.append("memory_updates", {"text": "Überflutung\nin 2 Zeilen"})
    files.append("consolidations", {"n": 1})
    assert (folder / "memory_updates.jsonl").read_text(encoding="utf-8") == '{"text":"Überflutung\\nin 2 Zeilen"}\n'
    assert (folder / "consolidations.jsonl").read_text(encoding="utf-8") == '{"n":1}\n'
    assert (files.written, files.lost) == (2, 0)


def test_only_the_owner_can_read_an_audit_and_no_repository_takes_it_in(folder: Path) -> None:
    write(AuditFiles(folder), 1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / ".gitignore").read_text(encoding="ascii") == "*\n"


def test_a_folder_that_is_taken_away_is_made_again(folder: Path) -> None:
    files = AuditFiles(folder)
    write(files, 1)
    folder.rename(folder.with_name("moved"))
    write(files, 2)
    assert numbers(folder) == [2]


# --- lines ------------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


def test_what_json_cannot_hold_is_written_as_well_as_can_be() -> None:
    line = line_of(
        {
            "nan": math.nan,
            "endless": math.inf,
            "day": date(2026, 1, 5),
            "colour": Colour.RED,
            "figure": np.float32(0.5),
            "whole": np.int64(7),
            "part": Fraction(1, 4),
            "set": {1},
            "pair": (1, "two"),
            "lone": "\ud800",
            "thing": object(),
            "numbered": {3: True},
        }
    )
    assert json.loads(line) == {
        "nan": None,
        "endless": None,
        "day": "2026-01-05",
        "colour": "red",
        "figure": 0.5,
        "whole": 7,
        "part": 0.25,
        "set": [1],
        "pair": [1, "two"],
        "lone": "\ufffd",
        "thing": "<object>",
        "numbered": {"3": True},
    }


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def test_a_record_that_fits_on_no_line_is_lost_alone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    itself: dict[str, Any] = {}
    itself["again"] = [itself, itself]
    files = AuditFiles(folder)
    with caplog.at_level(logging.WARNING, "kingly_memory"):
        for wrong in ({"text": "x" * LONGEST_BYTES}, itself, {"digits": 10**5_000}):
            files.append(KIND, wrong)
    write(files, 1)
    assert (numbers(folder), files.lost) == ([1], 3)
    assert len(caplog.messages) == 1
    assert "a record of memory_updates takes 4,194,3" in caplog.messages[0]


# --- crashes and others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b'{"n": 2, "te', b"\x00\x00\x00", b"{", '{"t": "Ü'.encode()[:-1]])
def test_a_line_that_a_crash_has_torn_is_passed_over_and_taken_off_by_the_next_writer(
    folder: Path, torn: bytes
) -> None:
    write(AuditFiles(folder), 1)
    file = folder / f"{KIND}.jsonl"
    file.write_bytes(file.read_bytes() + torn)
    assert numbers(folder) == [1]
    assert [one.record["n"] for one in AuditReader(folder).latest(5)] == [1]
    write(AuditFiles(folder), 3)
    assert file.read_bytes() == b'{"n":1}\n{"n":3}\n'


def test_a_whole_line_that_only_lacks_its_end_is_kept(folder: Path) -> None:
    write(AuditFiles(folder), 1)
    file = folder / f"{KIND}.jsonl"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    write(AuditFiles(folder), 2)
    assert numbers(folder) == [1, 2]


def test_lines_of_others_are_passed_over_and_counted(folder: Path) -> None:
    write(AuditFiles(folder), 1)
    file = folder / f"{KIND}.jsonl"
    strange = [b"", b"[1]", b"not json", b"\xff", b"[" * 200_000, b"x" * (LONGEST_BYTES + 5), b"9" * 5_000 + b"e"]
    file.write_bytes(file.read_bytes() + b"\n".join(strange) + b"\n")
    write(AuditFiles(folder), 2)
    reader = AuditReader(folder)
    assert [one.record["n"] for one in reader.all()] == [1, 2]
    assert reader.damaged == len(strange)
    backwards = AuditReader(folder)
    assert [one.record["n"] for one in backwards.latest(9)] == [1, 2]
    assert backwards.damaged == len(strange)


WRITER = """
import sys
from kingly_memory.adapters.audit import Follower
from kingly_memory.adapters.audit import AuditFiles
files = AuditFiles(sys.argv[1], rotate_bytes=4096, keep=100)
print(flush=True)
sys.stdin.readline()
first = int(sys.argv[2])
for n in range(first, first + 150):
    files.append("memory_updates", {"n": n, "text": "x" * (n % 90)})
print(files.written, files.lost)
"""


def test_several_processes_write_whole_lines_into_one_folder_while_files_rotate(folder: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(1_000 * one)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment()),
            text=True,
        )
        for one in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    said = [writer.communicate("\n", timeout=60)[0].split() for writer in writers]
    assert said == [["150", "0"]] * 3
    reader = AuditReader(folder)
    found = [one.record["n"] for one in reader.all()]
    assert reader.damaged == 0
    assert sorted(found) == [1_000 * one + n for one in range(3) for n in range(150)]
    for one in range(3):  # each one's own are in its order
        own = [n for n in found if n // 1_000 == one]
        assert own == sorted(own)
    assert len(list(folder.glob(f"{KIND}.*.jsonl"))) > 1


ENDLESS = """
import itertools, sys
from kingly_memory.adapters.audit import Follower
from kingly_memory.adapters.audit import AuditFiles
files = AuditFiles(sys.argv[1], rotate_bytes=4096, keep=100)
for n in itertools.count(int(sys.argv[2])):
    files.append("memory_updates", {"n": n, "text": "x" * (n % 900)})
    print(n, flush=True)
"""


def test_what_was_written_outlives_being_killed_at_any_moment(folder: Path) -> None:
    acknowledged: list[int] = []
    for round_ in range(5):
        command = [sys.executable, "-c", ENDLESS, str(folder), str(1_000 * round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(environment()), text=True) as process:
            assert process.stdout is not None
            acknowledged += [int(process.stdout.readline()) for _ in range(7 + 3 * round_)]
            process.kill()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    reader = AuditReader(folder)
    found = [one.record["n"] for one in reader.all()]
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    assert reader.damaged == 0


def test_a_process_that_was_stopped_with_the_lock_holds_up_one_record_only(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LOCK_WAIT_S", 0.02)
    files = AuditFiles(folder)
    write(files, 1)
    with audit._locked(folder, 0.0), caplog.at_level(logging.WARNING, "kingly_memory"):
        write(files, 2, 3)
        assert numbers(folder) == [1]
    write(files, 4)
    assert (numbers(folder), files.lost, len(caplog.messages)) == ([1, 4], 2, 1)
    assert "another process has held its audit.lock for 0.02 s" in caplog.messages[0]


def test_a_forked_child_writes_beside_its_parent(folder: Path) -> None:
    files = AuditFiles(folder)
    write(files, 1)
    child = os.fork()
    if child == 0:
        write(files, 2)
        os._exit(0)
    os.waitpid(child, 0)
    write(files, 3)
    assert numbers(folder) == [1, 2, 3]


# --- rotation ---------------------------------------------------------------------------------------------------------


def full(folder: Path, count: int, *, keep: int = 3) -> AuditFiles:
    """Records of 400 bytes into files of 1,024: two fit."""
    files = AuditFiles(folder, rotate_bytes=1_024, keep=keep)
    for n in range(count):
        files.append(KIND, {"n": n, "text": "x" * 380})
    return files


def test_a_full_file_makes_room_and_so_many_full_ones_stay(folder: Path) -> None:
    full(folder, 13, keep=3)
    names = sorted(path.name for path in folder.glob("*.jsonl"))
    assert names == [f"{KIND}.1.jsonl", f"{KIND}.2.jsonl", f"{KIND}.3.jsonl", f"{KIND}.jsonl"]
    assert numbers(folder) == [6, 7, 8, 9, 10, 11, 12]


def test_being_killed_while_files_are_renamed_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = full(folder, 5)
    replaced = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if self.name == f"{KIND}.jsonl":
            raise KeyboardInterrupt
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    full_again = AuditFiles(folder, rotate_bytes=1_024, keep=3)
    full_again.append(KIND, {"n": 5, "text": "x" * 380})
    with pytest.raises(KeyboardInterrupt):
        full_again.append(KIND, {"n": 6, "text": "x" * 380})
    monkeypatch.undo()
    assert numbers(folder) == [0, 1, 2, 3, 4, 5]
    write(files, 6)
    assert numbers(folder) == [0, 1, 2, 3, 4, 5, 6]


def test_a_reader_is_not_confused_by_rotation_under_way(folder: Path) -> None:
    full(folder, 6)
    records = AuditReader(folder).all()
    first = next(records).record["n"]
    full(folder, 4)
    assert [first, *(one.record["n"] for one in records)] == [0, 1, 2, 3, 4, 5]


# --- full and read-only disks -----------------------------------------------------------------------------------------


@contextmanager
def small_files() -> Iterator[None]:
    """Files of this process cannot grow beyond 1,000 bytes, which is how a full disk looks from inside. Nor can the
    file that the tests' own output may go to: for no longer than something is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_once_and_leaves_nothing_half_written(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = AuditFiles(folder)
    with caplog.at_level(logging.WARNING, "kingly_memory"), small_files():
        for n in range(5):
            files.append(KIND, {"n": n, "text": "x" * 380})
    assert (files.written, files.lost) == (2, 3)
    assert (folder / f"{KIND}.jsonl").read_bytes().endswith(b"x" * 380 + b'"}\n')
    assert numbers(folder) == [0, 1]
    [said] = caplog.messages
    assert said == (
        f"audit: {folder} cannot be written (File too large); the simulation goes on without its records. Free some "
        "space or make the folder writable: no restart is needed"
    )
    with small_files():
        files.append(KIND, {"n": 5})
    assert numbers(folder) == [0, 1, 5]


def refused(folder: Path) -> list[Any]:
    """What an audit in that folder says, and what the simulation goes on to do."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("kingly_memory").addHandler(handler)
    writer = AuditWriter(folder)
    memory = CognitiveMemory("H001")
    for year in range(3):
        item = memory.add_experience("it rained", 0.9, year)
        writer.log_memory_update("H001", year, "rain", item, memory)
    return [said, writer.lost, len(memory.place.episodic), numbers_or_none(folder)]


def numbers_or_none(folder: Path) -> list[int] | None:
    try:
        return numbers(folder)
    except InvalidInput:
        return None


def test_a_read_only_folder_stops_no_simulation(home: Path) -> None:
    write(AuditFiles(home), 7)
    with read_only(home):
        said, lost, remembered, there = as_a_plain_user(home, lambda: refused(home))
    assert (lost, remembered, there) == (3, 3, [7])
    assert len(said) == 1
    assert "cannot be written (Permission denied); the simulation goes on" in said[0]


@pytest.mark.parametrize("what", ["file", "link", "pipe", "folder"])
def test_something_else_in_the_place_of_the_audit_is_left_alone(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "audit"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours", encoding="ascii")
    if what == "file":
        folder.write_text("a file", encoding="ascii")
    else:
        folder.mkdir()
        inside = folder / f"{KIND}.jsonl"
        if what == "link":
            inside.symlink_to(elsewhere)
        elif what == "pipe":
            os.mkfifo(inside)
        else:
            inside.mkdir()
    files = AuditFiles(folder)
    write(files, 1)
    assert (files.written, files.lost) == (0, 1)
    assert elsewhere.read_text(encoding="ascii") == "not ours"


def test_a_record_survives_a_power_cut_when_that_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    kept = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        kept(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write(AuditFiles(folder), 1, 2)
    assert synced == []
    write(AuditFiles(folder, fsync=True), 3)
    AuditFiles(folder, fsync=True).append("consolidations", {"n": 1})
    assert synced == [f"{KIND}.jsonl", "consolidations.jsonl", "audit"]


# --- following ---


def test_following_finds_what_is_added_whatever_its_file_is_called_by_then(folder: Path) -> None:
    early = Follower(folder)
    assert early.added() == []
    full(folder, 3)
    assert [one.record["n"] for one in early.added()] == [0, 1, 2]
    late = Follower(folder)
    assert late.added() == []
    full(folder, 7, keep=20)
    AuditFiles(folder).append("consolidations", {"n": 99})
    for follower in (early, late):
        assert sorted(one.record["n"] for one in follower.added()) == [0, 1, 2, 3, 4, 5, 6, 99]
        assert follower.added() == []


def test_following_waits_for_the_end_of_a_line(folder: Path) -> None:
    write(AuditFiles(folder), 1)
    file = folder / f"{KIND}.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"n"')
    follower = Follower(folder)
    file.write_bytes(whole + b'{"n":2')
    assert follower.added() == []
    file.write_bytes(whole + b'{"n":2}\nnot json\n{"n":3}\n{')
    assert [one.record["n"] for one in follower.added()] == [2, 3]
    write(AuditFiles(folder), 4)
    assert [one.record["n"] for one in follower.added()] == [4]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_latest_of_all_kinds_are_in_the_order_of_time(folder: Path) -> None:
    files = AuditFiles(folder)
    for n in range(6):
        files.append(("memory_updates", "tool_invocations")[n % 2], {"timestamp": f"2026-01-0{n + 1}", "n": n})
    found = AuditReader(folder).latest(3)
    assert [(one.kind, one.record["n"]) for one in found] == [
        ("tool_invocations", 3),
        ("memory_updates", 4),
        ("tool_invocations", 5),
    ]


@pytest.mark.parametrize("most", [1, 2, 5, 12, 50])
def test_the_latest_are_found_across_the_files_of_a_kind(folder: Path, most: int) -> None:
    full(folder, 12, keep=10)
    found = numbers(folder)
    assert found == [*range(12)]
    assert [one.record["n"] for one in AuditReader(folder).latest(most)] == found[-most:]


def test_an_id_stays_the_same_when_its_line_is_moved(folder: Path) -> None:
    full(folder, 1)
    [before] = AuditReader(folder).all()
    full(folder, 2)
    assert AuditReader(folder).named(before.id[:6]).record == before.record
    assert AuditReader(folder).named(f"{KIND}.1.jsonl:1").id == before.id
    assert AuditReader(folder).named(f"{KIND}.1:2").record["n"] == 0
    assert AuditReader(folder).named(f"{KIND}:1").record["n"] == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("abc", "'abc' is too short"),
        ("zzzzzz", "there is none with the id 'zzzzzz'"),
        (f"{KIND}:0", "has no record in line 0"),
        (f"{KIND}:9", "has no record in line 9"),
        (f"{KIND}:x", "is no FILE:LINE of"),
        ("../../secrets:1", "is no FILE:LINE of"),
        ("nothing:1", "is no FILE:LINE of"),
        (f"{KIND}:99999999999999999999999", "has no record in line"),
    ],
)
def test_a_record_that_is_not_there_is_one_sentence(folder: Path, name: str, problem: str) -> None:
    write(AuditFiles(folder), 1)
    with pytest.raises(InvalidInput) as caught:
        AuditReader(folder).named(name)
    assert problem in str(caught.value)


def test_the_audit_of_a_home_is_beside_it(tmp_path: Path) -> None:
    assert audit_folder(tmp_path / ".kingly" / "memory") == tmp_path / ".kingly" / "audit"
    assert audit_folder(tmp_path / "home") == tmp_path / "home" / "audit"


def test_a_writer_says_how_it_does(folder: Path) -> None:
    writer = AuditWriter(folder)
    memory = CognitiveMemory("H001")
    writer.write_household_trace(HouseholdOutput("H001", 1), {"unlike": object()}, {}, memory)
    writer.write_household_trace("nobody", {}, {}, memory)
    assert (writer.written, writer.lost, writer.folder) == (1, 1, folder)
    assert repr(writer) == f"<AuditWriter {folder} written=1 lost=1>"
