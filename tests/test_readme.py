"""The README cannot lie: its snippets run, and its commands exist."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from kingly_memory.cli.parser import parse
from tests.cli_runner import ROOT
from tests.scripted.remote import ScriptedRemote

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^kingly-memory ([^#\n]+)", README, re.MULTILINE)


def run(snippet: str, tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(snippet, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.requirement("KNG-086")
def test_first_snippet_stores_and_finds_without_anything_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(SNIPPETS[0], tmp_path)
    assert "Deploys need two reviews" in capsys.readouterr().out


def test_second_snippet_delivers_to_a_remote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedRemote() as server:
        run(SNIPPETS[1].replace("http://127.0.0.1:8000", server.url), tmp_path)
    assert capsys.readouterr().out.splitlines()[1] == "hybrid"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_exist(command: str) -> None:
    assert parse(shlex.split(command)) is not None
