"""The hub killed in the middle of a call, at every point of every change: afterwards each thing was done once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.grants import DEFAULT_NAMESPACE
from kingly_memory.models import REMOTE_ABOVE, Query, Standing
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell
from tests.faults.mortal_hub import POINTS, MortalHub
from tests.kill.harness import Diary, complaints, finish, start
from tests.kill.writer import PROJECT as WRITTEN
from tests.kill.writer import Order

PROJECT = "faults"
MOST_SYNCS = 20
EAGER = Settings(durability="process", pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0))
CHANGES = ("StoreMemory", "UpdateMemory", "ForgetMemory", "CreateMemoryLink", "RecordThought")
CELLS = [
    pytest.param(
        change,
        point,
        marks=() if (change, point) in {("StoreMemory", "within"), ("UpdateMemory", "after")} else pytest.mark.faults,
    )
    for change in CHANGES
    for point in POINTS
]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[MortalHub]:
    hub = MortalHub(tmp_path / "hub")
    hub.start()
    yield hub
    hub.kill()


async def change_everything(memory: MemoryRouter) -> None:
    """One of each kind of change, of memories that the hub has."""
    await memory.store("The pier was mended", key="pier", significance=0.9)
    await memory.store("The harbour opens at seven", key="harbour")
    await memory.forget("lantern")
    await memory.link_memories("harbour", "ferry", "supports")
    await memory.record_thought("Fog delays ferries", chain_id="fog")


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize(("change", "point"), CELLS)
async def test_a_hub_killed_in_the_middle_of_a_change_has_done_it_once_when_it_is_back(
    tmp_path: Path, hub: MortalHub, change: str, point: str, tell: Tell
) -> None:
    async with MemoryRouter.open(tmp_path / "home", hub.url, project=PROJECT, settings=EAGER) as memory:
        for key, content in (("harbour", "The harbour opens at six"), ("lantern", "Lit at dusk"), ("ferry", "Late")):
            await memory.store(content, key=key, significance=0.8)
        assert (await memory.sync(timeout=30)).pending == 0
        hub.kill()
        hub.die_at = (change, point, 1)
        hub.start()
        await change_everything(memory)
        await memory.sync(timeout=30)
        hub.bury()
        hub.die_at = None
        hub.start()
        await deliver_everything(memory)
        here = {one.id: one.content for one, _ in memory.export() if one.significance > 0.3}
        found = await memory.search("harbour")
        assert [hit.memory.content for hit in found][:1] == ["The harbour opens at seven"]
    hub.stop()
    assert held_by(hub) == sorted(here.items())
    assert complaints(hub.home) == []
    tell(15, f"hub killed {point} a change: one effect")


@pytest.mark.faults
@pytest.mark.requirement("UNI-010", "UNI-011", "P13")
async def test_two_homes_and_their_hub_killed_while_they_deliver_are_equal_after_their_next_contact(
    tmp_path: Path, hub: MortalHub, tell: Tell
) -> None:
    """Both processes die with 16 deliveries under way, the hub in the middle of a batch of each home."""
    diary = Diary()
    orders = [
        Order(str(tmp_path / name), hub.url, seed, 120, kill_at="MemorySent", kill_count=16, key_space=name, sync_s=20)
        for seed, name in enumerate(("one", "other"))
    ]
    assert [finish(writer, diary) for writer in [start(order) for order in orders]] == [-9, -9]
    hub.kill()
    for order in orders:
        async with MemoryRouter.open(order.home, hub.url, project=WRITTEN, settings=EAGER) as memory:
            await memory.store_many([f"{order.key_space} {number}" for number in range(40)])
            hub.die_at = ("StoreMany", "within", 2)
            hub.start()
            await memory.sync(timeout=30)
            hub.kill()
            hub.die_at = None
            hub.start()
            await deliver_everything(memory)
            hub.kill()
    hub.start()
    homes = []
    for order in orders:  # the first has not heard yet what the other forgot
        async with MemoryRouter.open(order.home, hub.url, project=WRITTEN, settings=EAGER) as memory:
            await deliver_everything(memory)
            homes.append({one.id: one for one, _ in memory.export()})
    hub.stop()
    # A text that was revised to one that stays at home is not followed by the others.
    kept = {one.id for home in homes for one in home.values() if one.significance <= REMOTE_ABOVE}
    at_hub = {key: content for key, content in held_by(hub, WRITTEN) if key not in kept}
    assert [{one.id: one.content for one in home.values() if one.id not in kept} for home in homes] == [at_hub] * 2
    tell(15, "two homes and their hub killed while they deliver: the same on all three")


@pytest.mark.faults
@pytest.mark.requirement("N7")
async def test_a_sync_is_killed_at_both_ends_and_goes_on_where_it_was(
    tmp_path: Path, hub: MortalHub, tell: Tell
) -> None:
    """The reader dies within a page and between two, the hub with a page in its hands."""
    async with MemoryRouter.open(tmp_path / "first", hub.url, project=WRITTEN, settings=EAGER) as memory:
        await memory.store_many([f"fact {number}" for number in range(1_200)])
        await deliver_everything(memory)
    order = Order(str(tmp_path / "second"), hub.url, 1, count=0, sync_s=30)
    taken_in = []
    for statement, point in ((40, None), (None, "before"), (900, None), (None, "after")):
        hub.kill()
        hub.die_at = None if point is None else ("ListChanges", point, 2)
        hub.start()
        finish(start(replace(order, kill_statement=statement)), Diary())
        taken_in.append(len(held_in(tmp_path / "second", WRITTEN)))
    hub.kill()
    hub.die_at = None
    hub.start()
    assert finish(start(order), Diary()) == 0
    assert taken_in == [0, 500, 500, 1_000]
    assert sorted(text for _, text in held_by(hub, WRITTEN)) == held_in(tmp_path / "second", WRITTEN)
    tell(15, "reader and hub killed within a sync: it goes on where it was")


async def deliver_everything(memory: MemoryRouter) -> None:
    for _ in range(MOST_SYNCS):
        report = await memory.sync(timeout=30)
        if (report.pending, report.dead) == (0, 0) and "links" not in (await memory.status()):
            return
    raise AssertionError(f"not everything arrived: {await memory.status()}")


def held_by(hub: MortalHub, project: str = PROJECT) -> list[tuple[str, str]]:
    """The ids and texts that the hub holds, every copy."""
    store = DiskStore(hub.home)
    everything = Query("", scope_name(DEFAULT_NAMESPACE, project))
    rows = store.reader.page(everything, (Standing.LIVE,), 10_000, None)
    store.close()
    return sorted((str(row.memory.key), row.memory.content) for row in rows)


def held_in(home: Path, project: str) -> list[str]:
    store = DiskStore(home)
    rows = store.reader.page(Query("", project), (Standing.LIVE,), 10_000, None)
    store.close()
    return sorted(row.memory.content for row in rows)
