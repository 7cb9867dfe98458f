"""The phases of a debate as verbs: what comes in, what is heard, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import InvalidInput, MemoryRouter, SyncMemoryRouter
from kingly_memory.models import Tier
from kingly_memory.testing import ManualClock

pytestmark = pytest.mark.requirement("L10")
TOPIC = "Should billing move to PostgreSQL?"


@pytest.mark.requirement("ARG-051")
async def test_a_debate_begins_with_what_the_slower_tiers_know(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", clock=ManualClock()) as memory:
        await memory.continuum.store("Mail moved to PostgreSQL with double writes", Tier.MEDIUM)
        await memory.continuum.store("Billing was down when it last moved", Tier.SLOW)
        await memory.continuum.store("Somebody asked about billing at lunch", Tier.FAST)
        known = await memory.debate(TOPIC).begin()
        assert {entry.tier for entry in known.memories} == {Tier.MEDIUM, Tier.SLOW}
        assert known.debates == []


@pytest.mark.requirement("ARG-052")
async def test_critiques_are_heard_from_fast_and_surprise_by_their_use(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", clock=ManualClock()) as memory:
        other = memory.debate("Should mail move to PostgreSQL?")
        await other.criticise("bo", "Mail in PostgreSQL is slow to move")
        debate = memory.debate(TOPIC)
        critique = await debate.criticise("cy", "Billing in PostgreSQL needs somebody on call")
        [heard] = await debate.hear()
        assert (heard.id, heard.tier, heard.source) == (critique.id, Tier.FAST, "cy")
        assert await debate.judge(heard, 1.0) > await debate.judge(heard, 0.0) >= 0
        assert [event.content for event in await memory.stream("cy").events()] == [critique.content]
        assert repr(debate) == f"<Debate topic={TOPIC!r} rounds=1>"


@pytest.mark.requirement("ARG-053")
async def test_a_conclusion_is_kept_and_what_it_rests_on_has_served(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", clock=ManualClock()) as memory:
        known = await memory.continuum.store("Billing was down when it last moved to a new store", Tier.SLOW)
        debate = memory.debate(TOPIC)
        await debate.begin()
        await debate.criticise("bo", "Billing that moves to PostgreSQL in one night has no way back")
        await debate.hear()
        done = await debate.conclude("After a month.", agreeing=["ana"], dissents={"cy": "A month is too short"})
        assert (done.served, done.consolidation, done.outcome.tier) == (2, None, Tier.SLOW)
        entry = await memory.continuum.entry(known.id)
        assert entry is not None
        assert entry.success_references == 1
        [earlier] = (await memory.debate(TOPIC).begin()).debates
        assert (earlier.consensus.conclusion, earlier.consensus.rounds) == ("After a month.", 1)
        assert [(one.agent, one.content) for one in earlier.dissents] == [("cy", "A month is too short")]


@pytest.mark.requirement("ARG-053")
async def test_a_conclusion_consolidates_a_tier_that_is_too_full(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", clock=ManualClock()) as memory:
        for week in range(201):
            await memory.continuum.store(f"Minutes of week {week}", Tier.SLOW, 0.3)
        done = await memory.debate(TOPIC).conclude("Yes.", agreeing=["ana"])
        assert done.consolidation is not None


def test_a_debate_needs_no_await_and_a_topic(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home") as memory:
        debate = memory.debate(TOPIC)
        debate.criticise("bo", "Billing needs a way back")
        assert len(debate.hear()) == debate.rounds == 1
        with pytest.raises(InvalidInput, match="topic"):
            memory.debate(" ")
