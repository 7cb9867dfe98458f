"""What debates came to: found again by topic however much was stored since, with those who would not agree."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.cognition.consensus import ConsensusRecord, DissentRecord, topic_hash
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryType
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import ManualClock
from tests.cli_runner import ROOT, environment

DAY_S = 86_400.0
QUICK = Settings(durability="process", pace=Pace(closing_s=0.0))
NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)

DATABASE = ConsensusRecord(
    topic="Should the billing service move to PostgreSQL?",
    conclusion="Yes, after the spring release, with a month of double writes.",
    confidence=0.8,
    agreeing_agents=("ana", "bo"),
    participating_agents=("ana", "bo", "cy"),
    rounds=3,
    key_claims=("Locks are held too long today", "Double writes show differences early"),
    timestamp=NINE,
)


def dissent(debate_id: str, content: str = "A month of double writes is too short", **said: Any) -> DissentRecord:
    return DissentRecord(debate_id, "cy", content, **said)


# --- storing ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-037")
async def test_a_consensus_comes_back_as_it_was_stored(memory: MemoryRouter) -> None:
    debate_id = await memory.consensus.store_consensus(DATABASE)
    [similar] = await memory.consensus.find_similar(DATABASE.topic)
    assert similar.consensus == replace(DATABASE, id=debate_id)
    assert (similar.similarity, similar.dissents) == (1.0, ())
    stored = await memory.get(debate_id)
    assert stored is not None
    assert (stored.type, stored.confidence, stored.created_at) == (MemoryType.SEMANTIC, 0.8, NINE)


@pytest.mark.requirement("ARG-038")
async def test_a_dissent_comes_back_as_it_was_stored_and_is_linked_to_its_debate(memory: MemoryRouter) -> None:
    debate_id = await memory.consensus.store_consensus(DATABASE)
    said = dissent(
        debate_id,
        reasoning="The yearly invoices come only in January",
        confidence=0.9,
        timestamp=NINE,
    )
    dissent_id = await memory.consensus.store_dissent(said)
    [back] = await memory.consensus.get_dissent_for_topic(DATABASE.topic_hash)
    assert back == replace(said, id=dissent_id, topic=DATABASE.topic)
    [link] = await memory.links(debate_id)
    assert (link.source, link.target, link.link_type) == (dissent_id, debate_id, "contradicts")
    stored = await memory.get(dissent_id)
    assert stored is not None
    assert stored.scope.agent == "cy"


@pytest.mark.requirement("ARG-041")
async def test_records_are_there_after_a_restart_and_in_another_process(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with MemoryRouter.open(home, False, project="app", settings=QUICK) as memory:
        debate_id = await memory.consensus.store_consensus(DATABASE)
        await memory.consensus.store_dissent(dissent(debate_id))
    async with MemoryRouter.open(home, False, project="app", settings=QUICK) as memory:
        [similar] = await memory.consensus.find_similar("billing on PostgreSQL")
    assert similar.consensus == replace(DATABASE, id=debate_id)
    assert [one.content for one in similar.dissents] == ["A month of double writes is too short"]
    script = (
        "import asyncio, sys\n"
        "from kingly_memory import MemoryRouter\n"
        "async def main(home, digest):\n"
        "    async with MemoryRouter.open(home, False, project='app') as memory:\n"
        "        print(*[one.agent for one in await memory.consensus.get_dissent_for_topic(digest)])\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    ran = subprocess.run(  # noqa: ASYNC221  # nothing else is to happen meanwhile
        [sys.executable, "-W", "error", "-c", script, str(home), DATABASE.topic_hash],
        cwd=ROOT,
        env=dict(environment()),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert ran.stdout.split() == ["cy"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"topic": " "}, "topic: is empty; say it in a few words"),
        ({"conclusion": 3}, "conclusion: expected text, not int"),
        ({"confidence": 1.1}, "confidence: 1.1 is outside 0 to 1"),
        ({"rounds": -1}, "rounds: -1 is outside 0"),
        ({"agreeing_agents": ("dee",)}, "agreeing_agents: 'dee' is not among participating_agents"),
        ({"key_claims": 7}, "key_claims: expected a text for each, not int"),
        ({"conclusion": "x" * 66_000}, "metadata: has 66,... bytes, at most 64,000 are stored"),
    ],
)
async def test_a_record_that_makes_no_sense_is_refused_and_nothing_is_stored(
    memory: MemoryRouter, change: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        await memory.consensus.store_consensus(replace(DATABASE, **change))
    assert (await memory.status())["memories"]["total"] == 0


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-039")
@pytest.mark.parametrize("topic", [DATABASE.topic, "moving billing to postgresql"], ids=["the same", "like it"])
async def test_an_old_debate_is_found_behind_any_number_of_newer_ones(
    memory: MemoryRouter, clock: ManualClock, topic: str
) -> None:
    await memory.consensus.store_consensus(DATABASE)
    clock.jump(400 * DAY_S)
    for number in range(120):
        record = ConsensusRecord(f"Which colour for door {number}?", f"Paint {number}", key_claims=("Doors fade",))
        await memory.consensus.store_consensus(record)
    [best, *others] = await memory.consensus.find_similar(topic)
    assert best.consensus.topic == DATABASE.topic
    assert len(others) < 5


@pytest.mark.requirement("ARG-039")
async def test_similar_debates_come_best_first_and_the_same_topic_before_all(memory: MemoryRouter) -> None:
    consensus = memory.consensus
    for topic in (
        "Which tea for the kitchen?",
        "Move the billing tests to another runner",
        "Move the billing service to another port",
        "should the billing service move to POSTGRESQL",
        "Should the  billing service move to PostgreSQL?!",
    ):
        await consensus.store_consensus(ConsensusRecord(topic, "Decided."))
    found = await consensus.find_similar(DATABASE.topic, limit=4)
    assert [one.consensus.topic for one in found] == [
        "Should the  billing service move to PostgreSQL?!",
        "should the billing service move to POSTGRESQL",
        "Move the billing service to another port",
        "Move the billing tests to another runner",
    ]
    similarities = [one.similarity for one in found]
    assert similarities == sorted(similarities, reverse=True)
    assert similarities[:2] == [1.0, 1.0]
    assert 0 < similarities[3] < similarities[2] < 1
    assert len(await consensus.find_similar(DATABASE.topic, limit=1)) == 1


@pytest.mark.requirement("ARG-040")
async def test_dissents_are_found_by_topic_across_its_debates_oldest_first(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    consensus = memory.consensus
    first = await consensus.store_consensus(DATABASE)
    second = await consensus.store_consensus(replace(DATABASE, topic=DATABASE.topic.upper(), timestamp=None))
    other = await consensus.store_consensus(ConsensusRecord("Which tea?", "Green"))
    await consensus.store_dissent(dissent(second, "not again"))
    clock.tick(60)
    await consensus.store_dissent(dissent(first, "not yet"))
    await consensus.store_dissent(dissent(other, "coffee"))
    await consensus.store_dissent(dissent(first, "never", timestamp=NINE.replace(year=2020)))
    found = await consensus.get_dissent_for_topic(topic_hash(DATABASE.topic))
    assert [one.content for one in found] == ["never", "not again", "not yet"]
    debates = {one.consensus.id: one.dissents for one in await consensus.find_similar(DATABASE.topic, limit=2)}
    assert [one.content for one in debates[first]] == ["never", "not yet"]
    assert [one.content for one in debates[second]] == ["not again"]


@pytest.mark.requirement("ARG-040")
async def test_what_lies_in_the_archive_is_found_and_what_was_forgotten_is_not(
    memory: MemoryRouter,
) -> None:
    consensus = memory.consensus
    minor = replace(DATABASE, significance=0.4, timestamp=None)
    debate_id = await consensus.store_consensus(minor)
    kept = await consensus.store_dissent(dissent(debate_id, significance=0.4))
    for is_archived in (False, True):
        for memory_id in (debate_id, kept) if is_archived else ():
            await memory.archive(memory_id)
        [same] = await consensus.find_similar(minor.topic)
        [alike] = await consensus.find_similar("billing PostgreSQL")
        assert [one.id for one in same.dissents] == [one.id for one in alike.dissents] == [kept]
    await memory.forget(kept)
    assert await consensus.get_dissent_for_topic(minor.topic_hash) == []
    await memory.forget(debate_id)
    assert await consensus.find_similar(minor.topic) == []


@pytest.mark.parametrize("digest", ["", "which tea", "0" * 31, "G" * 32])
async def test_what_is_no_digest_of_a_topic_is_refused(memory: MemoryRouter, digest: str) -> None:
    with pytest.raises(InvalidInput, match="topic_hash: "):
        await memory.consensus.get_dissent_for_topic(digest)
    with pytest.raises(InvalidInput, match="topic: is empty"):
        await memory.consensus.find_similar(" ")


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_has_the_same_digest_in_every_process_and_however_it_is_written() -> None:
    assert topic_hash("Which tea?") == hashlib.sha256(b"which tea").hexdigest()[:32]
    assert len({topic_hash(one) for one in ("Which tea?", "  which\tTEA ", "WHICH TEA!", "Ｗhich tea。")}) == 1
    assert (
        len({topic_hash(one) for one in ("Adopt C", "Adopt C++", "Adopt C#", "Adopt v1.2", "Adopt v12", "?", "!")}) == 7
    )
