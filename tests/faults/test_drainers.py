"""Many processes over one home: one of them delivers, and hardly a request is made twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import Tell
from tests.kill.harness import Diary, audit, finish, start
from tests.kill.remotes import ROUGH, ScriptedProcess
from tests.kill.writer import Order

pytestmark = pytest.mark.measures

MOST_REQUESTS = 1.05


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "drain"
    folder.mkdir()
    return folder


@pytest.mark.faults
@pytest.mark.requirement("UNI-011", "KNG-047")
@pytest.mark.parametrize("drainers", [2, 10])
async def test_each_memory_is_sent_once_however_many_processes_could(folder: Path, drainers: int, tell: Tell) -> None:
    diary = Diary()
    with ScriptedProcess(folder) as remote:
        order = Order(str(folder / "home"), remote.url, 1)
        writers = [
            start(Order(order.home, order.url, number, count=60, key_space=f"w{number}", new_only=True, sync_s=60))
            for number in range(drainers)
        ]
        assert [finish(writer, diary) for writer in writers] == [0] * drainers
        found = await audit(order, diary, remote)
        effects = remote.effects()
    ratio = effects.requests / effects.effects
    tell(16, f"{drainers} processes: {effects.effects} memories, {ratio:.3f} requests each")
    assert found.blank(), found
    assert found.memories == 60 * drainers
    assert ratio <= MOST_REQUESTS


@pytest.mark.faults
@pytest.mark.requirement("UNI-010", "UNI-011")
async def test_of_ten_processes_in_rough_weather_half_are_killed_and_nothing_is_lost_or_done_twice(
    folder: Path, tell: Tell
) -> None:
    diary = Diary()
    with ScriptedProcess(folder, ROUGH) as remote:
        order = Order(str(folder / "home"), remote.url, 1)
        points = (None, "MemorySent", None, "MemoriesLeased", None, "MemoryStored", None, "DeliveryStarted", None)
        writers = [
            start(
                Order(order.home, order.url, number, count=90, key_space=f"w{number}", sync_s=60, kill_at=point)
                if point is None
                else Order(order.home, order.url, number, count=90, key_space=f"w{number}", kill_at=point, kill_count=5)
            )
            for number, point in enumerate((*points, "MemoryDelivered"))
        ]
        for writer in writers:
            finish(writer, diary)
        found = await audit(order, diary, remote)
    tell(16, f"{diary.kills} of 10 killed in rough weather: {found.delivered} delivered once")
    assert diary.kills >= 1
    assert found.blank(), found
