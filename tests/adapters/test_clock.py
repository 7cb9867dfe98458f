"""Both clocks keep the promises of the port; the manual one moves only when told."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.ports import Clock
from kingly_memory.testing import ManualClock

pytestmark = pytest.mark.requirement("UNI-008")


@pytest.fixture(params=[SystemClock, ManualClock])
def any_clock(request: pytest.FixtureRequest) -> Clock:
    clock: Clock = request.param()
    return clock


@pytest.mark.requirement("UNI-009")
def test_now_is_aware_utc(any_clock: Clock) -> None:
    assert any_clock.now().tzinfo is UTC


async def test_waiting_ends_when_the_event_is_set(any_clock: Clock) -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await any_clock.wait(event, 3_600) is True


@pytest.mark.requirement("UNI-009")
def test_a_naive_start_is_taken_as_utc() -> None:
    assert ManualClock(datetime(2026, 5, 1)).now() == datetime(2026, 5, 1, tzinfo=UTC)  # noqa: DTZ001


async def test_sleepers_wake_in_the_order_of_their_deadlines_each_at_its_own_time() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
            tasks.create_task(sleeper(name, seconds))
        await clock.advance(10)
    assert woken == [("early", 1.0), ("middle", 2.0), ("late", 3.0)]


async def test_nobody_wakes_a_moment_too_early() -> None:
    clock = ManualClock()
    event = asyncio.Event()
    waiting = asyncio.create_task(clock.wait(event, 300))
    await clock.advance(299.999)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()
    assert waiting.result() is False


def test_the_wall_clock_jumps_without_the_other() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 12, tzinfo=UTC))
    clock.jump(-3_600)
    assert clock.now() == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert clock.monotonic() == 0.0


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="jump"):
        ManualClock().tick(-1)


def test_a_tick_from_another_thread_wakes_a_sleeper() -> None:
    clock = ManualClock()

    async def sleep() -> float:
        asyncio.get_running_loop().call_soon(threading.Thread(target=clock.tick, args=(60.0,)).start)
        await clock.sleep(30)
        return clock.monotonic()

    assert asyncio.run(sleep()) == 60.0


@given(st.lists(st.floats(0.000_001, 400.0), min_size=1, max_size=20))
async def test_both_clocks_stay_together_whatever_parts_of_a_microsecond_are_slept(naps: list[float]) -> None:
    clock = ManualClock()
    start = clock.now()

    async def sleep() -> None:
        for nap in naps:
            await clock.sleep(nap)

    sleeping = asyncio.create_task(sleep())
    await clock.advance(sum(naps) + 1.0)
    assert sleeping.done()
    assert (clock.now() - start) / timedelta(seconds=1) == clock.monotonic()
