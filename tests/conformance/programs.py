"""Runs the programs of docs/integrations/frameworks.md as a user pastes them, with a model that is written down."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kingly_memory.testing import ScriptedRemote

ROOT = Path(__file__).parents[2]
TEXTS = ("I prefer parcels to come to the office in Graz", "Where should my parcel go?")
"""What is said in one process, and asked in the next one."""


def told(section: str, model: str, folder: Path, *texts: str) -> list[str]:
    """What the section's program prints for each text, in a process each; after the first one the remote is gone.
    `model` is Python in the place of the line that makes the model."""
    page = (ROOT / "docs" / "integrations" / "frameworks.md").read_text(encoding="utf-8")
    program = page.split(f"\n## {section}\n", 1)[1].split("```py\n", 1)[1].split("```", 1)[0]
    (line,) = (one for one in program.splitlines() if one.startswith("MODEL ="))
    program = program.replace(line, model)
    if made := re.match(r"MODEL = (\w+)\(", line):
        program = re.sub(rf"^from \S+ import {made[1]}\n", "", program, flags=re.MULTILINE)
    with ScriptedRemote() as remote:
        said = [_printed(program, folder, remote.url, text) for text in texts[:1]]
    return said + [_printed(program, folder, remote.url, text) for text in texts[1:]]


def _printed(program: str, folder: Path, remote: str, text: str) -> str:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "KINGLY_REMOTE": remote,
    }
    done = subprocess.run(
        [sys.executable, "-c", program, text], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
