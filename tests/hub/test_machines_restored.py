"""A home that goes on from a backup: what it says from then on reaches the hub, whatever was said after the backup."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.adapters.local import backup
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.methods import parsed
from kingly_memory.models import Standing
from tests.hub.machines import Team, texts
from tests.store_samples import ask

SCOPE = scope_name("default", "app")


def held(team: Team) -> dict[str, str]:
    """What the hub holds, by the home's id of it."""
    page = team.store.reader.page(ask(project=SCOPE), (Standing.LIVE,), 1_000, None)
    return {str(row.memory.key): row.memory.content for row in page}


@pytest.mark.requirement("A2")
@pytest.mark.parametrize("is_copied", [False, True], ids=["backup", "copied files"])
async def test_changes_after_a_restored_backup_are_not_taken_for_those_before(tmp_path: Path, is_copied: bool) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as memory:
        await memory.store("The port is 1", key="port")
        await memory.store("The host is old", key="host")
        await memory.sync(timeout=5)
        await memory.backup(tmp_path / "monday.backup")
        shutil.copytree(tmp_path / "laptop", tmp_path / "copy")
        for number in (2, 3, 4):
            await memory.store(f"The port is {number}", key="port")
            await memory.sync(timeout=5)
        await memory.forget("host")
        await memory.sync(timeout=5)
    if is_copied:
        shutil.rmtree(tmp_path / "laptop")
        shutil.copytree(tmp_path / "copy", tmp_path / "laptop")
    else:
        backup.restore(tmp_path / "laptop", tmp_path / "monday.backup", replace=True, lock_wait_s=1)
    async with team.machine("laptop") as memory:
        receipt = await memory.store("The port is 9", key="port")
        assert receipt.revision == 2
        await memory.store("The host is new", key="host")
        await memory.sync(timeout=5)
        assert (await memory.status())["outbox"]["pending"] == 0
    async with team.machine("desktop") as other:
        assert await texts(other, "port") == ["The port is 9"]
        assert await texts(other, "host") == ["The host is new"]


