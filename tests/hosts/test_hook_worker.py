"""What Stop and SessionEnd leave to a worker: it outlives the hook and its process group, and captures once."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.app.reading import open_reader
from kingly_memory.cli.hook import deadline_s
from kingly_memory.home.place import Place
from kingly_memory.hosts.hooks import DETACHED
from kingly_memory.settings import Settings
from tests.cli_runner import ROOT, environment
from tests.hosts.hook_samples import entry, event, text, transcript
from tests.hosts.test_hook_process import PATIENT, failures, home_of, hook, noted, store

PATIENCE_S = 60.0
DECIDED = "Let's go with Postgres for the session store."

AT_THE_START = """
import os, sys
if "--wait" in sys.orig_argv:
    alive = os.open({alive!r}, os.O_WRONLY)  # stays open until the process has ended
    os.write(alive, b"!")
    os.read(os.open({gate!r}, os.O_RDONLY), 1)
"""


class Workers:
    """Holds every worker at the start of its interpreter until it is told to go on, and knows when all have ended."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._alive_path, gate = folder / "alive", folder / "gate"
        os.mkfifo(self._alive_path)
        os.mkfifo(gate)
        self._alive, self._gate = self._listening(), os.open(gate, os.O_RDWR)
        (folder / "sitecustomize.py").write_text(AT_THE_START.format(alive=str(self._alive_path), gate=str(gate)))
        self.path = f"{ROOT}{os.pathsep}{folder}"

    def go_on(self, number: int) -> None:
        """Wait for so many workers, let them go on, and wait for their ends."""
        begun = b""
        while len(begun) < number:
            begun += self._read()
        os.write(self._gate, b"!" * number)
        assert self._read() == b""
        os.close(self._alive)
        self._alive = self._listening()

    def close(self) -> None:
        os.write(self._gate, b"!" * 100)
        os.close(self._gate)
        os.close(self._alive)

    def _listening(self) -> int:
        return os.open(self._alive_path, os.O_RDONLY | os.O_NONBLOCK)

    def _read(self) -> bytes:
        """What workers have written; nothing once the last one has ended."""
        while True:
            assert select.select([self._alive], [], [], PATIENCE_S)[0], "no worker has begun or ended"
            with suppress(BlockingIOError):
                return os.read(self._alive, 100)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    found = Workers(tmp_path / "workers")
    yield found
    found.close()


def called_by_a_host_that_ends(name: str, project: Path, workers: Workers) -> None:
    """The host waits for the hook and for its pipes, then ends all that is left of the hook's process group."""
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "hook", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**PATIENT, PYTHONPATH=workers.path),
        process_group=0,
    ) as call:
        out, err = call.communicate(json.dumps(event(name, project)).encode(), timeout=PATIENCE_S)
        assert (call.returncode, out, err) == (0, b"", b"")
        with suppress(ProcessLookupError):
            os.killpg(call.pid, signal.SIGKILL)


def stored(project: Path) -> list[str]:
    with closing(open_reader(Place.resolve(start=project))) as reader:
        return [memory.content for memory, _ in reader.export()]


@pytest.mark.parametrize("name", DETACHED)
def test_what_was_said_is_captured_though_the_host_ends_as_soon_as_the_hook_returns(
    name: str, project: Path, workers: Workers, tmp_path: Path
) -> None:
    transcript(project, entry("user", DECIDED, "u1"))
    called_by_a_host_that_ends(name, project, workers)
    assert not home_of(project).exists(), "the hook has not waited for the worker"
    workers.go_on(1)
    assert stored(project) == [DECIDED]
    assert failures(tmp_path / "user") == []


def test_a_turn_and_a_session_that_end_at_once_are_captured_and_counted_once(
    project: Path, workers: Workers, tmp_path: Path
) -> None:
    store(project, "Deploys are reviewed by Ada and by the Lisbon office", key="rule")
    prompt = "who has to review a deploy?"
    assert noted(hook("UserPromptSubmit", event("UserPromptSubmit", project, prompt=prompt)))
    reply = "That would be Ada, together with somebody from the Lisbon office."
    transcript(
        project, entry("user", prompt, "u1"), entry("assistant", text(reply), "a1"), entry("user", DECIDED, "u2")
    )
    for name in DETACHED:
        called_by_a_host_that_ends(name, project, workers)
    workers.go_on(2)
    assert sorted(stored(project)) == ["Deploys are reviewed by Ada and by the Lisbon office", DECIDED]
    assert failures(tmp_path / "user") == []
    with SyncMemoryRouter.open(home_of(project)) as memory:
        explained = memory.explain("rule")
        assert explained is not None
        assert explained["strength"]["accesses"] == 1


def test_the_end_of_a_session_captures_only_what_the_turns_before_have_not(project: Path, workers: Workers) -> None:
    transcript(project, entry("user", DECIDED, "u1"))
    called_by_a_host_that_ends("Stop", project, workers)
    workers.go_on(1)
    with SyncMemoryRouter.open(home_of(project)) as memory:
        memory.forget(memory.list().memories[0].id)
    transcript(project, entry("user", "Always run the linter before committing.", "u2"))
    called_by_a_host_that_ends("SessionEnd", project, workers)
    workers.go_on(1)
    assert stored(project) == ["Always run the linter before committing."]


def test_a_worker_says_in_the_log_what_went_wrong(project: Path, workers: Workers, tmp_path: Path) -> None:
    called_by_a_host_that_ends("SessionEnd", project, workers)  # there is no transcript
    workers.go_on(1)
    [failure] = failures(tmp_path / "user")
    assert (failure["event"], "transcript cannot be read" in failure["problem"]) == ("SessionEnd", True)


def test_no_module_of_the_hosts_project_runs_in_a_worker(project: Path, workers: Workers) -> None:
    """A cloned repository could hold modules with the names of ours, or of Python's own."""
    (project / "json.py").write_text("raise SystemExit('not ours')")
    transcript(project, entry("user", DECIDED, "u1"))
    script = project.parent / "kingly-memory"
    script.write_text("from kingly_memory.cli.entry import run\nrun()\n")
    given = json.dumps(event("Stop", project)).encode()
    env = environment(**PATIENT, PYTHONPATH=workers.path)
    done = subprocess.run([sys.executable, str(script), "hook", "Stop"], input=given, env=env, check=False, timeout=60)
    assert done.returncode == 0
    workers.go_on(1)
    assert stored(project) == [DECIDED]


def test_the_start_of_a_session_may_take_longer_than_a_prompt() -> None:
    usual, patient = Settings(), Settings(hook_deadline_s=5)
    assert [deadline_s(name, usual) for name in ("UserPromptSubmit", "SessionStart", "Stop")] == [0.3, 1.0, 20.0]
    assert [deadline_s(name, patient) for name in ("UserPromptSubmit", "SessionStart")] == [5, 5]
