"""Three homes, their hub and its database killed at any moment and put back to older backups, as chance has it."""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.adapters.local import backup
from kingly_memory.models import REMOTE_ABOVE
from tests.faults.mortal_hub import POINTS, MortalHub
from tests.faults.test_hub_kills import EAGER, deliver_everything, held_by
from tests.hub.stores import STORES, Database, Files, Server, postgres_server
from tests.kill.harness import Diary, all_rows, complaints, kill, lost, start
from tests.kill.writer import PROJECT, Order

HOMES = ("one", "other", "third")
EVENTS = ("MemoriesLeased", "MemorySent", "MemoryDelivered")
METHODS = ("StoreMany", "StoreMemory", "UpdateMemory", "ForgetMemory", "ListChanges")
COUNT = 30
"""Changes of a writer, of which each is two lines, before it syncs."""
CHECKED_EVERY, PUT_BACK_EVERY = 2, 3
"""Rounds."""
KILLS = 160
"""For each store of a hub."""


@dataclass
class Home:
    """`diary` has what its writers said since it was made or put back: what was said before may be gone with that."""

    folder: Path
    name: str
    diary: Diary = field(default_factory=Diary)
    times_put_back: int = 0

    def order(self, url: str, chance: random.Random) -> Order:
        die: list[dict[str, Any]] = [{}, {"kill_statement": chance.randrange(1, 400)}]
        die += [{"kill_at": event, "kill_count": chance.randrange(1, 13)} for event in EVENTS]
        keys, seed = f"{self.name}{self.times_put_back}", chance.randrange(1_000_000)
        return Order(str(self.folder), url, seed, COUNT, key_space=keys, sync_s=10, **chance.choice(die))

    def put_back(self) -> int:
        """To its backup, where there is one. Returns how many kills its diary counted."""
        kept, kills = self.folder.with_suffix(".backup"), 0
        if kept.exists():
            backup.restore(self.folder, kept, replace=True, lock_wait_s=1)
            kills, self.diary, self.times_put_back = self.diary.kills, Diary(), self.times_put_back + 1
        return kills

    def back_up(self) -> None:
        kept = self.folder.with_suffix(".backup")
        kept.unlink(missing_ok=True)
        backup.create(self.folder, kept)


class Machines:
    """`kills` are those of hubs and databases, and of writers whose home was put back since."""

    def __init__(self, folder: Path, hub: MortalHub, kept: Files | Database, server: Server | None, seed: int) -> None:
        self.homes = [Home(folder / name, name) for name in HOMES]
        self.hub, self.kept, self.server = hub, kept, server
        self.chance = random.Random(seed)
        self.kills = 0

    def round(self) -> None:
        """All write, and all are killed."""
        chance, hub = self.chance, self.hub
        point = (chance.choice(METHODS), chance.choice(POINTS), chance.randrange(1, 5))
        hub.die_at = chance.choice([None, point])
        hub.start()
        writers = [start(one.order(hub.url, chance)) for one in self.homes]
        for number, (home, writer) in enumerate(zip(self.homes, writers, strict=True)):
            kill(writer, home.diary, chance.randrange(1, 2 * COUNT + 1))
            if number == 0 and self.server is not None and chance.random() < 0.5:
                self.server.stop()
                self.server.start()
                self.kills += 1
        hub.kill()
        self.kills += 1

    def put_something_back(self) -> None:
        """To a backup of any time before; and make another backup."""
        which = self.chance.choice([self.kept, *self.homes])
        if isinstance(which, Home):
            self.kills += which.put_back()
        else:
            which.restore()
        self.chance.choice([self.kept, *self.homes]).back_up()

    async def check(self) -> None:
        """After the next contact all have the same, the hub has each once, and nothing acknowledged is lost."""
        self.hub.die_at = None
        self.hub.start()
        found = []
        for home in [*self.homes, *self.homes]:  # the first has not heard yet what the others said
            async with MemoryRouter.open(home.folder, self.hub.url, project=PROJECT, settings=EAGER) as memory:
                await deliver_everything(memory)
                found.append({one.id: one for one, _ in memory.export()})
        self.hub.stop()
        found = found[len(self.homes) :]
        # A text that was revised to one that stays at home is not followed by the others.
        private = {one.id for each in found for one in each.values() if one.significance <= REMOTE_ABOVE}
        at_hub = [(key, text) for key, text in held_by(self.kept, PROJECT) if key not in private]
        for each in found:
            assert sorted((one.id, one.content) for one in each.values() if one.id not in private) == at_hub
        for home in self.homes:
            assert lost(all_rows(home.folder), home.diary) == []
            assert complaints(home.folder) == []


@pytest.mark.requirement("UNI-010", "UNI-011", "N2", "N7", "A2", "A9")
@pytest.mark.crash
@pytest.mark.parametrize("kind", STORES)
async def test_machines_killed_at_any_moment_and_put_back_are_one_memory_again_at_their_next_contact(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        server = None if kind == "embedded" else stack.enter_context(postgres_server())
        kept = Files(tmp_path) if server is None else Database(server, tmp_path)
        hub = MortalHub(kept.home, kept.options)
        stack.callback(hub.kill)
        machines = Machines(tmp_path, hub, kept, server, seed=len(kind))
        rounds = 0
        while (kills := machines.kills + sum(home.diary.kills for home in machines.homes)) < KILLS:
            machines.round()
            rounds += 1
            if rounds % CHECKED_EVERY == 0:
                await machines.check()
            if rounds % PUT_BACK_EVERY == 0:
                machines.put_something_back()
        await machines.check()
    with capsys.disabled():
        sys.stdout.write(f"\nmachines ({kind}): {kills} kills in {rounds} rounds: 0 lost, the same on all\n")
