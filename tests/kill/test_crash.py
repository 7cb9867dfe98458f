"""The long run (`make crash`): hundreds of kills, swept and random, in rough weather; then thousands of deliveries."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kingly_memory.settings import Durability
from tests.kill.harness import (
    Diary,
    Findings,
    all_rows,
    audit,
    complaints,
    finish,
    kill,
    lost,
    run,
    run_and_kill,
    start,
)
from tests.kill.remotes import ROUGH, ScriptedProcess
from tests.kill.writer import Order

pytestmark = pytest.mark.crash

EVENTS = ("MemoryStored", "DeliveryStarted", "MemoriesLeased", "MemorySent", "MemoryDelivered")
DURABILITIES: tuple[Durability, ...] = ("process", "power")


@dataclass
class Tally:
    """What all the runs came to."""

    kills: int = 0
    deliveries: int = 0
    dropped: int = 0
    lost: int = 0
    twice: int = 0
    leaked: int = 0
    damaged: int = 0

    def add(self, diary: Diary, found: Findings) -> None:
        self.kills += diary.kills
        self.deliveries += found.delivered
        self.dropped += found.dropped
        self.lost += len(found.lost) + len(found.undelivered)
        self.twice += len(found.duplicated)
        self.leaked += found.leaked
        self.damaged += len(found.damaged)

    def __str__(self) -> str:
        return (
            f"crash: {self.kills:,} kills, {self.deliveries:,} deliveries, {self.dropped:,} replies dropped: "
            f"{self.lost} lost, {self.twice} applied twice, {self.leaked} at or below 0.3 sent, {self.damaged} damaged"
        )


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "crash"
    folder.mkdir()
    return folder


@pytest.fixture(params=DURABILITIES)
def orders(request: pytest.FixtureRequest, folder: Path) -> Callable[..., Order]:
    """Orders for one home at each durability, each with a seed of its own."""
    seeds = iter(range(1_000_000))
    return lambda url=None, **how: Order(
        **{"home": str(folder / "home"), "url": url, "seed": next(seeds), "durability": request.param, **how}
    )


@pytest.mark.requirement("UNI-010")
async def test_kills_swept_over_every_event_and_at_random(
    folder: Path, orders: Callable[..., Order], tally: Tally
) -> None:
    diary = Diary()
    chance = random.Random(7)
    with ScriptedProcess(folder, ROUGH) as remote:
        for event in EVENTS:
            for count in range(1, 13):
                run(orders(remote.url, kill_at=event, kill_count=count, sync_s=20), diary)
        for number in range(120):
            if number >= 60 and diary.kills >= 100:
                break  # a writer that has said all it had to say is not killed, so it may take more of them
            run_and_kill(orders(remote.url, count=60), diary, after_lines=chance.randint(1, 100))
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert diary.kills >= 100
    assert found.blank(), found


@pytest.mark.requirement("UNI-010")
async def test_kills_swept_over_the_statements_of_a_process_that_stores_and_delivers(
    folder: Path, orders: Callable[..., Order], tally: Tally
) -> None:
    diary = Diary()
    with ScriptedProcess(folder, ROUGH) as remote:
        for statement in range(1, 400, 8):
            run(orders(remote.url, kill_statement=statement), diary)
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert diary.kills >= 40
    assert found.blank(), found


@pytest.mark.requirement("UNI-010")
def test_kills_swept_over_the_founding_of_a_store(folder: Path, orders: Callable[..., Order], tally: Tally) -> None:
    for statement in range(1, 151, 2):
        diary, home = Diary(), folder / f"home-{statement}"
        run(orders(home=str(home), kill_statement=statement), diary)
        assert run(orders(home=str(home), count=6), diary) == 0, statement
        assert complaints(home) == [], statement
        assert lost(all_rows(home), diary) == [], statement
        tally.kills += diary.kills


@pytest.mark.requirement("KNG-047")
async def test_thousands_of_deliveries_in_rough_weather_by_two_processes_at_a_time(
    folder: Path, orders: Callable[..., Order], tally: Tally
) -> None:
    diary = Diary()
    chance = random.Random(11)
    with ScriptedProcess(folder, ROUGH) as remote:
        for number in range(9):
            steady = start(orders(remote.url, count=600, key_space=f"s{number}", sync_s=60))
            run_and_kill(orders(remote.url, count=600, key_space=f"k{number}"), diary, chance.randint(400, 1_000))
            assert finish(steady, diary) == 0
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert found.delivered >= 2_500
    assert found.blank(), found


@pytest.mark.requirement("UNI-010")
async def test_kills_of_writers_while_they_deliver_by_mcp(
    folder: Path, orders: Callable[..., Order], tally: Tally
) -> None:
    diary = Diary()
    chance = random.Random(13)
    with ScriptedProcess(folder, ROUGH, dialect="mcp") as remote:
        for event in EVENTS:
            for count in range(1, 4):
                run(orders(remote.url, kill_at=event, kill_count=count, sync_s=20), diary)
        for _ in range(10):
            run_and_kill(orders(remote.url, count=60), diary, after_lines=chance.randint(1, 100))
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert diary.kills >= 15
    assert found.blank(), found


@pytest.mark.requirement("KNG-047")
async def test_ten_processes_on_one_home_of_which_most_are_killed(
    folder: Path, orders: Callable[..., Order], tally: Tally
) -> None:
    diary = Diary()
    chance = random.Random(17)
    with ScriptedProcess(folder, ROUGH) as remote:
        for number in range(2):
            writers = [start(orders(remote.url, count=90, key_space=f"{number}{name}")) for name in "abcdefghij"]
            for writer in writers[:8]:
                kill(writer, diary, chance.randint(20, 160))
            assert [finish(writer, diary) for writer in writers[8:]] == [0, 0]
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert diary.kills >= 8
    assert found.blank(), found


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("dialect", ["json-call", "mcp"])
async def test_kills_of_the_remote_while_it_is_sent_a_backlog(
    folder: Path, orders: Callable[..., Order], tally: Tally, dialect: str
) -> None:
    diary = Diary()
    with ScriptedProcess(folder, ROUGH, dialect=dialect) as remote, ThreadPoolExecutor(1) as reading:
        for _ in range(8):
            finished = reading.submit(run, orders(remote.url, count=120, sync_s=20), diary)
            diary.kills += killed_as_it_works(remote, finished, 3)
            assert finished.result() == 0
        found = await audit(orders(remote.url), diary, remote)
    tally.add(diary, found)
    assert diary.kills >= 6
    assert found.blank(), found


def killed_as_it_works(remote: ScriptedProcess, finished: Future[int], most: int) -> int:
    """Kill the remote whenever it has done a few things more, until the writer has finished; returns how often."""
    chance = random.Random(19)
    for kills in range(most):
        until = remote.effect_count() + chance.randint(1, 6)
        while remote.effect_count() < until:
            if finished.done():
                return kills
            time.sleep(0.005)
        remote.restart()
    return most


def test_the_whole_run_came_to_hundreds_of_kills_and_thousands_of_deliveries_and_no_loss(
    tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{tally}\n")
    assert tally.kills >= 300
    assert tally.deliveries >= 5_000
    assert (tally.lost, tally.twice, tally.leaked, tally.damaged) == (0, 0, 0, 0)
