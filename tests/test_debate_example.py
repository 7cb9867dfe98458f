"""The debate that remembers: what each of its phases leaves in the store, and what the next debate makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.cognition.consensus import topic_hash
from kingly_memory.cognition.continuum import MemoryEntry
from kingly_memory.models import Tier
from tests.test_examples import run_example

FIRST = "Should billing move to PostgreSQL?"
CONCLUSION = "Billing moves to PostgreSQL after a month of double writes."
SECOND = "Should the invoices move to PostgreSQL too?"


@pytest.fixture
def said(tmp_path: Path) -> list[str]:
    return run_example("debate.py", tmp_path, str(tmp_path / "home")).splitlines()


@pytest.fixture
async def memory(said: list[str], tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    assert said
    async with MemoryRouter.open(tmp_path / "home", False, project="debates") as opened:
        yield opened


async def entry(memory: MemoryRouter, content: str) -> MemoryEntry:
    """What the debate keeps under exactly that text, whatever else says it too."""
    [memory_id] = [one.id for one, _ in memory.export() if one.content == content and "topic" in one.metadata]
    found = await memory.continuum.entry(memory_id)
    assert found is not None
    return found


@pytest.mark.requirement("ARG-051")
def test_phase_0_reads_the_slower_tiers_and_earlier_debates(said: list[str]) -> None:
    first, second = said[: said.index(SECOND)], said[said.index(SECOND) :]
    assert [line for line in first if line.startswith("  knows")] == [
        "  knows (medium): The mail service moved to PostgreSQL with double writes",
        "  knows (slow): Billing was down for a day when it last moved",
    ]
    assert not any("settled before" in line for line in first)
    assert f"  knows (slow): {FIRST} {CONCLUSION}" in second
    assert f"  settled before: {CONCLUSION}" in second
    assert "  cy did not agree: A month is too short: yearly invoices are written in January." in second
    assert not any("lunch" in line for line in said)


@pytest.mark.requirement("ARG-052")
async def test_phase_2_keeps_critiques_in_fast_and_says_how_useful_they_were(memory: MemoryRouter) -> None:
    useful = await entry(memory, "Moving billing in one night leaves no way back")
    useless = await entry(memory, "Billing in PostgreSQL needs somebody on call")
    assert (useful.tier, useful.source, useful.topic) == (Tier.FAST, "bo", FIRST)
    assert useful.access_count > 2  # heard in two rounds, and referred to
    assert useful.surprise_score > 0.1
    assert (useless.tier, useless.surprise_score) == (Tier.FAST, 0.0)
    assert [event.content for event in await memory.stream("cy").events()] == [useless.content]


@pytest.mark.requirement("ARG-053")
async def test_phase_7_keeps_the_outcome_in_slow_and_what_it_rests_on_has_served(
    memory: MemoryRouter, said: list[str]
) -> None:
    outcome = await entry(memory, f"{FIRST} {CONCLUSION}")
    assert (outcome.tier, outcome.source, outcome.success_references) == (Tier.SLOW, "debate", 1)
    twice = await entry(memory, "Billing was down for a day when it last moved")
    assert (twice.success_references, twice.tier) == (2, Tier.MEDIUM)  # it was in SLOW, and lifted by that
    assert (await entry(memory, "Billing can write to both stores for a month")).success_references == 1
    assert [line for line in said if "a tier was full" in line] == [
        "  a tier was full: 0 up, 0 down, 4 to the archive",
        "  a tier was full: 2 up, 0 down, 0 to the archive",
    ]
    archive = await memory.archived()
    assert {one.memory.metadata["topic"] for one in archive.entries} == {"minutes"}
    assert not await memory.continuum.needs_consolidation()


async def test_what_was_settled_is_found_by_the_next_who_asks(memory: MemoryRouter) -> None:
    [invoices, billing] = await memory.consensus.find_similar("moving invoices to PostgreSQL")
    assert (invoices.consensus.topic, billing.consensus.topic) == (SECOND, FIRST)
    assert (billing.consensus.rounds, list(billing.consensus.agreeing_agents)) == (2, ["ana", "bo"])
    assert [one.agent for one in await memory.consensus.get_dissent_for_topic(topic_hash(FIRST))] == ["cy"]
