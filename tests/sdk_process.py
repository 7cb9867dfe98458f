"""Servers of the official SDK as processes, to be killed and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

ROOT = Path(__file__).parents[1]


_INSTALL_S = 300.0


def python_with_sdk_1(folder: Path) -> str:
    """An interpreter that has the official SDK's line 1.x. Skips the test where that cannot be installed."""
    python = folder / "bin" / "python"
    steps = ([sys.executable, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", "--quiet", "mcp<2"])
    for step in steps:
        try:
            done = subprocess.run(step, check=False, capture_output=True, text=True, timeout=_INSTALL_S)
        except subprocess.TimeoutExpired:
            pytest.skip(f"the SDK's line 1.x could not be installed within {_INSTALL_S:g} s")
        if done.returncode != 0:
            pytest.skip(f"the SDK's line 1.x cannot be installed here: step {step[2]!r} ended with {done.returncode}")
    return str(python)


class SdkProcess:
    """`tests.sdk_server` with those options, by the interpreter of this environment or of another one. It keeps its
    port when it is started again; what it held is gone then."""

    def __init__(self, *options: str, python: str = sys.executable) -> None:
        self._options = options
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when the port is open; a first request waits for the rest."""
        command = [self._python, "-m", "tests.sdk_server", "--port", str(self.port), *self._options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """As kill -9 does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
