"""The hub killed in the middle of a call, at every point of every change: afterwards each thing was done once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local import backup
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.grants import DEFAULT_NAMESPACE
from kingly_memory.models import REMOTE_ABOVE, MemoryStatus, Query
from kingly_memory.router.remotes.sync import CHANGES_AT_ONCE
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell
from tests.faults.mortal_hub import POINTS, MortalHub
from tests.hub.machines import text_at_hub
from tests.hub.stores import STORES, Database, Files, Server, postgres_server
from tests.hub.test_machines_restored import FIRST, STEPS, Interleaving
from tests.kill.harness import Diary, complaints, finish, start
from tests.kill.writer import PROJECT as WRITTEN
from tests.kill.writer import Order

PROJECT = "faults"
MOST_SYNCS = 20
EAGER = Settings(durability="process", pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0))
CHANGES = ("StoreMemory", "UpdateMemory", "ForgetMemory", "CreateMemoryLink", "RecordThought")
QUICK = {("embedded", "StoreMemory", "within"), ("embedded", "UpdateMemory", "after")}
CELLS = [
    pytest.param(
        kind,
        (change, point),
        id=f"{kind}-{change}-{point}",
        marks=() if (kind, change, point) in QUICK else pytest.mark.faults,
    )
    for kind in STORES
    for change in CHANGES
    for point in (POINTS if kind == "embedded" else ("within",))
]
HOMES = ("one", "other", "third")
RUNS = 40


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def kind() -> str:
    """The hub's store, where a test names none."""
    return "embedded"


@pytest.fixture
def kept(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> Files | Database:
    """Where the hub has its memory."""
    return Files(tmp_path) if kind == "embedded" else Database(request.getfixturevalue("postgres"), tmp_path)


@pytest.fixture
def hub(kept: Files | Database) -> Iterator[MortalHub]:
    hub = MortalHub(kept.home, kept.options)
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
@pytest.mark.parametrize(("kind", "at"), CELLS)
async def test_a_hub_killed_in_the_middle_of_a_change_has_done_it_once_when_it_is_back(
    hub: MortalHub, kept: Files | Database, kind: str, at: tuple[str, str], tell: Tell
) -> None:
    async with MemoryRouter.open(hub.home.parent / "home", hub.url, project=PROJECT, settings=EAGER) as memory:
        for key, content in (("harbour", "The harbour opens at six"), ("lantern", "Lit at dusk"), ("ferry", "Late")):
            await memory.store(content, key=key, significance=0.8)
        assert (await memory.sync(timeout=30)).pending == 0
        hub.kill()
        hub.die_at = (*at, 1)
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
    assert held_by(kept) == sorted(here.items())
    if kind == "embedded":
        assert complaints(hub.home) == []
    tell(15, f"hub killed {at[1]} a change ({kind}): one effect")


@pytest.mark.faults
@pytest.mark.requirement("UNI-010", "UNI-011", "P13")
@pytest.mark.parametrize("kind", STORES)
async def test_three_homes_and_their_hub_killed_and_put_back_are_equal_after_their_next_contact(
    tmp_path: Path, hub: MortalHub, kept: Files | Database, kind: str, tell: Tell
) -> None:
    """All processes die with 16 deliveries under way, the hub in the middle of a batch of each home. Then the hub and
    the first home are put back to backups of when that one had delivered."""
    diary = Diary()
    orders = [
        Order(str(tmp_path / name), hub.url, seed, 120, kill_at="MemorySent", kill_count=16, key_space=name, sync_s=20)
        for seed, name in enumerate(HOMES)
    ]
    assert [finish(writer, diary) for writer in [start(order) for order in orders]] == [-9] * len(HOMES)
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
            if order is orders[0]:
                await memory.backup(tmp_path / "one.backup")
                kept.back_up()
    kept.restore()
    backup.restore(Path(orders[0].home), tmp_path / "one.backup", replace=True, lock_wait_s=1)
    hub.start()
    homes = []
    for order in [*orders, *orders]:  # the first has not heard yet what the others said
        async with MemoryRouter.open(order.home, hub.url, project=WRITTEN, settings=EAGER) as memory:
            await deliver_everything(memory)
            homes.append({one.id: one for one, _ in memory.export()})
    hub.stop()
    homes = homes[len(orders) :]
    # A text that was revised to one that stays at home is not followed by the others.
    private = {one.id for home in homes for one in home.values() if one.significance <= REMOTE_ABOVE}
    at_hub = {key: content for key, content in held_by(kept, WRITTEN) if key not in private}
    shared = [{one.id: one.content for one in home.values() if one.id not in private} for home in homes]
    assert shared == [at_hub] * len(HOMES)
    tell(15, f"three homes and their hub ({kind}) killed while they deliver, then put back to backups: the same on all")


@pytest.mark.faults
@pytest.mark.requirement("N7")
@pytest.mark.parametrize("kind", STORES)
async def test_a_sync_is_killed_at_both_ends_and_goes_on_where_it_was(
    tmp_path: Path, hub: MortalHub, kept: Files | Database, kind: str, tell: Tell
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
    assert taken_in == [0, CHANGES_AT_ONCE, CHANGES_AT_ONCE, 2 * CHANGES_AT_ONCE]
    hub.stop()
    assert sorted(text for _, text in held_by(kept, WRITTEN)) == held_in(tmp_path / "second", WRITTEN)
    tell(15, f"reader and hub ({kind}) killed within a sync: it goes on where it was")


@pytest.mark.faults
@pytest.mark.requirement("A2", "A3", "A9")
def test_the_same_holds_where_the_database_of_a_hub_is_restored(postgres: Server, tell: Tell) -> None:
    chance = random.Random(1)
    for _ in range(RUNS):
        steps = [(chance.choice(STEPS), chance.randrange(12)) for _ in range(14)]
        with TemporaryDirectory() as folder:
            asyncio.run(Interleaving(Path(folder), Database(postgres, Path(folder))).play([*FIRST, *steps]))
    tell(15, f"three homes and a hub on PostgreSQL, backups restored: {RUNS} runs, the same on all")


async def deliver_everything(memory: MemoryRouter) -> None:
    for _ in range(MOST_SYNCS):
        report = await memory.sync(timeout=30)
        if (report.pending, report.dead) == (0, 0) and "links" not in (await memory.status()):
            return
    raise AssertionError(f"not everything arrived: {await memory.status()}")


def held_by(kept: Files | Database, project: str = PROJECT) -> list[tuple[str, str]]:
    """The ids and texts that the hub holds, every copy."""
    store = kept.opened()
    everything = Query("", scope_name(DEFAULT_NAMESPACE, project))
    rows = store.reader.page(everything, (MemoryStatus.LIVE,), 10_000, None)
    store.close()
    return sorted((str(row.memory.key), text_at_hub(row.memory)) for row in rows)


def held_in(home: Path, project: str) -> list[str]:
    store = DiskStore(home)
    rows = store.reader.page(Query("", project), (MemoryStatus.LIVE,), 10_000, None)
    store.close()
    return sorted(row.memory.content for row in rows)
