"""A home that goes on from a backup: what it says from then on reaches the hub, whatever was said after the backup."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.adapters.local import backup
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.methods import parsed
from kingly_memory.models import MemoryStatus
from tests.hub.machines import Team, text_at_hub, texts
from tests.hub.stores import Database, Files
from tests.store_samples import ask

SCOPE = scope_name("default", "app")


def held(team: Team) -> dict[str, str]:
    """What the hub holds, by the home's id of it."""
    page = team.store.reader.page(ask(project=SCOPE), (MemoryStatus.LIVE,), 1_000, None)
    return {str(row.memory.key): text_at_hub(row.memory) for row in page}


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
        assert receipt.revision > 4  # it has heard from the hub what it said after the backup
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
        team.back_up()
        await memory.store("The port is 2", key="port")
        later = await memory.store("Deploys need two reviews")
        await memory.link_memories(port.id, later.id, "related")
        await memory.forget(gone.id)
        await memory.sync(timeout=5)
        team.put_back()
        assert (await memory.sync(timeout=5)).delivered == 3
        assert held(team) == {port.id: "The port is 2", later.id: "Deploys need two reviews"}
        linked = team.engine.answer(SCOPE, parsed("get_linked_memories", {"memory_ids": [_remote_id(team, port.id)]}))
        assert len(linked["links"]) == 1
        await memory.store("The port is 3", key="port")
        await memory.sync(timeout=5)
        assert held(team)[port.id] == "The port is 3"
        assert (await memory.status())["outbox"] | {"dead": 0, "pending": 0} == (await memory.status())["outbox"]


@pytest.mark.requirement("A9", "N2")
async def test_what_is_forgotten_before_it_was_sent_again_to_a_hub_that_was_put_back_is_forgotten_on_all(
    tmp_path: Path,
) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        team.back_up()
        await laptop.store("The port is 1", key="port")
        await laptop.sync(timeout=5)
        await desktop.sync(timeout=5)
        team.put_back()
        assert await laptop._engine.remotes.connections[0]._link.probe(forced=True)  # and nothing is sent yet
        team.clock.tick(1)
        await laptop.forget("port")
        for memory in (desktop, laptop, desktop):
            await memory.sync(timeout=5)
        assert held(team) == {}
        assert [*await laptop.list(), *await desktop.list()] == []


