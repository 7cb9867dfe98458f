"""The audit on disk: whole lines, whoever else writes, dies, or fills the disk."""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import date
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kingly_memory.adapters.audit import AuditFiles, line_of
from kingly_memory.app.auditing import AuditWriter, audit_folder
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.audit import HouseholdOutput
from tests.cli_runner import environment

KIND = "memory_updates"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kingly" / "audit"


def numbers(folder: Path) -> list[int]:
    """Of the lines that are records."""
    found = []
    for line in (folder / f"{KIND}.jsonl").read_bytes().splitlines():
        with suppress(ValueError, RecursionError):
            found.append(json.loads(line)["n"])
    return found


def write(files: AuditFiles, *some: int) -> None:
    for n in some:
        files.append(KIND, {"n": n})


def test_records_are_lines_of_json_that_only_their_owner_reads(folder: Path) -> None:
    files = AuditFiles(folder)
    files.append("memory_updates", {"text": "Überflutung\nin 2 Zeilen"})
    files.append("consolidations", {"n": 1})
    assert (folder / "memory_updates.jsonl").read_text(encoding="utf-8") == '{"text":"Überflutung\\nin 2 Zeilen"}\n'
    assert (folder / "consolidations.jsonl").read_text(encoding="utf-8") == '{"n":1}\n'
    assert (files.written, files.lost) == (2, 0)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / ".gitignore").read_text(encoding="ascii") == "*\n"
    folder.rename(folder.with_name("moved"))
    write(files, 2)
    assert numbers(folder) == [2]


class Colour(Enum):
    RED = "red"


def test_what_json_cannot_hold_is_written_as_well_as_can_be() -> None:
    said = {"nan": math.nan, "day": date(2026, 1, 5), "colour": Colour.RED, "figure": np.float32(0.5)}
    more = {"whole": np.int64(7), "part": Fraction(1, 4), "set": {1}, "lone": "\ud800", "thing": object()}
    assert json.loads(line_of({**said, **more, "output": HouseholdOutput("H1", 2), "numbered": {3: True}})) == {
        "nan": None,
        "day": "2026-01-05",
        "colour": "red",
        "figure": 0.5,
        "whole": 7,
        "part": 0.25,
        "set": [1],
        "lone": "\ufffd",
        "thing": "<object>",
        "output": json.loads(line_of({"output": HouseholdOutput("H1", 2)}))["output"],
        "numbered": {"3": True},
    }


def test_a_record_that_fits_on_no_line_is_lost_alone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    itself: dict[str, Any] = {}
    itself["again"] = [itself, itself]
    files = AuditFiles(folder)
    with caplog.at_level(logging.WARNING, "kingly_memory"):
        for wrong in (itself, {"digits": 10**5_000}):
            files.append(KIND, wrong)
    write(files, 1)
    assert (numbers(folder), files.lost) == ([1], 2)
    [said] = caplog.messages
    assert "a record of memory_updates has more digits or levels than JSON can hold" in said


@pytest.mark.parametrize("torn", [b'{"n": 2, "te', b"\x00\x00\x00"])
def test_a_record_behind_a_torn_one_is_on_a_line_of_its_own(folder: Path, torn: bytes) -> None:
    write(AuditFiles(folder), 1)
    file = folder / f"{KIND}.jsonl"
    file.write_bytes(file.read_bytes() + torn)
    write(AuditFiles(folder), 3)
    assert numbers(folder) == [1, 3]


ENDLESS = """
import itertools, sys
from kingly_memory.adapters.audit import AuditFiles
files = AuditFiles(sys.argv[1])
for n in itertools.count(int(sys.argv[2])):
    files.append("memory_updates", {"n": n, "text": "x" * (n % 900)})
    print(n, flush=True)
"""


def test_what_several_processes_wrote_outlives_their_being_killed(folder: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(folder), str(1_000_000 * one)],
            stdout=subprocess.PIPE,
            env=dict(environment()),
            text=True,
        )
        for one in range(2)
    ]
    acknowledged: list[int] = []
    for process in processes:
        assert process.stdout is not None
        acknowledged += [int(process.stdout.readline()) for _ in range(20)]
    for process in processes:
        assert process.stdout is not None
        process.kill()
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
        process.stdout.close()
        process.wait()
    found = numbers(folder)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


def test_a_full_disk_is_said_once_and_the_next_record_is_whole(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = AuditFiles(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))  # how a full disk looks from inside
    try:
        with caplog.at_level(logging.WARNING, "kingly_memory"):
            for n in range(5):
                files.append(KIND, {"n": n, "text": "x" * 380})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (files.written, files.lost) == (2, 3)
    write(files, 5)
    assert numbers(folder) == [0, 1, 5]
    [said] = caplog.messages
    assert f"without a record: {folder} cannot be written" in said


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
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name))
    write(AuditFiles(folder), 1, 2)
    assert synced == []
    write(AuditFiles(folder, fsync=True), 3)
    assert synced == [f"{KIND}.jsonl"]


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
