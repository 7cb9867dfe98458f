"""A debate of three agents that remember: what is known comes in, critiques are at hand while it goes on, and what it
came to is kept, with who would not agree.

    python examples/debate.py [HOME]

Nobody thinks here: what the agents say is written down below, so that every run is the same. In a program of your own a
language model takes the place of `FIRST` and `SECOND`; the phases stay as they are.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kingly_memory import MemoryRouter, Settings
from kingly_memory.cognition.consensus import ConsensusRecord, DissentRecord
from kingly_memory.cognition.continuum import MemoryEntry, MemoryTier
from kingly_memory.cognition.stream import MemoryEvent
from kingly_memory.testing import ManualClock

AGENTS = ("ana", "bo", "cy")


@dataclass(frozen=True)
class Critique:
    """What an agent holds against a proposal, and how useful that proved to be (0 to 1)."""

    agent: str
    text: str
    usefulness: float


@dataclass(frozen=True)
class Script:
    """What a debate is about, what is said in it round by round, and what comes of it."""

    topic: str
    rounds: Sequence[Sequence[Critique]]
    conclusion: str
    dissenter: str
    objection: str


FIRST = Script(
    topic="Should billing move to PostgreSQL?",
    rounds=(
        (
            Critique("bo", "Moving billing in one night leaves no way back", 1.0),
            Critique("cy", "Billing in PostgreSQL needs somebody on call", 0.2),
        ),
        (Critique("ana", "Billing can write to both stores for a month", 0.9),),
    ),
    conclusion="Billing moves to PostgreSQL after a month of double writes.",
    dissenter="cy",
    objection="A month is too short: yearly invoices are written in January.",
)
SECOND = Script(
    topic="Should the invoices move to PostgreSQL too?",
    rounds=((Critique("bo", "Invoices are read far more often than billing is", 0.5),),),
    conclusion="The invoices follow billing, in February.",
    dissenter="bo",
    objection="They could stay where they are.",
)


async def remember_earlier_times(memory: MemoryRouter) -> None:
    """What was there before: two things to know, a note of a minute ago, and more minutes than SLOW has room for."""
    continuum = memory.continuum
    await continuum.store("The mail service moved to PostgreSQL with double writes", MemoryTier.MEDIUM, topic="moves")
    await continuum.store("Billing was down for a day when it last moved", MemoryTier.SLOW, 0.7, topic="moves")
    await continuum.store("Somebody asked about billing at lunch", MemoryTier.FAST, 0.8)
    for week in range(1, 203):
        await continuum.store(f"Minutes of week {week}: all is well", MemoryTier.SLOW, 0.3, topic="minutes")


async def begin(memory: MemoryRouter, script: Script) -> list[MemoryEntry]:
    """Phase 0: what the slower tiers and earlier debates know of the topic."""
    known = await memory.continuum.retrieve(script.topic, [MemoryTier.SLOW, MemoryTier.MEDIUM], limit=3)
    for entry in known:
        print(f"  knows ({entry.tier}): {entry.content}")
    for debate in await memory.consensus.find_similar(script.topic, limit=1):
        print(f"  settled before: {debate.consensus.conclusion}")
        for dissent in debate.dissents:
            print(f"  {dissent.agent} did not agree: {dissent.content}")
    return known


async def argue(memory: MemoryRouter, script: Script) -> list[MemoryEntry]:
    """Phase 2: critiques are kept in FAST; each round hears them, and says how useful they were."""
    usefulness = {one.text: one.usefulness for critiques in script.rounds for one in critiques}
    heard: dict[str, MemoryEntry] = {}
    for number, critiques in enumerate(script.rounds, start=1):
        for one in critiques:
            await memory.continuum.store(one.text, MemoryTier.FAST, 0.8, source=one.agent, topic=script.topic)
            # In its own stream too, but of so little weight that no tier near at hand says it twice.
            await memory.stream(one.agent).record(MemoryEvent(one.text, kind="critique", significance=0.2))
        for entry in await memory.continuum.retrieve(script.topic, [MemoryTier.FAST], strategy="fast_first"):
            if entry.topic != script.topic:
                continue
            said = {"predicted_relevance": entry.similarity or 0.0, "actual_usefulness": usefulness[entry.content]}
            surprise = await memory.continuum.update_surprise_score(entry, said)
            heard[entry.id] = entry
            print(f"  round {number}, {entry.source}: {entry.content}{' (a surprise)' if surprise else ''}")
    return list(heard.values())


async def conclude(memory: MemoryRouter, script: Script, referenced: Sequence[MemoryEntry]) -> None:
    """Phase 7: the outcome to SLOW, what was referred to has served, and room is made where there is none."""
    await memory.continuum.store(
        f"{script.topic} {script.conclusion}", MemoryTier.SLOW, 0.7, source="debate", topic=script.topic
    )
    agreeing = [agent for agent in AGENTS if agent != script.dissenter]
    record = ConsensusRecord(
        script.topic,
        script.conclusion,
        confidence=0.8,
        agreeing_agents=agreeing,
        participating_agents=AGENTS,
        rounds=len(script.rounds),
        key_claims=[entry.content for entry in referenced],
    )
    debate_id = await memory.consensus.store_consensus(record)
    await memory.consensus.store_dissent(DissentRecord(debate_id, script.dissenter, script.objection))
    served = await memory.continuum.update_outcome(referenced, success=True)
    print(f"  {' and '.join(agreeing)} agree: {script.conclusion}")
    print(f"  {served} memories have served")
    if await memory.continuum.needs_consolidation():
        result = await memory.continuum.consolidate_memories()
        print(f"  a tier was full: {result.promoted} up, {result.demoted} down, {result.archived} to the archive")


async def debate(memory: MemoryRouter, script: Script) -> None:
    print(script.topic)
    known = await begin(memory, script)
    heard = await argue(memory, script)
    await conclude(memory, script, [*known, *heard])


async def main(home: str) -> None:
    settings = replace(Settings.from_environment(), embedder="none")  # the same with and without vectors
    still = ManualClock()  # FAST is left after a minute of idleness, which a busy machine may need for this
    async with MemoryRouter.open(home, remote=False, project="debates", settings=settings, clock=still) as memory:
        await remember_earlier_times(memory)
        await debate(memory, FIRST)
    async with MemoryRouter.open(home, remote=False, project="debates", settings=settings, clock=still) as memory:
        await debate(memory, SECOND)
        [critique] = await memory.stream("ana").events()
        print(f"ana remembers: {critique.content}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
