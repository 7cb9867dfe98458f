"""The network between a router and its remote cut, slowed and cut again while a backlog is on its way."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, TOKEN, Place, placed

EAGER = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0),
    probe_interval_s=0.05,
    call_timeout_s=1.0,
)


@pytest.mark.requirement("KNG-047", "KNG-079")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("backlog", [12, pytest.param(400, marks=pytest.mark.faults)])
async def test_a_network_that_is_cut_again_and_again_delivers_everything_once(
    tmp_path: Path, dialect: str, backlog: int, tell: Tell
) -> None:
    with placed(dialect) as place:
        async with MemoryRouter.open(
            tmp_path / "home", place.url, token=TOKEN, project="faults", settings=EAGER
        ) as memory:
            place.network.refuse()
            for number in range(backlog):
                await memory.store(f"memory {number}", key=f"k{number}", significance=0.8)
            cuts = await asyncio.gather(cut_until_delivered(memory, place), deliver(memory, place, backlog))
            assert (await memory.sync(timeout=30)).pending == 0
    effects = Counter(str(call.params["idempotency_key"]) for call in place.server.effects)
    assert len(effects) == backlog
    assert set(effects.values()) == {1}
    asked = sum(call.method == "store_memory" for call in place.server.requests)
    tell(2, f"{cuts[0]} cuts: {backlog} delivered once in {asked} requests ({dialect})")


async def cut_until_delivered(memory: MemoryRouter, place: Place) -> int:
    """Break the network in every way by turns, a moment each. Returns how often."""
    chance, cuts = random.Random(3), 0
    while (await memory.status())["outbox"]["pending"] + (await memory.status())["outbox"]["leased"] and cuts < 60:
        place.network.mend()
        await asyncio.sleep(chance.uniform(0.02, 0.12))
        breaking = (place.network.cut, place.network.refuse, place.network.swallow, place.network.ignore)
        await asyncio.to_thread(breaking[cuts % len(breaking)])
        cuts += 1
        await asyncio.sleep(0.03)
    place.network.mend()
    return cuts


async def deliver(memory: MemoryRouter, place: Place, backlog: int) -> None:
    """Ask for the delivery until everything has arrived."""
    for _ in range(200):
        report = await memory.sync(timeout=5)
        if report.pending == 0:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{backlog} memories did not get through: {memory!r}")
