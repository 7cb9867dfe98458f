"""An orchestrator that keeps its place: context across steps, across agents, and across a restart.

    python examples/orchestrator.py [HOME]

Run it twice with the same HOME: the second run knows what the first one did.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from kingly_memory import MemoryRouter

RELEASE = "release-7"


async def plan(home: str) -> None:
    """One agent notes what the release is about. Nothing but the context id connects it with the others."""
    async with MemoryRouter.open(home, remote=False, project="shop", agent="planner") as memory:
        await memory.store("The release moves payments to the new ledger", type="working", context_id=RELEASE)
        await memory.store("Deploys need two reviews", key="deploy.rule", significance=0.9, context_id=RELEASE)


async def migrate(home: str) -> None:
    """Another agent, another process if you like: its task begins with what is at hand."""
    async with (
        MemoryRouter.open(home, remote=False, project="shop", agent="migrator") as memory,
        memory.task("migrate the payments table", context_id=RELEASE, approach="online") as task,
    ):
        known = 0 if task.context is None else len(task.context)
        print(f"migrator begins with {known} memories at hand")
        await task.note("The migration takes nine minutes on a copy of production")


async def report(home: str) -> None:
    """After a restart: `current` is where this project left off."""
    async with MemoryRouter.open(home, remote=False, project="shop", agent="migrator") as memory:
        context = await memory.working_context()
        print(f"context {context.context_id}:")
        for item in context.items:
            print(f"- {item.content.splitlines()[0]} ({item.scope.agent})")
        assessment = await memory.assess_confidence("migrate the payments table again", context_id=RELEASE)
        print(f"confidence {assessment.confidence:.2f} from {assessment.similar_tasks_count} similar task(s)")


async def main(home: str) -> None:
    await plan(home)
    await migrate(home)
    await report(home)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
