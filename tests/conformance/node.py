"""Programs of npm, for comparing with them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.test_packages import LIMIT_S


def npm(folder: Path, *packages: str) -> Path:
    """The folder of the installed packages, whose scripts were not run. Skips the test, with the reason, where there is
    no npm or no registry can be reached."""
    program = shutil.which("npm")
    if program is None:
        pytest.skip("there is no npm")
    folder.mkdir(parents=True)
    command = [program, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", *packages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder)
    if done.returncode and any(one in done.stderr for one in ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN")):
        pytest.skip(f"no npm registry can be reached: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return folder / "node_modules"
