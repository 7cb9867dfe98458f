"""The simulated quarter in small: nothing is lost that nobody gave up, and most questions are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quarter import ASKED_ON, BUDGET_TOKENS, SHOWN, Quarter


@pytest.mark.requirement("N1")
async def test_a_quarter_of_work_is_answered_for_and_loses_nothing(tmp_path: Path) -> None:
    days = await Quarter(tmp_path, routine=1).run()
    assert [one.day for one in days] == [*ASKED_ON]
    for one in days:
        assert one.lost == [], f"on day {one.day}"
        assert one.found >= 0.9 * one.questions, f"right among {SHOWN} on day {one.day}"
        assert one.tokens <= BUDGET_TOKENS * one.questions
    assert days[-1].questions == 20
