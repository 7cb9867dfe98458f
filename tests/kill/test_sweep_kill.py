"""Sweeps and undoings killed before any of their statements: every memory is whole, live or in the archive, and the
next sweep or undoing goes on where that one was. The long run is `make crash`."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kingly_memory.models import MemoryStatus
from kingly_memory.validation import Imported, draft
from tests.kill.harness import all_rows, complaints
from tests.kill.verbs import killed, opened

FADED = 48


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with what has faded, linked to something fresh."""
    home = tmp_path_factory.mktemp("seeded") / "home"
    asyncio.run(seed(home))
    return home


@pytest.fixture
def home(seeded: Path, tmp_path: Path) -> Path:
    shutil.copytree(seeded, tmp_path / "home")
    return tmp_path / "home"


async def seed(home: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=400)
    async with opened(home) as memory:
        await memory.store("fresh", key="fresh")
        await memory.remember(
            Imported(
                draft(text(number), key=f"k{number}", created_at=long_ago),
                updated_at=long_ago,
            )
            for number in range(FADED)
        )
        for number in range(0, FADED, 8):
            await memory.link_memories("fresh", f"k{number}")


def text(number: int) -> str:
    return f"faded memory {number} " + "lantern harbour granite " * 8


def archived(home: Path) -> set[str]:
    """The keys of what is in the archive, after making sure that everything is whole and where it says it is."""
    assert complaints(home) == []
    rows = {row.memory.key or "": row for row in all_rows(home)}
    assert {key: row.memory.content for key, row in rows.items() if key != "fresh"} == {
        f"k{number}": text(number) for number in range(FADED)
    }
    assert {row.status for row in rows.values()} <= {MemoryStatus.LIVE, MemoryStatus.ARCHIVED}
    assert rows["fresh"].status is MemoryStatus.LIVE
    return {key for key, row in rows.items() if row.status is MemoryStatus.ARCHIVED}


async def check_goes_on(home: Path) -> None:
    """What was taken is known and comes back; what was not is taken by the next sweep; nothing is taken twice."""
    before = archived(home)
    async with opened(home) as memory:
        entries = (await memory.archived()).entries
        assert {one.memory.key for one in entries if one.why is not None} == before
        report = await memory.sweep(["lifetimes", "strength"])
        assert report.archived + len(before) == FADED
        # A sweep that found nothing to do is none to take back: then it is the one that was killed.
        assert await memory.undo_sweep() == (report.archived or len(before), 0)
        for key in before:
            await memory.restore(key)
        links = await memory.links("fresh")
        assert len(links) == FADED // 8
    assert archived(home) == set()


@pytest.mark.parametrize("statement", [1, 230, 380])
async def test_sweep_killed_before_a_statement_loses_nothing_and_the_next_one_goes_on(
    home: Path, statement: int
) -> None:
    assert killed(home, "sweep", statement)
    await check_goes_on(home)


async def test_undoing_killed_before_a_statement_goes_on(home: Path) -> None:
    async with opened(home) as memory:
        await memory.sweep(["strength"])
    assert killed(home, "undo", 230)
    left = len(archived(home))
    async with opened(home) as memory:
        assert await memory.undo_sweep() == (left, 0)
    assert archived(home) == set()


@pytest.mark.crash
@pytest.mark.requirement("UNI-010")
async def test_kills_swept_over_the_statements_of_a_sweep(home: Path, tmp_path: Path) -> None:
    kills, taken = 0, set()
    for statement in range(1, 10_000, 6):
        one = tmp_path / f"home-{statement}"
        shutil.copytree(home, one)
        if not killed(one, "sweep", statement):
            break
        kills += 1
        taken.add(len(archived(one)))
        await check_goes_on(one)
        shutil.rmtree(one)
    assert kills >= 50
    assert {0, FADED} < taken
