"""An agent that works through an outage of its memory server and never notices more than a word.

    python examples/offline_agent.py

It starts a hub of its own on this machine, loses it, goes on, and gets it back.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from kingly_memory import MemoryRouter
from kingly_memory.hub.process import HubProcess


async def look(memory: MemoryRouter, question: str) -> None:
    results = await memory.search(question)
    best = results[0].memory.content if results else "nothing"
    print(f"{question} -> {best} [{results.source}]")


async def main(folder: Path) -> None:
    hub = HubProcess(folder / "hub")
    hub.start()
    try:
        async with MemoryRouter.open(folder / "home", remote=hub.url, project="field", agent="scout") as memory:
            receipt = await memory.store("The north pump leaks at the lower seal", wait=5.0)
            print(f"stored: {receipt.delivery}")
            await look(memory, "which pump leaks")

            hub.kill()
            receipt = await memory.store("The spare seals are in box 14", context_id="round")
            print(f"stored without the hub: {receipt.delivery}")
            await look(memory, "where are the spare seals")
            context = await memory.working_context("round")
            print(f"context without the hub: {len(context)} at hand [{context.source}]")

            hub.start()
            report = await memory.sync()
            print(f"the hub is back: {report.delivered} delivered, {report.pending} waiting")
            await look(memory, "where are the spare seals")
    finally:
        hub.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
