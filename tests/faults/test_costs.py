"""A whole router against a hostile server: what it costs in memory, and how long its event loop stands still."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli_runner import ROOT
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, TROUBLES, Means, Trouble, speaking
from tests.scripted.remote import ScriptedRemote

pytestmark = pytest.mark.measures

MOST_BYTES = 16 * 1024 * 1024
MOST_GAP_S = 0.1
HOSTILE = [
    pytest.param(one, dialect, id=f"{one}-{dialect}")
    for dialect in DIALECTS
    for one in TROUBLES
    if one.row in {6, 7, 9} and one.network is None and one.means is Means.LATER and one.only in {None, dialect}
]


@dataclass
class Worst:
    """Over all replies."""

    replies: int = 0
    grown: int = 0
    gap_s: float = 0.0


@pytest.fixture(scope="module")
def worst() -> Worst:
    return Worst()


@pytest.mark.faults
@pytest.mark.parametrize(("trouble", "dialect"), HOSTILE)
def test_hostile_replies_cost_a_router_little_memory_and_no_stall(
    tmp_path: Path, trouble: Trouble, dialect: str, worst: Worst
) -> None:
    """Measured in CPU seconds, so that a busy machine does not count against the event loop."""
    with ScriptedRemote(**speaking(dialect)) as server:
        command = [sys.executable, "-m", "tests.faults.hostile_session", server.url, str(tmp_path / "home")]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            server.wait_until(lambda one: any(call.method == "store_memory" for call in one.effects), 30)
            server.wait_until(lambda one: any("search" in call.method for call in one.requests), 30)
            server.always(trouble.play)
            output, _ = client.communicate("go\n", timeout=90)
    report = json.loads(output)
    assert client.returncode == 0
    assert report["waiting"] >= 3
    assert report["grown"] <= MOST_BYTES
    assert report["gap_s"] <= MOST_GAP_S
    worst.replies += 1
    worst.grown, worst.gap_s = max(worst.grown, report["grown"]), max(worst.gap_s, report["gap_s"])


@pytest.mark.faults
def test_the_worst_of_every_hostile_reply_is_told(worst: Worst, tell: Tell) -> None:
    assert worst.replies == len(HOSTILE)
    tell(7, f"{len(HOSTILE)} replies, {worst.grown / 2**20:.0f} MB more at most")
    tell(33, f"{worst.gap_s * 1000:.0f} ms at most")
