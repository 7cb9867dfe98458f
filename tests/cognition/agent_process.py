"""A process that lives and says how far its life is saved, at its end also what the agent retrieves.

`python -m tests.cognition.agent_process HOME AGENT FIRST COUNT`
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterator

from kingly_memory import MemoryRouter, Settings
from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules

RULES = ExperienceRules(working_capacity=4, episodic_capacity=6)
SETTINGS = Settings(durability="process", embedder="none")


def live(memory: CognitiveMemory, number: int) -> Iterator[CognitiveMemory]:
    """The changes of that number, the same in every life: the memory after each."""
    memory.add_working(f"Event {number}", (number * 7 % 10) / 10, number // 5)
    yield memory
    if number % 9 == 8:
        memory.consolidate()
        yield memory


async def main(home: str, agent: str, first: int, count: int) -> None:
    async with MemoryRouter.open(home, remote=False, project="town", settings=SETTINGS) as memory:
        mind = await memory.cognitive(agent, rules=RULES)
        for number in range(first, first + count):
            deque(live(mind, number), maxlen=0)
            if number % 3 == 0:
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
        sys.stdout.write(json.dumps(mind.retrieve(100)) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
