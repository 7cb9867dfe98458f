"""What tests of delivery share: a disk, remotes that obey, and a router over them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import ChoosyRemote, PromptStore, Remotes, Scene, at_work


@pytest.fixture
def disk(tmp_path: Path) -> PromptStore:
    return PromptStore(tmp_path / "home")


@pytest.fixture
def remote(clock: ManualClock) -> FakeRemote:
    return ChoosyRemote(clock=clock)


@pytest.fixture
async def at(disk: PromptStore, remote: FakeRemote, clock: ManualClock) -> AsyncIterator[Scene[FakeRemote]]:
    """A router that delivers from that disk to that remote."""
    async with at_work(disk, remote, clock) as scene:
        yield scene


@pytest.fixture
def here(disk: PromptStore, clock: ManualClock) -> Remotes:
    return Remotes(disk.home, clock)
