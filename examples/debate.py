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
from kingly_memory.cognition.continuum import MemoryTier
from kingly_memory.router.agents.debate import Debate
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


async def begin(debate: Debate) -> None:
    """Phase 0: what the slower tiers and earlier debates know of the topic."""
    known = await debate.begin()
    for entry in known.memories:
        print(f"  knows ({entry.tier}): {entry.content}")
    for earlier in known.debates[:1]:
        print(f"  settled before: {earlier.consensus.conclusion}")
        for dissent in earlier.dissents:
            print(f"  {dissent.agent} did not agree: {dissent.content}")


async def argue(debate: Debate, script: Script) -> None:
    """Phase 2: critiques are kept in FAST; each round hears them, and says how useful they were."""
    usefulness = {one.text: one.usefulness for critiques in script.rounds for one in critiques}
    for critiques in script.rounds:
        for one in critiques:
            await debate.criticise(one.agent, one.text)
        for entry in await debate.hear():
            surprise = await debate.judge(entry, usefulness[entry.content])
            told = " (a surprise)" if surprise else ""
            print(f"  round {debate.rounds}, {entry.source}: {entry.content}{told}")


async def conclude(debate: Debate, script: Script) -> None:
    """Phase 7: the outcome to SLOW, what was referred to has served, and room is made where there is none."""
    agreeing = [agent for agent in AGENTS if agent != script.dissenter]
    dissents = {script.dissenter: script.objection}
    done = await debate.conclude(script.conclusion, agreeing=agreeing, dissents=dissents, confidence=0.8)
    print(f"  {' and '.join(agreeing)} agree: {script.conclusion}")
    print(f"  {done.served} memories have served")
    if done.consolidation is not None:
        moves = done.consolidation
        print(f"  a tier was full: {moves.promoted} up, {moves.demoted} down, {moves.archived} to the archive")


async def hold(memory: MemoryRouter, script: Script) -> None:
    print(script.topic)
    debate = memory.debate(script.topic)
    await begin(debate)
    await argue(debate, script)
    await conclude(debate, script)


async def main(home: str) -> None:
    settings = replace(Settings.from_environment(), embedder="none")  # the same with and without vectors
    still = ManualClock()  # FAST is left after a minute of idleness, which a busy machine may need for this
    async with MemoryRouter.open(home, remote=False, project="debates", settings=settings, clock=still) as memory:
        await remember_earlier_times(memory)
        await hold(memory, FIRST)
    async with MemoryRouter.open(home, remote=False, project="debates", settings=settings, clock=still) as memory:
        await hold(memory, SECOND)
        [critique] = await memory.stream("ana").events()
        print(f"ana remembers: {critique.content}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
