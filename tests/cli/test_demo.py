"""The demo, watched for real: a hub that is really killed, a backlog that really arrives once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kingly_memory.cli import demo
from kingly_memory.cli.output import Output
from kingly_memory.hub.process import HubDidNotStart, HubProcess
from tests.cli_runner import environment, process


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo puts its temporary folder."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


HEEDING_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command that Ctrl-C ends even when these tests run in the background, where it is ignored."""


@contextmanager
def started(*options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HEEDING_CTRL_C, sys.executable, "-m", "kingly_memory", "demo", *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        yield running


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.requirement("KNG-047")
def test_the_demo_tells_the_whole_story_and_cleans_up(scratch: Path) -> None:
    ran = process("demo", "--json", KINGLY_HOME="/nowhere", KINGLY_REMOTE="http://127.0.0.1:9")
    assert (ran.code, ran.err) == (0, "")
    steps = {row["step"]: row for row in ran.rows}
    assert [row["step"] for row in ran.rows if row["step"].startswith("hub")] == [
        "hub_started",
        "hub_killed",
        "hub_started",
    ]
    assert steps["counted"]["exactly_once"] == steps["counted"]["backlog"] > 0
    assert steps["counted"]["held"] == steps["counted"]["different"]
    sources = [row["source"] for row in ran.rows if row["step"] == "searched"]
    assert (sources[0], sources[3], sources[-1]) == ("hybrid", "local_fallback", "hybrid")
    assert all(row["hits"] for row in ran.rows if row["step"] == "searched")
    assert list(scratch.iterdir()) == []
    assert not any(is_running(row["pid"]) for row in ran.rows if row["step"].startswith("hub"))


def test_the_demo_reads_like_a_story(scratch: Path) -> None:
    ran = process("demo")
    assert (ran.code, ran.err) == (0, "")
    for words in ("1. A hub starts", "SIGKILL", "local_fallback", "arrived exactly once", "Next, in a folder"):
        assert words in ran.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_demo_stopped_in_the_middle_leaves_nothing_behind(scratch: Path, number: int, code: int) -> None:
    with started("--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        pid = json.loads(running.stdout.readline())["pid"]
        running.send_signal(number)
        # Python itself ends with the signal when Ctrl-C met it inside exec(), which making a dataclass is.
        assert running.wait(timeout=30) in (code, -number)
        said = running.stderr.read()
        assert said == "" or said.startswith("Exception ignored in")  # a signal that came inside a finalizer
    assert not is_running(pid)
    assert list(scratch.iterdir()) == []


def test_a_signal_inside_a_finalizer_ends_the_demo_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    class Passing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit, match="143"), demo.ended_by_signals():
        Passing()


def test_a_hub_that_does_not_start_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(HubDidNotStart, match="the hub did not start: it said nothing"):
        HubProcess(tmp_path / "hub").start()


def test_a_backlog_that_arrived_twice_is_not_called_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = HubProcess(tmp_path / "hub")
    story = demo._Story(Output(True), hub)
    receipt = type("Receipt", (), {"id": "1"})
    outcomes = [({"1": ["text"]}, True), ({"1": ["text", "text"]}, False), ({"1": ["old"]}, False), ({}, False)]
    for held, arrived in outcomes:
        monkeypatch.setattr(demo, "held", lambda *_, held=held: held)
        assert story.count([("text", receipt)]) is arrived  # type: ignore[list-item]
