"""Capture keeps what it should of a written set of turns."""

from __future__ import annotations

import pytest

from benchmarks.capturing import figures, turns
from tests.cli_runner import ROOT


@pytest.mark.requirement("N26")
@pytest.mark.parametrize("half", ["seen", "unseen"])
def test_capture_keeps_nine_of_ten_and_nothing_that_it_must_not(half: str) -> None:
    told = figures(turns(half))
    assert told.found >= 0.9 * told.wanted
    assert told.right >= 0.95 * told.kept
    assert (told.secrets, told.pasted) == (0, 0)
    figures_of_page = f"({told.found} of {told.wanted}) | 100 % ({told.right} of {told.kept}) | 0 | 0 |"
    assert figures_of_page in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
