"""Capture keeps what it should of a written set of turns."""

from __future__ import annotations

import pytest

from benchmarks.capturing import HALVES, figures, turns
from tests.cli_runner import ROOT


@pytest.mark.requirement("N26")
@pytest.mark.parametrize("half", ["seen", "unseen"])
def test_capture_keeps_nine_of_ten_and_nothing_that_it_must_not(half: str) -> None:
    told = figures(turns(half))
    assert told.found >= 0.9 * told.wanted
    assert told.right >= 0.95 * told.kept
    assert (told.secrets, told.pasted) == (0, 0)


@pytest.mark.requirement("N26")
def test_of_turns_in_many_voices_nothing_secret_or_pasted_is_kept_either() -> None:
    told = figures(turns("in many voices"))
    assert told.found >= 0.9 * told.wanted
    assert told.right >= 0.85 * told.kept  # a third of the turns is there to be passed over
    assert (told.secrets, told.pasted) == (0, 0)


@pytest.mark.parametrize("half", HALVES)
def test_the_page_has_the_figures_of_every_half_whatever_they_are(half: str) -> None:
    told = figures(turns(half))
    found, right = 100 * told.found / told.wanted, 100 * told.right / told.kept
    row = (
        f"| {half} | {found:.0f} % ({told.found} of {told.wanted}) | {right:.0f} % ({told.right} of {told.kept})"
        f" | {told.secrets} | {told.pasted} |"
    )
    assert row in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
