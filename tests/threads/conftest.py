"""What most tests of threads ask for: a router over a store, whose memories have no lifetime that counts from use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

LASTING = Settings(durability="process", pace=Pace(closing_s=0.0, usage_flush_s=1e9))


@pytest.fixture
async def memory(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock, settings=LASTING) as router:
        yield router