@pytest.mark.requirement("A9")
async def test_a_hub_that_was_put_back_gets_again_what_it_lost(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as memory:
        port, gone = await memory.store("The port is 1", key="port"), await memory.store("The host is old")
        await memory.sync(timeout=5)
        backup.create(tmp_path / "hub", tmp_path / "hub.backup")
        await memory.store("The port is 2", key="port")
        later = await memory.store("Deploys need two reviews")
        await memory.link_memories(port.id, later.id, "related")
        await memory.forget(gone.id)
        await memory.sync(timeout=5)
        team.store.close()
        backup.restore(tmp_path / "hub", tmp_path / "hub.backup", replace=True, lock_wait_s=1)
        team.start()
        assert (await memory.sync(timeout=5)).delivered == 3
        assert held(team) == {port.id: "The port is 2", later.id: "Deploys need two reviews"}
        linked = team.engine.answer(SCOPE, parsed("get_linked_memories", {"memory_ids": [_remote_id(team, port.id)]}))
        assert len(linked["links"]) == 1
        await memory.store("The port is 3", key="port")
        await memory.sync(timeout=5)
        assert held(team)[port.id] == "The port is 3"
        assert (await memory.status())["outbox"] | {"dead": 0, "pending": 0} == (await memory.status())["outbox"]


@pytest.mark.requirement("A9")
async def test_a_hub_that_was_put_back_gets_again_what_it_lost_under_another_token(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop", token_mark="first") as memory:
        backup.create(tmp_path / "hub", tmp_path / "hub.backup")
        later = await memory.store("Deploys need two reviews")
        await memory.sync(timeout=5)
    team.store.close()
    backup.restore(tmp_path / "hub", tmp_path / "hub.backup", replace=True, lock_wait_s=1)
    team.start()
    async with team.machine("laptop", token_mark="second") as memory:
        await memory.sync(timeout=5)
        assert held(team) == {later.id: "Deploys need two reviews"}


def _remote_id(team: Team, key: str) -> str:
    found = team.store.reader.id_of_key(SCOPE, key)
    assert found is not None
    return found


@pytest.mark.requirement("A3")
async def test_a_change_of_somebody_else_under_a_high_number_freezes_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as memory:
        port = await memory.store("The port is 1", key="port")
        gone = await memory.store("The host is old")
        await memory.sync(timeout=5)
        for one in (port.id, gone.id):
            theirs = {"memory_id": _remote_id(team, one), "content": "mine now", "idempotency_key": f"{one}.99999999"}
            team.engine.answer(SCOPE, parsed("update_memory", theirs))
        await memory.forget(gone.id)
        for number in (2, 3):
            await memory.store(f"The port is {number}", key="port")
            await memory.sync(timeout=5)
            assert held(team) == {port.id: f"The port is {number}"}
        assert (await memory.status())["outbox"]["pending"] == 0


STEPS = ("store", "revise", "forget", "deliver", "back up the hub", "restore the hub", "back up", "restore", "meddle")


class Interleaving:
    """One home and one hub. `newest` has what the home said last of each memory, None of a forgotten one. `unsaid` are
    those that were changed after the backup that the home was restored from: the hub may know a later text of these,
    until the home says something of them again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.team = Team(folder)
        self.newest: dict[str, str | None] = {}
        self.unsaid: set[str] = set()
        self.kept: dict[str, str | None] | None = None
        self.kept_unsaid: set[str] = set()
        self.said = 0
        self.has_hub_backup = False

    async def play(self, steps: list[tuple[str, int]]) -> None:
        step = ""
        while steps:
            async with self.team.machine("home") as memory:
                while steps:
                    step, which = steps.pop(0)
                    if step == "restore":
                        break
                    await self.take(memory, step, which)
                await memory.sync(timeout=5)
            if step == "restore" and self.kept is not None:
                backup.restore(self.folder / "home", self.folder / "home.backup", replace=True, lock_wait_s=1)
                later = {one for one, text in self.newest.items() if self.kept.get(one, "") != text}
                self.newest, self.unsaid = dict(self.kept), (self.kept_unsaid | later) & self.kept.keys()
        async with self.team.machine("home") as memory:
            await memory.sync(timeout=5)
            outbox = (await memory.status())["outbox"]
            assert (outbox["pending"], outbox["leased"], outbox["dead"]) == (0, 0, 0)
            for one, text in self.newest.items():
                found = await memory.get(one)
                assert (None if found is None else found.content) == text
        there = held(self.team)
        assert {one: there.get(one) for one in self.newest if one not in self.unsaid} == {
            one: text for one, text in self.newest.items() if one not in self.unsaid
        }

    async def take(self, memory: MemoryRouter, step: str, which: int) -> None:
        self.said += 1
        text, one = f"text number {self.said}", list(self.newest)[which % len(self.newest)] if self.newest else None
        if step == "store":
            self.newest[(await memory.store(text, key=f"key {self.said}")).id] = text
        elif step == "deliver":
            await memory.sync(timeout=5)
        elif step == "back up the hub":
            (self.folder / "hub.backup").unlink(missing_ok=True)
            backup.create(self.folder / "hub", self.folder / "hub.backup")
            self.has_hub_backup = True
        elif step == "restore the hub" and self.has_hub_backup:
            self.team.store.close()
            backup.restore(self.folder / "hub", self.folder / "hub.backup", replace=True, lock_wait_s=1)
            self.team.start()
        elif step == "back up":
            (self.folder / "home.backup").unlink(missing_ok=True)
            await memory.backup(self.folder / "home.backup")
            self.kept, self.kept_unsaid = dict(self.newest), set(self.unsaid)
        elif one is not None and step == "meddle" and (there := self.team.store.reader.id_of_key(SCOPE, one)):
            theirs = {"memory_id": there, "content": text, "idempotency_key": f"{one}.99999999"}
            self.team.engine.answer(SCOPE, parsed("update_memory", theirs))
            self.unsaid.add(one)
        elif one is not None and step == "revise" and self.newest[one] is not None:
            await memory.update(one, content=text)
            self.newest[one] = text
            self.unsaid.discard(one)
        elif one is not None and step == "forget" and self.newest[one] is not None:
            await memory.forget(one)
            self.newest[one] = None
            self.unsaid.discard(one)


@pytest.mark.requirement("A2", "A3", "A9")
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=1, max_size=14))
def test_whatever_is_restored_and_however_it_interleaves_the_hub_ends_with_what_the_home_said_last(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(Interleaving(Path(folder)).play([("store", 0), ("back up the hub", 0), ("back up", 0), *steps]))
