"""A thousand operations in a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings

STORED = 700


@pytest.mark.requirement("KNG-088")
async def test_a_thousand_operations_in_a_row_lose_nothing(tmp_path: Path) -> None:
    home, settings = tmp_path / "home", Settings(durability="process", local_search_s=30.0)
    async with MemoryRouter.open(home, project="soak", settings=settings) as memory:
        for number in range(STORED):
            await memory.store(f"step {number} of the long task is done", key=f"step-{number}")
        for number in range(0, STORED, 7):
            assert await memory.forget(f"step-{number}") is not None
            found = await memory.get(f"step-{number + 1}")
            assert found is not None
            results = await memory.search(f"step {number + 1} of the long task", limit=3)
            assert found in [hit.memory for hit in results]
    async with MemoryRouter.open(home, project="soak", settings=settings) as memory:
        assert (await memory.status())["memories"]["total"] == STORED * 6 // 7
        held = [await memory.get(f"step-{number}") is not None for number in range(STORED)]
    assert held == [number % 7 != 0 for number in range(STORED)]