@pytest.mark.requirement("A9")
async def test_a_hub_that_was_put_back_gets_again_the_documents_that_it_lost(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        for memory in (laptop, desktop):
            await memory.documents.share("users")
        for key in ("changed", "gone", "same"):
            await laptop.documents.put("users", key, "old")
        await laptop.sync(timeout=5)
        team.back_up()
        team.clock.tick(1)
        await laptop.documents.put("users", "changed", "new")
        await laptop.documents.put("users", "later", "new")
        await laptop.documents.delete("users", "gone")
        for memory in (laptop, desktop):
            await memory.sync(timeout=5)
        team.put_back()
        for memory in (desktop, laptop, desktop):
            await memory.sync(timeout=5)
        async with team.machine("third") as third:
            await third.documents.share("users")
            await third.sync(timeout=5)
            for memory in (laptop, desktop, third):
                now = {one.key: one.value for one in await memory.documents.list("users")}
                assert now == {"changed": "new", "later": "new", "same": "old"}


@pytest.mark.requirement("A9")
async def test_documents_that_a_hub_never_had_are_written_apart_though_it_was_put_back_meanwhile(
    tmp_path: Path,
) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        for memory in (laptop, desktop):
            await memory.documents.share("users")
        team.back_up()
        await laptop.documents.put("users", "note", "of the laptop")
        team.clock.tick(1)
        await desktop.documents.put("users", "note", "of the desktop")
        team.put_back()
        for memory in (laptop, desktop, laptop, desktop):
            await memory.sync(timeout=5)
        for memory in (laptop, desktop):
            now = {one.key: one.value for one in await memory.documents.list("users")}
            assert (now.pop("note"), list(now.values())) == ("of the desktop", ["of the laptop"])


@pytest.mark.requirement("A9")
async def test_a_hub_that_was_put_back_gets_again_what_it_lost_under_another_token(tmp_path: Path) -> None:
    team = Team(tmp_path)
    async with team.machine("laptop", token_mark="first") as memory:
        team.back_up()
        later = await memory.store("Deploys need two reviews")
        await memory.sync(timeout=5)
    team.put_back()
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


STEPS = ("store", "update", "forget", "bring back", "sync", "open again", "back up", "restore", "meddle")
HOMES = ("laptop", "desktop", "tablet")
PLACES = (*HOMES, "hub")
KEYS = ("port", "host", "path")
FIRST = [("store", 0), *(("back up", place) for place in range(len(PLACES)))]


class Interleaving:
    """Three homes and one hub. `said` has what the homes said of each key since anything was put back to a backup, the
    last at the end; `unsure` are keys that somebody forgot, or of which a stranger said something."""

    def __init__(self, folder: Path, at_hub: Files | Database) -> None:
        self.folder, self.at_hub = folder, at_hub
        self.team = Team(folder, at_hub.opened)
        self.homes: dict[str, tuple[AsyncExitStack, MemoryRouter]] = {}
        self.said: dict[str, list[str]] = {}
        self.unsure: set[str] = set()
        self.number = 0

    async def play(self, steps: list[tuple[str, int]]) -> None:
        try:
            for name in HOMES:
                await self.open(name)
            for step, which in steps:
                self.team.clock.tick(1)
                await self.take(step, PLACES[which % 4], KEYS[which // 4])
            for name in HOMES * 2:
                report = await self.homes[name][1].sync(timeout=5)
                assert (report.pending, report.dead, report.link) == (0, 0, "connected")
            await self.look()
        finally:
            for stack, _ in self.homes.values():
                await stack.aclose()
            self.team.store.close()

    async def look(self) -> None:
        """All have the same, and nothing that was said is lost."""
        there = sorted(held(self.team).values())
        for _, memory in self.homes.values():
            page = await memory.list(limit=100)
            assert sorted(one.content for one in page) == there
            assert len({one.key for one in page}) == len(page)
            for key in self.said.keys() - self.unsure:
                texts = [one.content for one in await memory.history(key)]
                assert texts[0] == self.said[key][-1]

    async def open(self, name: str) -> None:
        stack = AsyncExitStack()
        memory = await stack.enter_async_context(self.team.machine(name, is_synced=False))
        self.homes[name] = stack, memory

    async def take(self, step: str, place: str, key: str) -> None:
        self.number += 1
        text, backed_up = f"text number {self.number}", self.folder / f"{place}.backup"
        if place == "hub":
            self.do_at_the_hub(step, text)
            return
        stack, memory = self.homes[place]
        is_there = await memory.get(key) is not None
        if step == "store":
            await memory.store(text, key=key)
            self.said.setdefault(key, []).append(text)
        elif step == "update" and is_there:
            await memory.update(key, content=text)
            self.said.setdefault(key, []).append(text)
        elif step == "forget" and is_there:
            await memory.forget(key)
            self.unsure.add(key)
        elif step == "bring back":
            await memory.restore(key)
        elif step == "sync":
            await memory.sync(timeout=5)
        elif step == "back up":
            backed_up.unlink(missing_ok=True)
            await memory.backup(backed_up)
        elif step == "open again" or (step == "restore" and backed_up.exists()):
            await stack.aclose()
            if step == "restore":
                backup.restore(self.folder / place, backed_up, replace=True, lock_wait_s=1)
                self.said.clear()
            await self.open(place)

    def do_at_the_hub(self, step: str, text: str) -> None:
        if step in ("back up", "restore", "open again"):
            self.team.store.close()
            if step == "back up":
                self.at_hub.back_up()
            elif step == "restore":
                self.at_hub.restore()
            self.team.start()
        elif step == "meddle":
            rows = self.team.store.reader.page(ask(project=SCOPE), (MemoryStatus.LIVE,), 1_000, None)
            for row in rows[:1]:
                number = f"{row.memory.key}.99999999"
                theirs = {"memory_id": row.memory.id, "content": text, "idempotency_key": number}
                self.team.engine.answer(SCOPE, parsed("update_memory", theirs))
                self.unsure.update(KEYS)


@pytest.mark.requirement("A2", "A3", "A9", "N2", "N7")
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), min_size=1, max_size=14))
def test_whatever_is_restored_and_however_it_interleaves_all_have_the_same_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(Interleaving(Path(folder), Files(Path(folder))).play([*FIRST, *steps]))
