"""A hub as a process of its own, for the demo to start, kill and question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from kingly_memory import version
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import JsonObject

START_LIMIT_S = 30.0
CALL_LIMIT_S = 5.0
EVERY_MEMORY = 1_000


class HubDidNotStart(KinglyMemoryError):
    """The hub's process ended, or stayed silent for too long."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the demo's hub did not start: {said or 'it said nothing'}")


class HubProcess:
    """One hub on this machine. It gets a free port at its first start and keeps it."""

    def __init__(self, home: Path, project: str) -> None:
        self._home = home
        self._project = project
        self._log = home.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> float:
        """Start it and return after how many seconds it listened. Raises HubDidNotStart."""
        began = time.monotonic()
        port = str(urlsplit(self.url).port or 0)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this very program
                [sys.executable, "-m", "kingly_memory", "hub", "--port", port, "--home", str(self._home)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the hub
            )
        self.url = self._announced(self._process)
        return time.monotonic() - began

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, no good-bye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def held(self) -> dict[str, list[str]]:
        """The texts that the hub holds, by our id, asked over the wire as any client would."""
        reply = self._call("search_semantic_memories", {"query": "everything", "limit": EVERY_MEMORY})
        held: dict[str, list[str]] = {}
        for one in reply["memories"]:
            wrapped = json.loads(one["content"])
            held.setdefault(str(wrapped["metadata"]["id"]), []).append(str(wrapped["content"]))
        return held

    def _announced(self, process: subprocess.Popen[str]) -> str:
        """The address in the first line that the hub writes, which it does when it listens."""
        timer = threading.Timer(START_LIMIT_S, process.kill)
        timer.start()
        try:
            line = process.stdout.readline() if process.stdout else ""
        finally:
            timer.cancel()
        _, found, url = line.rstrip().rpartition(" http://")
        if not found:
            self.kill()
            raise HubDidNotStart(self._log.read_text(errors="replace")[-300:].strip())
        return f"http://{url}"

    def _call(self, method: str, params: JsonObject) -> JsonObject:
        address = urlsplit(self.url)
        connection = HTTPConnection(str(address.hostname), address.port, timeout=CALL_LIMIT_S)
        try:
            body = json.dumps({"method": method, "params": params})
            connection.request("POST", "/mcp/call", body, {"Kingly-Project": self._project})
            reply: JsonObject = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return reply


def _environment() -> dict[str, str]:
    """The caller's environment without Kingly's settings; the package is found even where it is not installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KINGLY_")}
    here = str(Path(version.__file__).parents[1])
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [here, kept.get("PYTHONPATH")]))}
