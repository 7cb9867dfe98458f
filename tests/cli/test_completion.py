"""Completion in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kingly_memory.cli.completion import SCRIPTS
from tests.cli_runner import Run, environment

pytestmark = pytest.mark.requirement("N18")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sto"], "store"),
        (["threads", "re"], "rename recall"),
        (["--home", "/somewhere", "backup", ""], "check create restore"),
        (["store", "a text", "--ta"], "--tag"),
        (["store", "a text", "--type", "e"], "episodic"),
        (["--json", "mcp", "--proj"], "--project"),
        (["hub", "--proj"], ""),
        (["store", "a te"], ""),
    ],
)
def test_the_last_word_becomes_what_may_stand_there(run: Run, words: list[str], found: str) -> None:
    assert sorted(run("completion", "bash", "--", *words).out.split()) == sorted(found.split())


def test_a_shell_that_is_not_known_is_refused(run: Run) -> None:
    for shell in SCRIPTS:
        assert "kingly-memory completion" in run("completion", shell).out
    told = run("completion", "tcsh")
    assert (told.code, told.err) == (2, "kingly-memory: shell: 'tcsh' is unknown; choose bash, zsh, fish\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_what_the_program_prints(tmp_path: Path) -> None:
    program = tmp_path / "kingly-memory"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kingly_memory "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    asked = "COMP_WORDS=(kingly-memory threads re); COMP_CWORD=2; _kingly_memory; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"source <(kingly-memory completion bash); {asked}"],  # noqa: S607
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "rename recall\n"
