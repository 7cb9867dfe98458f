"""Writers killed at named points and at random, several at once: nothing acknowledged is lost, everything arrives once.

The long run is `make crash` (test_crash.py).
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kill.harness import Diary, audit, finish, run, run_and_kill, start
from tests.kill.remotes import ROUGH, HubRemote, ScriptedProcess
from tests.kill.writer import Order

POINTS = {
    "after the local commit": "MemoryStored",
    "before the claim": "DeliveryStarted",
    "after the claim": "MemoriesLeased",
    "after the send, before the acknowledgement": "MemorySent",
    "after the acknowledgement": "MemoryDelivered",
}
KILLED = -signal.SIGKILL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kill"
    folder.mkdir()
    return folder


def orders(folder: Path, url: str | None) -> Callable[..., Order]:
    """Orders for one home, each with a seed of its own."""
    seeds = iter(range(1_000_000))
    return lambda **how: Order(str(folder / "home"), url, next(seeds), **how)


@pytest.mark.requirement("UNI-010")
@pytest.mark.requirement("KNG-001")
@pytest.mark.requirement("KNG-047")
async def test_writers_killed_at_named_points_and_at_random_lose_nothing_and_deliver_once(folder: Path) -> None:
    diary = Diary()
    with ScriptedProcess(folder, ROUGH) as remote:
        order = orders(folder, remote.url)
        for turn, event in enumerate(POINTS.values()):
            assert run(order(kill_at=event, kill_count=1 + turn % 2, sync_s=20), diary) == KILLED
        chance = random.Random(1)
        for _ in range(2):
            run_and_kill(order(), diary, after_lines=chance.randint(1, 40))
        found = await audit(order(), diary, remote)
    assert diary.kills >= 6
    assert found.memories > 15
    assert found.delivered > 15
    assert found.blank(), found


async def test_writer_killed_after_the_remote_took_a_memory_whose_reply_was_lost(folder: Path) -> None:
    diary = Diary()
    with ScriptedProcess(folder, script=("ok", "lost-reply")) as remote:
        order = orders(folder, remote.url)
        assert run(order(kill_at="MemorySent", sync_s=20), diary) == KILLED
        found = await audit(order(), diary, remote)
    assert found.blank(), found


@pytest.mark.parametrize("statement", [1, 60, 160])
async def test_writer_killed_while_the_store_is_founded_leaves_a_store_that_opens(folder: Path, statement: int) -> None:
    diary = Diary()
    with ScriptedProcess(folder) as remote:
        order = orders(folder, remote.url)
        assert run(order(kill_statement=statement), diary) == KILLED
        found = await audit(order(), diary, remote)
    assert found.blank(), found


@pytest.mark.requirement("UNI-011")
async def test_two_processes_on_one_home_deliver_everything_with_hardly_a_request_too_many(folder: Path) -> None:
    diary = Diary()
    with ScriptedProcess(folder) as remote:
        order = orders(folder, remote.url)
        both = [start(order(count=60, key_space=name, new_only=True, sync_s=20)) for name in ("a", "b")]
        assert [finish(writer, diary) for writer in both] == [0, 0]
        found = await audit(order(), diary, remote)
        effects = remote.effects()
    assert found.blank(), found
    assert found.memories == 120
    assert effects.requests <= effects.effects * 1.05


@pytest.mark.requirement("UNI-011")
async def test_four_processes_on_one_home_lose_none_of_each_others_memories(folder: Path) -> None:
    diary = Diary()
    with ScriptedProcess(folder) as remote:
        order = orders(folder, remote.url)
        writers = [start(order(count=12, key_space=name)) for name in "abcd"]
        assert [finish(writer, diary) for writer in writers] == [0] * 4
        found = await audit(order(), diary, remote)
    assert len(diary.acknowledged) == len(diary.attempts) == 4 * 12
    assert found.blank(), found


async def test_kills_of_writers_and_of_the_hub_itself_leave_the_hub_with_one_copy_of_each(folder: Path) -> None:
    diary = Diary()
    remote = HubRemote(folder)
    try:
        order = orders(folder, remote.url)
        for event in ("MemorySent", "MemoriesLeased"):
            assert run(order(kill_at=event, kill_count=2, sync_s=20), diary) == KILLED
            remote.restart()
        found = await audit(order(), diary, remote)
    finally:
        remote.stop()
    assert found.delivered > 5
    assert found.blank(), found
