"""Long runs have the time they need: the watchdog of the quick tests would end them."""

from __future__ import annotations

import faulthandler

import pytest

LONGEST_S = 1_800.0
STDERR = 2
"""Whatever the tests have put in its place."""


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("crash") is not None:
        faulthandler.dump_traceback_later(LONGEST_S, exit=True, file=STDERR)
