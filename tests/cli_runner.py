"""Running the command line inside the test's process, and for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.cli.main import main
from kingly_memory.settings import Pace, Settings

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """The JSON values of an output with one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


def runner(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs one command line in this process."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
        code = main(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def environment(**changes: str) -> Mapping[str, str]:
    """That of the test, with the package findable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have shells find this installation by its name, in that folder. Returns the script."""
    folder.mkdir(parents=True)
    script = folder / "kingly-memory"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kingly_memory "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", [str(script)])
    return script


def process(*arguments: str, stdin: bytes = b"", **changes: str) -> Ran:
    """Run `python -m kingly_memory` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "kingly_memory", *arguments],
        input=stdin,
        capture_output=True,
        env=environment(**changes),
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def hurry(monkeypatch: pytest.MonkeyPatch, **pace: Any) -> None:
    """Let a delivery that fails be tried again at once."""
    Settings()  # which makes the constructor
    usual = Settings.__init__.__kwdefaults__
    assert usual is not None
    monkeypatch.setitem(usual, "pace", Pace(send_pause_s=0, **pace))
