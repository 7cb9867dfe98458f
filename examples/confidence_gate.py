"""An agent that asks before it leaps: it does what has gone well before, and hands over what has not.

python examples/confidence_gate.py
"""

from __future__ import annotations

import asyncio
import tempfile

from kingly_memory import MemoryRouter

ENOUGH = 0.6
HISTORY = (
    ("rotate the staging certificates", "completed"),
    ("rotate the production certificates", "completed"),
    ("rotate the certificates of the load balancer", "completed"),
    ("resize the billing database", "failed"),
    ("resize the billing database online", "failed"),
    ("resize the billing database at night", "failed"),
)
WISHES = ("rotate the staging certificates", "resize the billing database", "write a haiku")


async def main(home: str) -> None:
    async with MemoryRouter.open(home, remote=False, project="ops", agent="gatekeeper") as memory:
        for task, status in HISTORY:
            await memory.record_task_outcome(task, status)
        for wish in WISHES:
            assessment = await memory.assess_confidence(wish)
            verdict = "goes ahead" if assessment.confidence >= ENOUGH else "asks a human"
            print(f"{wish}: {assessment.confidence:.2f} ({assessment.similar_tasks_count} similar) -> {verdict}")
            for one in assessment.evidence:
                print(f"    {one.status}: {one.task}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
