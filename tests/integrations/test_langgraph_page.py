"""The program at the beginning of docs/integrations/langgraph.md: what it stores is there in the next process, whatever
becomes of the remote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kingly_memory.testing import ScriptedRemote
from tests.cli_runner import ROOT, environment

pytest.importorskip("langgraph.version", reason="LangGraph is not installed")


def ran(folder: Path, remote: str) -> list[str]:
    """What the program prints when it is pasted into a file and run."""
    page = (ROOT / "docs" / "integrations" / "langgraph.md").read_text(encoding="utf-8")
    program = page.split("```python\n", 1)[1].split("```", 1)[0]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(KINGLY_REMOTE=remote), capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_next_process_knows_what_the_first_one_was_told_though_the_remote_is_gone(
    isolated_environment: Path,
) -> None:
    with ScriptedRemote() as remote:
        first = ran(isolated_environment, remote.url)
    second = ran(isolated_environment, remote.url)
    assert first == ["known: []", "known: ['I moved to Oslo in May']"]
    assert second[0] == "known: ['I moved to Oslo in May', 'In which town did I move into a flat?']"
