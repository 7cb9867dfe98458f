"""A newer version has changed the store while an older process is at work on it, and the other way round."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

from kingly_memory.adapters.local import sql
from tests.cli_runner import ROOT, environment, process
from tests.faults.conftest import Tell
from tests.store_samples import number_layout

WRITER = """
import asyncio, sys
from kingly_memory import MemoryRouter, Settings, StoreError
async def main(home):
    async with MemoryRouter.open(home, project="old", settings=Settings(durability="process")) as memory:
        for number in range(100_000):
            try:
                await memory.store(f"memory {number}", key=f"k{number}")
            except StoreError as error:
                print(type(error).__name__, flush=True)
                found = await memory.search("memory")
                print(len(found), flush=True)
                return
            print(number, flush=True)
asyncio.run(main(sys.argv[1]))
"""


def test_an_older_process_writes_nothing_after_a_newer_one_has_migrated_the_store(tmp_path: Path, tell: Tell) -> None:
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, cwd=ROOT, env=environment(), text=True
    ) as old:
        assert old.stdout is not None
        for _ in range(30):
            old.stdout.readline()
        connection = sqlite3.connect(home / "store" / "cache.db", timeout=30, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        number_layout(connection, sql.LAYOUT + 1)
        (before,) = connection.execute("SELECT count(*) FROM Cache").fetchone()
        connection.execute("COMMIT")
        said = old.stdout.read().split()
    assert said[-2] == "StoreTooNew"
    assert int(said[-1]) > 0  # it still reads
    (after,) = connection.execute("SELECT count(*) FROM Cache").fetchone()
    connection.close()
    assert after == before
    told = process("store", "one more", "--home", str(home))
    assert told.code == 1
    assert "Upgrade kingly-memory" in told.err
    tell(24, f"{after - before} rows written after the migration")


def test_two_processes_that_found_one_store_at_once_found_one(tmp_path: Path) -> None:
    async def founded() -> list[int]:
        command = (sys.executable, "-m", "kingly_memory", "store", "--home", str(tmp_path / "home"))
        running = [
            await asyncio.create_subprocess_exec(
                *command, f"note {number}", env=environment(), stdout=subprocess.DEVNULL
            )
            for number in range(4)
        ]
        return [await one.wait() for one in running]

    assert asyncio.run(founded()) == [0] * 4
    assert process("status", "--home", str(tmp_path / "home"), "--json").json["memories"]["total"] == 4
