"""A hub in a process of its own, for the demo and for tests: to be killed and started again.

It ends with whoever started it, however that one ends.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from kingly_memory.errors import KinglyMemoryError

_LINE = "kingly-hub listening on "
_START_S = 30.0
"""Until a hub that has not printed its address counts as failed."""
_STOP_S = 30.0
"""Longer than a hub takes to finish the calls in progress."""
_PACKAGE_FOLDER = Path(__file__).parents[2]


class HubDidNotStart(KinglyMemoryError):
    """The hub's process ended, or stayed silent for too long."""

    def __init__(self, output: str) -> None:
        super().__init__(f"the hub did not start: {output or 'it said nothing'}")


class HubProcess:
    """A hub over `home`. It keeps its port, so that a hub started again is found where the first one was.

    The token travels in the environment. `options` are further words of the command line.
    """

    def __init__(self, home: Path, *, port: int = 0, token: str | None = None, options: Sequence[str] = ()) -> None:
        self.home = home
        self.port = port
        self._token = token
        self._options = options
        self._scheme = "http"
        self._process: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"<HubProcess port={self.port} running={self.running}>"

    def __enter__(self) -> HubProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the hub and return when it accepts calls. Raises HubDidNotStart."""
        if self.running:
            return
        # The caller's environment without Kingly's settings, but for what finds by meaning on this machine; the package
        # is found even where it is not installed.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("KINGLY_") or name == "KINGLY_EMBEDDER"
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PACKAGE_FOLDER), environment.get("PYTHONPATH"))))
        if self._token is not None:
            environment["KINGLY_HUB_TOKEN"] = self._token
        with tempfile.TemporaryFile("w+") as complaints:
            self._process = process = subprocess.Popen(  # noqa: S603  # this interpreter, this package
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=environment,
                start_new_session=True,  # Ctrl-C is for whoever started it, and then stops it
            )
            try:
                # It says nothing until it listens; a process that ends closes its output, and reads as an empty line.
                is_heard = process.stdout is not None and select.select([process.stdout], [], [], _START_S)[0]
                line = process.stdout.readline() if process.stdout is not None and is_heard else ""
            except BaseException:  # `with` has not begun, so nobody else would stop it
                self.kill()
                raise
            if not line.startswith(_LINE):
                self.kill()
                complaints.seek(0)
                raise HubDidNotStart(complaints.read().strip())
        address = urlsplit(line.removeprefix(_LINE).strip())
        self._scheme, self.port = address.scheme, address.port or 0

    def kill(self) -> None:
        """End it by SIGKILL, as a power switch would."""
        if self._process is not None:
            self._process.kill()
            self._reap(self._process)

    def stop(self) -> int | None:
        """Ask it to stop, and kill it if it will not. Returns its exit code."""
        if self._process is None:
            return None
        self._process.terminate()
        return self._reap(self._process)

    def _reap(self, process: subprocess.Popen[str]) -> int:
        try:
            code = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        self._process = None
        return code

    def _command(self) -> list[str]:
        where = ("--home", str(self.home), "--port", str(self.port))
        return [sys.executable, "-m", "kingly_memory", "hub", *where, "--until-eof", *self._options]
