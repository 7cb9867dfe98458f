"""A home that goes on from a backup: what it says from then on reaches the hub, whatever was said after the backup."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kingly_memory.adapters.local import backup
from tests.hub.machines import Team, texts


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
