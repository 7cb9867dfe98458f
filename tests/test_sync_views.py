"""The views without `await`: the same methods and parameters, and events that a thread can wait for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory.app.hybrid_search import get_hybrid_memory_search
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cognition.consensus import ConsensusRecord, DissentRecord
from kingly_memory.cognition.stream import MemoryEvent
from kingly_memory.models import Tier
from kingly_memory.settings import Pace, Settings
from tools.blocking import FACES, TARGET, written

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0, poll_s=0.05))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", agent="scout", settings=QUICK) as opened:
        yield opened


def test_the_blocking_api_is_what_the_script_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == written(), "run: python -m tools.blocking"


@pytest.mark.requirement("N16")
def test_every_blocking_verb_has_a_docstring_of_its_own() -> None:
    from kingly_memory import blocking

    for face in FACES:
        written_class = getattr(blocking, face.name)
        verbs = [name for name, one in vars(written_class).items() if inspect.isfunction(one)]
        bare = [name for name in verbs if "See `" in (getattr(written_class, name).__doc__ or "See `")]
        assert bare == [], face.name


def test_a_stream_is_recorded_recalled_and_told(memory: SyncMemoryRouter) -> None:
    stream = memory.stream()
    stream.record(MemoryEvent("The ford is deep", "2026-01-01T09:00", "sighting"))  # type: ignore[arg-type]
    assert stream.agent == "scout"
    assert [event.content for event in stream.recall("ford")] == [event.content for event in stream.events()]
    assert stream.summarize((None, None)).startswith("1 event of scout: 1 sighting.")
    assert memory.stream("cook").events() == []


def test_debates_are_stored_and_found(memory: SyncMemoryRouter) -> None:
    record = ConsensusRecord("Which tea?", "Green", agreeing_agents=["ana"])
    debate_id = memory.consensus.store_consensus(record)
    dissent_id = memory.consensus.store_dissent(DissentRecord(debate_id, "bo", "Coffee"))
    [found] = memory.consensus.find_similar("which tea")
    assert (found.consensus.id, [one.id for one in found.dissents]) == (debate_id, [dissent_id])
    assert [one.agent for one in memory.consensus.get_dissent_for_topic(record.topic_hash)] == ["bo"]


async def test_a_continuum_does_all_that_the_awaited_one_does(memory: SyncMemoryRouter) -> None:
    continuum = memory.continuum
    stored = continuum.store("The ford is deep", Tier.FAST, topic="fords")
    [found] = continuum.retrieve("ford", [Tier.FAST])
    assert (found.id, found.access_count) == (stored.id, 1)
    assert continuum.update_outcome([found], True) == 1
    assert continuum.update_surprise_score(found, {"actual_usefulness": 1.0}) == pytest.approx(0.15)
    assert not continuum.needs_consolidation()
    assert continuum.consolidate_memories().promoted == 0
    assert continuum.get_memory_stats()["tier_counts"]["fast"] == 1
    entry = continuum.entry(stored.id)
    assert entry is not None
    assert entry.success_references == 1
    assert len(await get_hybrid_memory_search(continuum).search("ford")) == 1
