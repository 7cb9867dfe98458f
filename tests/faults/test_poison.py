"""One memory that a server will not take, or breaks on: the others pass it, and the user can do something about it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import JsonObject
from kingly_memory.settings import Pace
from kingly_memory.testing.semantic import SemanticServer, Unable
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, speaking
from tests.scripted.remote import ScriptedRemote

EAGER = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0),
    probe_interval_s=0.05,
    call_timeout_s=5.0,
)
SLOWLY = replace(EAGER, pace=replace(EAGER.pace, longest_wait_s=300.0), probe_interval_s=300.0)
"""So that nothing happens but by `sync`."""
MOST_SYNCS = 5
POISON = "poison"
PATIENCE_S = 60.0


class Delicate(SemanticServer):
    """Knows no cure for one word: says so (`refuses`), or breaks the connection over it."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__()
        self._refuses = refuses
        self.is_cured = False

    def call(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        if not self.is_cured and POISON in str(params.get("content")):
            if self._refuses:
                raise Unable("INVALID_PARAMETER", "content")
            raise ConnectionResetError
        return super().call(method, params)


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("refuses", [True, False])
async def test_a_poisonous_memory_holds_up_no_other_and_can_be_tried_again_or_dropped(
    tmp_path: Path, dialect: str, refuses: bool, tell: Tell
) -> None:
    with ScriptedRemote(**speaking(dialect)) as server:
        server.semantic = semantic = Delicate(refuses=refuses)
        home = tmp_path / "home"
        async with MemoryRouter.open(home, server.url, project="faults", settings=EAGER) as memory:
            await memory.store("a note before", key="before", significance=0.8)
            for name in ("cured", "dropped"):
                await memory.store(f"{POISON}, {name}", key=name, significance=0.8)
            for number in range(5):
                await memory.store(f"a note after, {number}", key=f"after-{number}", significance=0.8)
            await until(memory, waiting=2)
        assert len(semantic.memories) == 6
        async with MemoryRouter.open(home, server.url, project="faults", settings=EAGER) as memory:  # it survives that
            entries = {entry.key: entry for entry in await memory.outbox()}
            assert entries.keys() == {"cured", "dropped"}
            assert {entry.state.value for entry in entries.values()} <= ({"dead"} if refuses else {"pending", "leased"})
            async with asyncio.timeout(PATIENCE_S):
                # Nothing tells that what is just being sent may be dropped now.
                while await memory.outbox_drop([entries["dropped"].id]) == 0:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            semantic.is_cured = True
            await memory.outbox_retry([entries["cured"].id])
            await until(memory, waiting=0)
            assert await memory.get("dropped") is not None
    assert sum(POISON in str(held["content"]) for held in semantic.memories.values()) == 1
    tell(23, f"{'refused' if refuses else 'connection broken'}: 6 of 6 others passed")


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_commands_that_only_sync_bring_the_others_past_a_memory_that_the_server_breaks_on(
    tmp_path: Path, dialect: str, tell: Tell
) -> None:
    home = tmp_path / "home"
    with ScriptedRemote(**speaking(dialect)) as server:
        server.semantic = semantic = Delicate(refuses=False)
        async with MemoryRouter.open(home, False, project="faults", settings=EAGER) as memory:
            await memory.store(POISON, key="poison", significance=0.8)
            for number in range(6):
                await memory.store(f"a note after, {number}", key=f"after-{number}", significance=0.8)
        syncs, waiting = 0, 7
        async with asyncio.timeout(PATIENCE_S):
            while waiting > 1:
                async with MemoryRouter.open(
                    home, server.url, deliver_earlier=True, project="faults", settings=SLOWLY
                ) as memory:
                    await memory.sync(timeout=20)
                    syncs, waiting = syncs + 1, undelivered(memory)
        assert len(semantic.memories) == 6
        assert syncs <= MOST_SYNCS
    tell(23, f"connection broken: 6 of 6 others passed in {syncs} lone syncs")


async def until(memory: MemoryRouter, *, waiting: int) -> None:
    """Wait until only so many are not delivered, as an open router delivers them by itself. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        # The public status has no event to wait for.
        while undelivered(memory) != waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def undelivered(memory: MemoryRouter) -> int:
    outbox = memory._engine.view.status()["outbox"]
    return int(outbox["pending"] + outbox["leased"] + outbox["dead"])
