"""A hostile reply is refused and costs next to nothing: in a process of its own, against a server in another. How long
its event loop stands still is measured by `make faults`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MOST_BYTES = 16 * 1024 * 1024
ENDED = {
    "gzip-bomb": "compressed",
    "double-gzip": "compressed",
    "huge": "longer than 1,048,576 bytes",
    "endless": "longer than 1,048,576 bytes",
    "tiny-chunks": "in pieces of a few bytes",
    "interim": "more than 16,384 bytes before its answer",
    "deep": "nested too deeply",
    "wide": "too many parts",
    "huge-int": "a number that is too large",
    "strings": "value|no message of JSON-RPC",
}
"""Each fault and what the caller is told."""
DIALECTS = {"json-call": [], "mcp": ["--dialect", "mcp", "--events"]}


@pytest.fixture(scope="module", params=DIALECTS)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What each fault cost the client, by fault."""
    port_file = tmp_path_factory.mktemp("remote") / "port"
    serve = [sys.executable, "-m", "tests.scripted.remote", "--port-file", str(port_file)]
    server = subprocess.Popen([*serve, *DIALECTS[request.param], "--script", "ok", *ENDED], cwd=ROOT)
    try:
        while not port_file.exists():
            assert server.poll() is None
            time.sleep(0.02)
        url = f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}"
        call = [sys.executable, "-m", "tests.hostile_client", url, str(len(ENDED)), request.param]
        client = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
        yield dict(zip(ENDED, json.loads(client.stdout), strict=True))
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=pytest.mark.requirement("A13")) if one == "interim" else one for one in ENDED]
)
def test_a_hostile_reply_is_refused_and_costs_little_memory(reports: dict[str, Any], fault: str) -> None:
    report = reports[fault]
    assert re.search(ENDED[fault], report["outcome"])
    assert report["grown"] <= MOST_BYTES
