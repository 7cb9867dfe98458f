"""A very long backlog: storing, starting and claiming stay what they were."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.filling import utterance
from benchmarks.measure import percentile
from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.ports import Delivery, Transaction
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell

pytestmark = [pytest.mark.faults, pytest.mark.measures]
BACKLOG = 100_000
TOGETHER = 10_000
SAMPLES = 60
MOST = 1.5
TURNS = 9
TRIES = 3
Pairs = list[tuple[float, float]]
"""Of few that wait, and of many."""


def waiting(memories: list[Memory], remote: str, transaction: Transaction) -> None:
    for memory in memories:
        transaction.save(memory, MemoryStatus.LIVE)
        transaction.set_delivery(remote, memory.id, Delivery(1, time.time()))


def filled(home: Path, remote: str, count: int) -> DiskStore:
    store = DiskStore(home, durability="process")
    for first in range(0, count, TOGETHER):
        batch = [utterance(f"note {number}", number, "app") for number in range(first, min(first + TOGETHER, count))]
        store.write(partial(waiting, batch, remote)).result()
    return store


def claim(store: DiskStore, remote: str) -> float:
    """CPU seconds of a claim of sixteen."""
    began = time.process_time()
    store.write(lambda one: one.due_deliveries(remote, time.time(), 16)).result()
    return time.process_time() - began


async def undisturbed(measured: Callable[[], Awaitable[Pairs]]) -> float:
    """The ratio of medians of the first measurement that the machine, or what is worked out behind, did not disturb,
    else of the last one: what is so stays so."""
    found = MOST
    for _ in range(TRIES):
        pairs = await measured()
        found = percentile([many for _, many in pairs], 50) / percentile([few for few, _ in pairs], 50)
        if found <= MOST:
            break
    return found


@pytest.mark.requirement("KNG-005")
async def test_a_long_backlog_slows_nobody_down(tmp_path: Path, unused_tcp_port: int, tell: Tell) -> None:
    """By turns and in CPU seconds, so that a busy machine burdens both alike."""
    address = f"http://127.0.0.1:{unused_tcp_port}"
    remote = endpoint(address).remote_name
    few, many = filled(tmp_path / "few", remote, 100), filled(tmp_path / "many", remote, BACKLOG)

    async def claims() -> Pairs:
        return [(claim(few, remote), claim(many, remote)) for _ in range(SAMPLES)]

    async def starts() -> Pairs:
        homes = tmp_path / "few", tmp_path / "many"
        return [(await started(homes[0], address), await started(homes[1], address)) for _ in range(TURNS)]

    claiming = await undisturbed(claims)
    few.close()
    many.close()
    starting = await undisturbed(starts)
    settings = Settings(durability="process", pace=Pace(closing_s=0.0))
    async with (
        MemoryRouter.open(tmp_path / "few", address, project="app", settings=settings) as light,
        MemoryRouter.open(tmp_path / "many", address, project="app", settings=settings) as heavy,
    ):

        async def stores() -> Pairs:
            return [(await stored(light, number), await stored(heavy, number)) for number in range(SAMPLES)]

        storing = await undisturbed(stores)
    tell(22, f"{BACKLOG:,} waiting ÷ 100: claim {claiming:.2f}, store {storing:.2f}, start {starting:.2f}")
    assert max(claiming, storing, starting) <= MOST


async def started(home: Path, address: str) -> float:
    """CPU seconds until a router with that home is open."""
    began = time.process_time()
    async with MemoryRouter.open(
        home, address, project="app", settings=Settings(durability="process", pace=Pace(closing_s=0.0))
    ):
        return time.process_time() - began


async def stored(memory: MemoryRouter, number: int) -> float:
    """CPU seconds of a store."""
    began = time.process_time()
    await memory.store(f"one more {number}", significance=0.2)
    return time.process_time() - began
